// What an array is made of: element types, dims, and both together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tpu {

enum class DType : uint8_t {
  Pred,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  F8E4M3,
  F8E5M2,
  BF16,
  F16,
  F32,
  F64,
  C64,
  C128,
};

using Dims = std::vector<int64_t>;

constexpr bool is_complex(DType t) { return t >= DType::C64; }
constexpr bool is_float(DType t) { return t >= DType::F8E4M3 && t <= DType::F64; }
constexpr bool is_integer(DType t) { return t > DType::Pred && t <= DType::U64; }
constexpr bool is_unsigned(DType t) { return t >= DType::U8 && t <= DType::U64; }
// A float too narrow to compute in: its arithmetic is done in float32 and rounded once.
constexpr bool is_narrow_float(DType t) { return t >= DType::F8E4M3 && t <= DType::F16; }

// Bytes of one element.
int64_t element_size(DType t);
// As StableHLO spells it: "f32", "ui8", "complex<f32>".
const char* name(DType t);
// The type of the real and imaginary parts; any other type is its own part.
DType real_type(DType t);

int64_t element_count(std::span<const int64_t> dims);
// Row-major strides, in elements; an empty dim counts as one, as in PyTorch.
Dims row_major_strides(std::span<const int64_t> dims);
std::string str(std::span<const int64_t> dims);

struct Type {
  DType dtype = DType::F32;
  Dims dims;

  int64_t rank() const { return int64_t(dims.size()); }
  int64_t count() const { return element_count(dims); }
  int64_t bytes() const { return count() * element_size(dtype); }
  // As StableHLO spells it: "tensor<2x3xf32>".
  std::string str() const;
  bool operator==(const Type&) const = default;
};

}  // namespace tpu
