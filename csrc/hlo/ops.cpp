// One function for each StableHLO op: what its result type is and how its attributes are spelled.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "hlo/hlo.h"

namespace tpu::hlo {
namespace {

bool contains(const Dims& dims, int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); }

Dims without(const Dims& dims, const Dims& dropped) {
  Dims kept;
  for (int64_t d = 0; d < int64_t(dims.size()); ++d)
    if (!contains(dropped, d)) kept.push_back(dims[size_t(d)]);
  return kept;
}

std::vector<Type> scalars(std::span<const Value> xs) {
  std::vector<Type> types;
  for (const Value& x : xs) types.push_back({x.dtype(), {}});
  return types;
}

Body binary(std::string_view name) {
  return
      [name = "stablehlo." + std::string(name)](const Values& v) { return Values{op(name, {v[0], v[1]}, v[0].type)}; };
}

std::string padding(const Dims& low, const Dims& high) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t i = 0; i < low.size(); ++i) pairs.emplace_back(low[i], high[i]);
  return matrix(pairs);
}

const char* name(Precision p) {
  return p == Precision::Default ? "DEFAULT" : p == Precision::High ? "HIGH" : "HIGHEST";
}

std::string precision_config(Precision p) {
  std::string one = std::string("#stablehlo<precision ") + name(p) + ">";
  return "precision_config = [" + one + ", " + one + "]";
}

Value unary(std::string_view name, Value x) { return op(name, {x}, x.type); }
Value pairwise(std::string_view name, Value x, Value y) {
  check(x.type == y.type, Code::Internal, name, ": operand types differ, ", x.type.str(), " and ", y.type.str());
  return op(name, {x, y}, x.type);
}

}  // namespace

// ---- shape
Value convert(Value x, DType t) {
  if (x.dtype() == t) return x;
  const bool number = x.number;
  if (t == DType::Pred) {
    x = compare(x, like(x, 0), Compare::NE);
  } else {
    if (is_complex(x.dtype()) && !is_complex(t)) x = real(x);
    if (x.dtype() != t) x = op("stablehlo.convert", {x}, {t, x.dims()});
  }
  x.number = number;
  return x;
}

Value bitcast(Value x, Type type) { return x.type == type ? x : op("stablehlo.bitcast_convert", {x}, std::move(type)); }

Value reshape(Value x, Dims dims) {
  if (x.dims() == dims) return x;
  check(x.count() == element_count(dims), Code::Internal, "reshape: ", x.type.str(), " to ", str(dims));
  return op("stablehlo.reshape", {x}, {x.dtype(), std::move(dims)});
}

Value transpose(Value x, Dims permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  Dims dims;
  for (int64_t p : permutation) dims.push_back(x.dim(p));
  return op("stablehlo.transpose", {x}, {x.dtype(), dims}, "permutation = " + array(permutation));
}

Value broadcast_in_dim(Value x, Dims dims, Dims positions) {
  return op("stablehlo.broadcast_in_dim", {x}, {x.dtype(), std::move(dims)},
            "broadcast_dimensions = " + array(positions));
}

Value broadcast(Value x, const Dims& dims) {
  if (x.dims() == dims) return x;
  check(x.rank() <= int64_t(dims.size()), Code::Internal, "broadcast: ", x.type.str(), " to ", str(dims));
  Dims positions(size_t(x.rank()));
  std::iota(positions.begin(), positions.end(), int64_t(dims.size()) - x.rank());
  const bool number = x.number;
  x = broadcast_in_dim(x, dims, positions);
  x.number = number;
  return x;
}

Value slice(Value x, const Dims& start, const Dims& limit, const Dims& step) {
  Type type{x.dtype(), {}};
  bool whole = true;
  for (size_t i = 0; i < start.size(); ++i) {
    type.dims.push_back(std::max<int64_t>(0, (limit[i] - start[i] + step[i] - 1) / step[i]));
    whole = whole && type.dims[i] == x.dims()[i];
  }
  if (whole) return x;
  return op("stablehlo.slice", {x}, type,
            "start_indices = " + array(start) + ", limit_indices = " + array(limit) + ", strides = " + array(step));
}

