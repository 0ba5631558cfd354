// Names and sizes of element types.
#include "base/type.h"

#include <algorithm>
#include <iterator>

namespace tpu {
namespace {

struct Facts {
  const char* name;
  int64_t size;
};

constexpr Facts kFacts[] = {
    {"i1", 1},   {"i8", 1},   {"i16", 2},  {"i32", 4},          {"i64", 8},           {"ui8", 1},
    {"ui16", 2}, {"ui32", 4}, {"ui64", 8}, {"f8E4M3FN", 1},     {"f8E5M2", 1},        {"bf16", 2},
    {"f16", 2},  {"f32", 4},  {"f64", 8},  {"complex<f32>", 8}, {"complex<f64>", 16},
};
static_assert(std::size(kFacts) == size_t(DType::C128) + 1);

}  // namespace

int64_t element_size(DType t) { return kFacts[size_t(t)].size; }
const char* name(DType t) { return kFacts[size_t(t)].name; }
DType real_type(DType t) { return t == DType::C64 ? DType::F32 : t == DType::C128 ? DType::F64 : t; }

int64_t element_count(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  return count;
}

Dims row_major_strides(std::span<const int64_t> dims) {
  Dims strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(dims[i], 1);
  }
  return strides;
}

std::string str(std::span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

std::string Type::str() const {
  std::string text = "tensor<";
  for (int64_t d : dims) text += std::to_string(d) + "x";
  return text + name(dtype) + ">";
}

}  // namespace tpu
