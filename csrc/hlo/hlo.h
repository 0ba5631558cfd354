// Typed StableHLO: a builder that collects text, the values in it, and one function for each StableHLO op.
//
// A Value belongs to the Builder that made it and must not outlive it. Nothing here is shared between threads.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/type.h"

namespace tpu::hlo {

class Builder;

// A result inside a module.
struct Value {
  Builder* builder = nullptr;
  int id = -1;
  Type type;
  // Came from a Python number: takes part in type promotion by category only.
  bool number = false;

  DType dtype() const { return type.dtype; }
  const Dims& dims() const { return type.dims; }
  int64_t dim(int64_t d) const { return type.dims[size_t(d)]; }
  int64_t rank() const { return type.rank(); }
  int64_t count() const { return type.count(); }
  std::string name() const;
};

using Values = std::vector<Value>;
// Builds the body of a region from its block arguments.
using Body = std::function<Values(const Values&)>;

enum class Precision : uint8_t { Default, High, Highest };

// What a whole module is built under; part of every key.
struct Options {
  Precision precision = Precision::Highest;  // of float32 contractions: torch.set_float32_matmul_precision
  DType default_float = DType::F32;          // torch.get_default_dtype()
  bool checks = false;                       // emit what require() asks for (debug mode)
  bool operator==(const Options&) const = default;
};

class Builder {
 public:
  explicit Builder(Options options = {}) : options_(options) {}
  const Options& options() const { return options_; }
  Value param(Type type, bool number = false);
  // Marks parameter `param` as the one whose memory output `output` takes over.
  void alias(int param, int output);
  // Appends `%n = <rhs>` for one result, or `%n:k = <rhs>` for several.
  Value emit(const std::string& rhs, Type type);
  Values emit(const std::string& rhs, const std::vector<Type>& types);
  // The text of a region whose block arguments have these types.
  std::string region(const std::vector<Type>& arguments, const Body& body);
  // The finished module, with `outputs` as what main returns.
  std::string module(std::span<const Value> outputs) const;
  int param_count() const { return int(params_.size()); }
  // In debug mode the program also returns `holds` (any shape of Pred, all must hold), and the runtime raises an
  // IndexError with `text` where it does not. Ignored otherwise, and inside regions.
  void require(Value holds, std::string text);
  struct Check {
    Value holds;
    std::string text;
  };
  const std::vector<Check>& checks() const { return checks_; }