Value slice(Value x, int64_t dim, int64_t start, int64_t limit, int64_t step) {
  Dims starts(size_t(x.rank()), 0), limits = x.dims(), steps(size_t(x.rank()), 1);
  starts[size_t(dim)] = start;
  limits[size_t(dim)] = limit;
  steps[size_t(dim)] = step;
  return slice(x, starts, limits, steps);
}

Value dynamic_slice(Value x, const Values& start, Dims sizes) {
  Values operands{x};
  operands.insert(operands.end(), start.begin(), start.end());
  std::string attributes = "slice_sizes = " + array(sizes);
  return op("stablehlo.dynamic_slice", operands, {x.dtype(), std::move(sizes)}, attributes);
}

Value dynamic_update_slice(Value x, Value update, const Values& start) {
  Values operands{x, update};
  operands.insert(operands.end(), start.begin(), start.end());
  return op("stablehlo.dynamic_update_slice", operands, x.type);
}

Value pad(Value x, Value value, const Dims& low, const Dims& high, const Dims& interior) {
  Type type{x.dtype(), {}};
  for (size_t i = 0; i < low.size(); ++i)
    type.dims.push_back(low[i] + high[i] + x.dims()[i] + std::max<int64_t>(0, x.dims()[i] - 1) * interior[i]);
  return op("stablehlo.pad", {x, value}, type,
            "edge_padding_low = " + array(low) + ", edge_padding_high = " + array(high) +
                ", interior_padding = " + array(interior));
}

Value concatenate(const Values& xs, int64_t dim) {
  if (xs.size() == 1) return xs[0];
  Type type = xs[0].type;
  type.dims[size_t(dim)] = 0;
  for (const Value& x : xs) type.dims[size_t(dim)] += x.dim(dim);
  return op("stablehlo.concatenate", xs, type, "dimension = " + std::to_string(dim) + " : i64");
}

Value reverse(Value x, const Dims& dims) {
  return dims.empty() ? x : op("stablehlo.reverse", {x}, x.type, "dimensions = " + array(dims));
}

// ---- elementwise
Value abs(Value x) { return op("stablehlo.abs", {x}, {real_type(x.dtype()), x.dims()}); }
Value cbrt(Value x) { return unary("stablehlo.cbrt", x); }
Value ceil(Value x) { return unary("stablehlo.ceil", x); }
Value cosine(Value x) { return unary("stablehlo.cosine", x); }
Value count_leading_zeros(Value x) { return unary("stablehlo.count_leading_zeros", x); }
Value exponential(Value x) { return unary("stablehlo.exponential", x); }
Value expm1(Value x) { return unary("stablehlo.exponential_minus_one", x); }
Value floor(Value x) { return unary("stablehlo.floor", x); }
Value imag(Value x) { return op("stablehlo.imag", {x}, {real_type(x.dtype()), x.dims()}); }
Value is_finite(Value x) { return op("stablehlo.is_finite", {x}, {DType::Pred, x.dims()}); }
Value log(Value x) { return unary("stablehlo.log", x); }
Value log1p(Value x) { return unary("stablehlo.log_plus_one", x); }
Value logistic(Value x) { return unary("stablehlo.logistic", x); }
Value negate(Value x) { return unary("stablehlo.negate", x); }
Value not_(Value x) { return unary("stablehlo.not", x); }
Value popcnt(Value x) { return unary("stablehlo.popcnt", x); }
Value real(Value x) { return op("stablehlo.real", {x}, {real_type(x.dtype()), x.dims()}); }
Value round_half_away(Value x) { return unary("stablehlo.round_nearest_afz", x); }
Value round_half_even(Value x) { return unary("stablehlo.round_nearest_even", x); }
Value rsqrt(Value x) { return unary("stablehlo.rsqrt", x); }
Value sign(Value x) { return unary("stablehlo.sign", x); }
Value sine(Value x) { return unary("stablehlo.sine", x); }
Value sqrt(Value x) { return unary("stablehlo.sqrt", x); }
Value tan(Value x) { return unary("stablehlo.tan", x); }
Value tanh(Value x) { return unary("stablehlo.tanh", x); }

Value add(Value x, Value y) { return pairwise("stablehlo.add", x, y); }
Value and_(Value x, Value y) { return pairwise("stablehlo.and", x, y); }
Value atan2(Value x, Value y) { return pairwise("stablehlo.atan2", x, y); }
Value complex(Value re, Value im) {
  return op("stablehlo.complex", {re, im}, {re.dtype() == DType::F64 ? DType::C128 : DType::C64, re.dims()});
}
Value divide(Value x, Value y) { return pairwise("stablehlo.divide", x, y); }
Value maximum(Value x, Value y) { return pairwise("stablehlo.maximum", x, y); }
Value minimum(Value x, Value y) { return pairwise("stablehlo.minimum", x, y); }
Value multiply(Value x, Value y) { return pairwise("stablehlo.multiply", x, y); }
Value or_(Value x, Value y) { return pairwise("stablehlo.or", x, y); }
Value power(Value x, Value y) { return pairwise("stablehlo.power", x, y); }
Value remainder(Value x, Value y) { return pairwise("stablehlo.remainder", x, y); }
Value shift_left(Value x, Value y) { return pairwise("stablehlo.shift_left", x, y); }
Value shift_right_arithmetic(Value x, Value y) { return pairwise("stablehlo.shift_right_arithmetic", x, y); }
Value shift_right_logical(Value x, Value y) { return pairwise("stablehlo.shift_right_logical", x, y); }
Value subtract(Value x, Value y) { return pairwise("stablehlo.subtract", x, y); }
Value xor_(Value x, Value y) { return pairwise("stablehlo.xor", x, y); }