 private:
  struct Param {
    int id;
    Type type;
    int output = -1;
  };
  std::vector<Param> params_;
  Options options_;
  std::vector<Check> checks_;
  std::string body_;
  int next_ = 0;
  int depth_ = 0;  // of open regions
};

// ---- attributes, as text
std::string list(std::span<const int64_t> v);                        // [1, 2]
std::string array(std::span<const int64_t> v);                       // array<i64: 1, 2>
std::string array(const std::vector<bool>& v);                       // array<i1: true, false>
std::string matrix(std::span<const std::pair<int64_t, int64_t>> v);  // dense<[[1, 2]]> : tensor<1x2xi64>

// Any op in generic form: "name"(operands) {attributes} : (types) -> type.
Value op(std::string_view name, std::span<const Value> operands, Type type, const std::string& attributes = "");
Value op(std::string_view name, std::initializer_list<Value> operands, Type type, const std::string& attributes = "");
Values op(std::string_view name, std::span<const Value> operands, const std::vector<Type>& types,
          const std::string& attributes, const std::string& regions = "");

// ---- constants
Value constant(Builder& b, double v, Type type);
Value constant(Builder& b, int64_t v, Type type);
// One element for each entry, a vector of the given integer type.
Value constant(Builder& b, std::span<const int64_t> v, DType dtype);
Value like(Value x, double v);  // a constant of x's type
Value like(Value x, int64_t v);
inline Value like(Value x, int v) { return like(x, int64_t(v)); }
Value scalar(Value x, double v);  // a 0-d constant of x's dtype
Value iota(Builder& b, Type type, int64_t dim);
// Limits of a dtype as 0-d constants: what maximum/minimum start from (infinities for floats).
Value lowest(Builder& b, DType t);
Value highest(Builder& b, DType t);

// ---- shape
// PyTorch's cast: to bool is "not zero", complex to real drops the imaginary part, float to int truncates.
Value convert(Value x, DType t);
Value bitcast(Value x, Type type);
Value reshape(Value x, Dims dims);
Value transpose(Value x, Dims permutation);
Value broadcast_in_dim(Value x, Dims dims, Dims positions);
// NumPy broadcasting of x to dims: leading dims are added, dims of size one are stretched.
Value broadcast(Value x, const Dims& dims);
// Same rank: dims of size one stretch to y's.
inline Value stretch(Value x, Value y) { return broadcast(x, y.dims()); }
Value slice(Value x, const Dims& start, const Dims& limit, const Dims& step);
// One dim only; the others stay whole.
Value slice(Value x, int64_t dim, int64_t start, int64_t limit, int64_t step = 1);
Value dynamic_slice(Value x, const Values& start, Dims sizes);
Value dynamic_update_slice(Value x, Value update, const Values& start);
Value pad(Value x, Value value, const Dims& low, const Dims& high, const Dims& interior);
Value concatenate(const Values& xs, int64_t dim);
Value reverse(Value x, const Dims& dims);

// ---- elementwise; operands have one type (see ops/promote.h for PyTorch's promotion)
Value abs(Value x);  // of a complex value: real
Value cbrt(Value x);
Value ceil(Value x);
Value cosine(Value x);
Value count_leading_zeros(Value x);
Value exponential(Value x);
Value expm1(Value x);
Value floor(Value x);
Value imag(Value x);
Value is_finite(Value x);
Value log(Value x);
Value log1p(Value x);
Value logistic(Value x);
Value negate(Value x);
Value not_(Value x);
Value popcnt(Value x);
Value real(Value x);
Value round_half_away(Value x);
Value round_half_even(Value x);
Value rsqrt(Value x);
Value sign(Value x);
Value sine(Value x);
Value sqrt(Value x);
Value tan(Value x);
Value tanh(Value x);

Value add(Value x, Value y);
Value and_(Value x, Value y);
Value atan2(Value x, Value y);
Value complex(Value re, Value im);
Value divide(Value x, Value y);
Value maximum(Value x, Value y);  // NaN wins
Value minimum(Value x, Value y);  // NaN wins
Value multiply(Value x, Value y);
Value or_(Value x, Value y);
Value power(Value x, Value y);
Value remainder(Value x, Value y);  // sign of x
Value shift_left(Value x, Value y);
Value shift_right_arithmetic(Value x, Value y);
Value shift_right_logical(Value x, Value y);
Value subtract(Value x, Value y);
Value xor_(Value x, Value y);

enum class Compare : uint8_t { EQ, NE, GE, GT, LE, LT };
Value compare(Value x, Value y, Compare direction);
Value select(Value condition, Value x, Value y);
Value clamp(Value low, Value x, Value high);

inline Value operator+(Value x, Value y) { return add(x, y); }
inline Value operator-(Value x, Value y) { return subtract(x, y); }
inline Value operator*(Value x, Value y) { return multiply(x, y); }
inline Value operator/(Value x, Value y) { return divide(x, y); }
inline Value operator-(Value x) { return negate(x); }
inline Value operator+(Value x, double y) { return add(x, like(x, y)); }
inline Value operator-(Value x, double y) { return subtract(x, like(x, y)); }
inline Value operator*(Value x, double y) { return multiply(x, like(x, y)); }
inline Value operator/(Value x, double y) { return divide(x, like(x, y)); }
inline Value operator+(double x, Value y) { return add(like(y, x), y); }
inline Value operator-(double x, Value y) { return subtract(like(y, x), y); }
inline Value operator*(double x, Value y) { return multiply(like(y, x), y); }
inline Value operator/(double x, Value y) { return divide(like(y, x), y); }
inline Value operator==(Value x, Value y) { return compare(x, y, Compare::EQ); }
inline Value operator!=(Value x, Value y) { return compare(x, y, Compare::NE); }
inline Value operator>=(Value x, Value y) { return compare(x, y, Compare::GE); }
inline Value operator>(Value x, Value y) { return compare(x, y, Compare::GT); }
inline Value operator<=(Value x, Value y) { return compare(x, y, Compare::LE); }
inline Value operator<(Value x, Value y) { return compare(x, y, Compare::LT); }

// An op of the chlo dialect with one or two operands and the first one's type: "erf", "lgamma", "digamma", "erf_inv",
// "acos", "asin", "atan", "acosh", "asinh", "atanh", "cosh", "sinh", "bessel_i1e", "polygamma", "zeta", "next_after".
Value chlo(std::string_view name, std::initializer_list<Value> operands);

// ---- contraction
struct DotDims {
  Dims batch_x, batch_y, contract_x, contract_y;
};
// Result dims: batch, free dims of x, free dims of y. `result` widens the accumulator, e.g. F32 for bf16 operands.
Value dot(Value x, Value y, const DotDims& dims, DType result);

struct Convolution {
  Dims stride, low, high, dilation, input_dilation;  // one entry for each spatial dim; low/high are paddings
  int64_t groups = 1;
  int64_t batch_groups = 1;
  // Where batch/feature and the spatial dims sit. The default is NCHW x OIHW -> NCHW.
  Dims input_order, kernel_order,
      output_order;           // {batch, feature, spatial...}; {out, in, spatial...}; {batch, feature, spatial...}
  std::vector<bool> reverse;  // flips the kernel along a spatial dim
};
Value convolution(Value x, Value kernel, const Convolution& c, DType result);

// ---- reductions
// Reduces x over dims (dropped from the result) by a binary StableHLO op: "add", "maximum", "minimum", "multiply",
// "and", "or".
Value reduce(Value x, std::string_view op, Value init, const Dims& dims);
// Several arrays at once; body takes (accumulators..., elements...) and returns the new accumulators.
Values reduce(const Values& xs, const Values& inits, const Dims& dims, const Body& body);

struct Window {
  Dims size, stride, low, high, dilation;  // one entry for each dim of the operand
};
Value reduce_window(Value x, std::string_view op, Value init, const Window& w);
Values reduce_window(const Values& xs, const Values& inits, const Window& w, const Body& body);

// ---- gather, scatter, sort
struct GatherDims {
  Dims offset, collapsed, operand_batch, index_batch, start_map;
  int64_t index_vector = 0;
};
Value gather(Value x, Value index, const GatherDims& dims, Dims slice_sizes, Dims result_dims, bool sorted = false);

struct ScatterDims {
  Dims window, inserted, operand_batch, index_batch, to_operand;
  int64_t index_vector = 0;
};
// body(old, update) gives what is stored.
Value scatter(Value x, Value index, Value update, const ScatterDims& dims, const Body& body, bool unique = false,
              bool sorted = false);

// Sorts all arrays together along dim; less(x0, y0, x1, y1, ...) compares.
Values sort(const Values& xs, int64_t dim, bool stable, const Body& less);

// ---- control, random numbers, linear algebra
Values while_loop(const Values& init, const Body& condition, const Body& body);
enum class RngAlgorithm : uint8_t { Philox, ThreeFry };
// state: u64[2] (ThreeFry) or u64[2..3] (Philox). Gives {next state, bits}.
std::pair<Value, Value> rng_bit_generator(Value state, Type bits, RngAlgorithm algorithm);
Value fft(Value x, std::string_view kind, const Dims& lengths);  // "FFT", "IFFT", "RFFT", "IRFFT"; over the last dims
Value cholesky(Value x, bool lower);
Value triangular_solve(Value a, Value b, bool left, bool lower, bool unit_diagonal, bool transpose);
Values optimization_barrier(const Values& xs);

}  // namespace tpu::hlo