Value compare(Value x, Value y, Compare direction) {
  constexpr const char* kNames[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
  check(x.type == y.type, Code::Internal, "compare: operand types differ, ", x.type.str(), " and ", y.type.str());
  return op("stablehlo.compare", {x, y}, {DType::Pred, x.dims()},
            std::string("comparison_direction = #stablehlo<comparison_direction ") + kNames[size_t(direction)] + ">");
}

Value select(Value condition, Value x, Value y) {
  check(x.type == y.type, Code::Internal, "select: operand types differ, ", x.type.str(), " and ", y.type.str());
  return op("stablehlo.select", {condition, x, y}, x.type);
}

Value clamp(Value low, Value x, Value high) { return op("stablehlo.clamp", {low, x, high}, x.type); }

Value chlo(std::string_view name, std::initializer_list<Value> operands) {
  return op("chlo." + std::string(name), operands, operands.begin()->type);
}

// ---- contraction
Value dot(Value x, Value y, const DotDims& dims, DType result) {
  Type type{result, {}};
  for (int64_t d : dims.batch_x) type.dims.push_back(x.dim(d));
  for (const auto& [v, batch, contract] :
       {std::tie(x, dims.batch_x, dims.contract_x), std::tie(y, dims.batch_y, dims.contract_y)})
    for (int64_t d = 0; d < v.rank(); ++d)
      if (!contains(batch, d) && !contains(contract, d)) type.dims.push_back(v.dim(d));
  return op("stablehlo.dot_general", {x, y}, type,
            "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = " + list(dims.batch_x) +
                ", rhs_batching_dimensions = " + list(dims.batch_y) + ", lhs_contracting_dimensions = " +
                list(dims.contract_x) + ", rhs_contracting_dimensions = " + list(dims.contract_y) + ">, " +
                precision_config(x.builder->options().precision));
}

namespace {

Dims default_order(int64_t rank) {
  Dims order(size_t(rank), 0);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// "[b, f, 0, 1]": what each dim of the operand is.
std::string layout(const Dims& order, const char* first, const char* second) {
  std::vector<std::string> names(order.size());
  names[size_t(order[0])] = first;
  names[size_t(order[1])] = second;
  for (size_t i = 2; i < order.size(); ++i) names[size_t(order[i])] = std::to_string(i - 2);
  std::string text = "[";
  for (size_t i = 0; i < names.size(); ++i) text += (i ? ", " : "") + names[i];
  return text + "]";
}

}  // namespace

Value convolution(Value x, Value kernel, const Convolution& c, DType result) {
  const size_t spatial = c.stride.size();
  const Dims in = c.input_order.empty() ? default_order(x.rank()) : c.input_order;
  const Dims ker = c.kernel_order.empty() ? default_order(x.rank()) : c.kernel_order;
  const Dims out = c.output_order.empty() ? default_order(x.rank()) : c.output_order;
  const Dims input_dilation = c.input_dilation.empty() ? Dims(spatial, 1) : c.input_dilation;
  const std::vector<bool> reverse = c.reverse.empty() ? std::vector<bool>(spatial, false) : c.reverse;
  Type type{result, Dims(in.size(), 0)};
  type.dims[size_t(out[0])] = x.dim(in[0]) / c.batch_groups;
  type.dims[size_t(out[1])] = kernel.dim(ker[0]);
  for (size_t i = 0; i < spatial; ++i) {
    auto dilated = [](int64_t size, int64_t by) { return size == 0 ? 0 : (size - 1) * by + 1; };
    const int64_t size = dilated(x.dim(in[i + 2]), input_dilation[i]) + c.low[i] + c.high[i];
    const int64_t window = dilated(kernel.dim(ker[i + 2]), c.dilation[i]);
    type.dims[size_t(out[i + 2])] = size < window ? 0 : (size - window) / c.stride[i] + 1;
  }
  return op("stablehlo.convolution", {x, kernel}, type,
            "window_strides = " + array(c.stride) + ", padding = " + padding(c.low, c.high) +
                ", lhs_dilation = " + array(input_dilation) + ", rhs_dilation = " + array(c.dilation) +
                ", window_reversal = " + array(reverse) + ", dimension_numbers = #stablehlo.conv<" +
                layout(in, "b", "f") + "x" + layout(ker, "o", "i") + "->" + layout(out, "b", "f") +
                ">, feature_group_count = " + std::to_string(c.groups) + " : i64, batch_group_count = " +
                std::to_string(c.batch_groups) + " : i64, " + precision_config(x.builder->options().precision));
}

// ---- reductions
Values reduce(const Values& xs, const Values& inits, const Dims& dims, const Body& body) {
  std::vector<Type> types, arguments = scalars(inits);
  for (const Type& t : scalars(xs)) arguments.push_back(t);
  for (const Value& x : xs) types.push_back({x.dtype(), without(x.dims(), dims)});
  Values operands(xs.begin(), xs.end());
  operands.insert(operands.end(), inits.begin(), inits.end());
  return op("stablehlo.reduce", operands, types, "dimensions = " + array(dims), xs[0].builder->region(arguments, body));
}

Value reduce(Value x, std::string_view name, Value init, const Dims& dims) {
  return dims.empty() ? x : reduce(Values{x}, Values{init}, dims, binary(name))[0];
}

Values reduce_window(const Values& xs, const Values& inits, const Window& w, const Body& body) {
  std::vector<Type> types, arguments = scalars(inits);
  for (const Type& t : scalars(xs)) arguments.push_back(t);
  Dims dims;
  for (size_t i = 0; i < w.size.size(); ++i) {
    const int64_t window = (w.size[i] - 1) * w.dilation[i] + 1;
    const int64_t size = xs[0].dims()[i] + w.low[i] + w.high[i];
    dims.push_back(size < window ? 0 : (size - window) / w.stride[i] + 1);
  }
  for (const Value& x : xs) types.push_back({x.dtype(), dims});
  Values operands(xs.begin(), xs.end());
  operands.insert(operands.end(), inits.begin(), inits.end());
  return op("stablehlo.reduce_window", operands, types,
            "window_dimensions = " + array(w.size) + ", window_strides = " + array(w.stride) +
                ", base_dilations = " + array(Dims(w.size.size(), 1)) + ", window_dilations = " + array(w.dilation) +
                ", padding = " + padding(w.low, w.high),
            xs[0].builder->region(arguments, body));
}

Value reduce_window(Value x, std::string_view name, Value init, const Window& w) {
  return reduce_window(Values{x}, Values{init}, w, binary(name))[0];
}

// ---- gather, scatter, sort
Value gather(Value x, Value index, const GatherDims& d, Dims slice_sizes, Dims result_dims, bool sorted) {
  std::string attributes =
      "dimension_numbers = #stablehlo.gather<offset_dims = " + list(d.offset) +
      ", collapsed_slice_dims = " + list(d.collapsed) + ", operand_batching_dims = " + list(d.operand_batch) +
      ", start_indices_batching_dims = " + list(d.index_batch) + ", start_index_map = " + list(d.start_map) +
      ", index_vector_dim = " + std::to_string(d.index_vector) + ">, slice_sizes = " + array(slice_sizes) +
      ", indices_are_sorted = " + (sorted ? "true" : "false");
  return op("stablehlo.gather", {x, index}, {x.dtype(), std::move(result_dims)}, attributes);
}

Value scatter(Value x, Value index, Value update, const ScatterDims& d, const Body& body, bool unique, bool sorted) {
  const Type element{x.dtype(), {}};
  const Value operands[] = {x, index, update};
  return op("stablehlo.scatter", operands, std::vector<Type>{x.type},
            "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = " + list(d.window) +
                ", inserted_window_dims = " + list(d.inserted) + ", input_batching_dims = " + list(d.operand_batch) +
                ", scatter_indices_batching_dims = " + list(d.index_batch) + ", scatter_dims_to_operand_dims = " +
                list(d.to_operand) + ", index_vector_dim = " + std::to_string(d.index_vector) +
                ">, indices_are_sorted = " + (sorted ? "true" : "false") +
                ", unique_indices = " + (unique ? "true" : "false"),
            x.builder->region({element, element}, body))[0];
}

Values sort(const Values& xs, int64_t dim, bool stable, const Body& less) {
  std::vector<Type> types, arguments;
  for (const Value& x : xs) {
    types.push_back(x.type);
    arguments.insert(arguments.end(), 2, Type{x.dtype(), {}});
  }
  return op("stablehlo.sort", xs, types,
            "dimension = " + std::to_string(dim) + " : i64, is_stable = " + (stable ? "true" : "false"),
            xs[0].builder->region(arguments, less));
}

// ---- control, random numbers, linear algebra
Values while_loop(const Values& init, const Body& condition, const Body& body) {
  std::vector<Type> types;
  for (const Value& v : init) types.push_back(v.type);
  Builder& b = *init[0].builder;
  return op("stablehlo.while", init, types, "", b.region(types, condition) + ", " + b.region(types, body));
}

std::pair<Value, Value> rng_bit_generator(Value state, Type bits, RngAlgorithm algorithm) {
  Values r = op("stablehlo.rng_bit_generator", std::span(&state, 1), {state.type, std::move(bits)},
                std::string("rng_algorithm = #stablehlo<rng_algorithm ") +
                    (algorithm == RngAlgorithm::Philox ? "PHILOX" : "THREE_FRY") + ">");
  return {r[0], r[1]};
}

Value fft(Value x, std::string_view kind, const Dims& lengths) {
  Type type = x.type;
  if (kind == "RFFT") {
    type.dtype = x.dtype() == DType::F64 ? DType::C128 : DType::C64;
    type.dims.back() = lengths.back() / 2 + 1;
  } else if (kind == "IRFFT") {
    type.dtype = real_type(x.dtype());
    type.dims.back() = lengths.back();
  }
  return op("stablehlo.fft", {x}, type,
            "fft_type = #stablehlo<fft_type " + std::string(kind) + ">, fft_length = " + array(lengths));
}

Value cholesky(Value x, bool lower) {
  return op("stablehlo.cholesky", {x}, x.type, std::string("lower = ") + (lower ? "true" : "false"));
}

Value triangular_solve(Value a, Value b, bool left, bool lower, bool unit_diagonal, bool transpose) {
  auto flag = [](bool v) { return v ? "true" : "false"; };
  return op("stablehlo.triangular_solve", {a, b}, b.type,
            std::string("left_side = ") + flag(left) + ", lower = " + flag(lower) +
                ", unit_diagonal = " + flag(unit_diagonal) + ", transpose_a = #stablehlo<transpose " +
                (transpose ? "TRANSPOSE" : "NO_TRANSPOSE") + ">");
}

Values optimization_barrier(const Values& xs) {
  std::vector<Type> types;
  for (const Value& x : xs) types.push_back(x.type);
  return op("stablehlo.optimization_barrier", xs, types, "");
}

}  // namespace tpu::hlo
