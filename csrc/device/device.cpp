// Element types, the current chip, and the translation of errors.
#include "device/device.h"

#include <c10/util/Exception.h>

#include "graph/runtime.h"

namespace tpu::device {
namespace {

thread_local int current_index = 0;

}  // namespace

DType dtype(c10::ScalarType t) {
  switch (t) {
    case c10::kBool:
      return DType::Pred;
    case c10::kChar:
      return DType::I8;
    case c10::kShort:
      return DType::I16;
    case c10::kInt:
      return DType::I32;
    case c10::kLong:
      return DType::I64;
    case c10::kByte:
      return DType::U8;
    case c10::kUInt16:
      return DType::U16;
    case c10::kUInt32:
      return DType::U32;
    case c10::kUInt64:
      return DType::U64;
    case c10::kFloat8_e4m3fn:
      return DType::F8E4M3;
    case c10::kFloat8_e5m2:
      return DType::F8E5M2;
    case c10::kBFloat16:
      return DType::BF16;
    case c10::kHalf:
      return DType::F16;
    case c10::kFloat:
      return DType::F32;
    case c10::kDouble:
      return DType::F64;
    case c10::kComplexFloat:
      return DType::C64;
    case c10::kComplexDouble:
      return DType::C128;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "dtype ", t, " is not supported on tpu");
  }
}

c10::ScalarType scalar_type(DType t) {
  constexpr c10::ScalarType kTypes[] = {
      c10::kBool,   c10::kChar,   c10::kShort,  c10::kInt,           c10::kLong,          c10::kByte,
      c10::kUInt16, c10::kUInt32, c10::kUInt64, c10::kFloat8_e4m3fn, c10::kFloat8_e5m2,   c10::kBFloat16,
      c10::kHalf,   c10::kFloat,  c10::kDouble, c10::kComplexFloat,  c10::kComplexDouble,
  };
  return kTypes[size_t(t)];
}

int current() { return current_index; }

void set_current(int index) {
  TORCH_CHECK(index >= 0 && index < count(), "invalid device ordinal: tpu:", index, ", there are ", count(),
              " devices");
  current_index = index;
}

int count() noexcept {
  try {
    return graph::runtime().device_count();
  } catch (...) {
    return 0;
  }
}

int index(const c10::Device& d) {
  if (!d.has_index()) return current_index;
  const int i = d.index();
  const int n = translated([] { return graph::runtime().device_count(); });
  TORCH_CHECK(i >= 0 && i < n, "invalid device ordinal: ", d, ", there are ", n, " devices");
  return i;
}

void rethrow(const Error& error) {
  switch (error.code()) {
    case Code::Value:
      TORCH_CHECK_VALUE(false, error.what());
    case Code::Index:
      TORCH_CHECK_INDEX(false, error.what());
    case Code::Type:
      TORCH_CHECK_TYPE(false, error.what());
    case Code::Unimplemented:
      TORCH_CHECK_NOT_IMPLEMENTED(false, error.what());
    case Code::OutOfMemory:
      TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    case Code::Internal:
      TORCH_CHECK(false, "internal error of torch_tpu, please report it: ", error.what());
    case Code::Runtime:
      break;
  }
  TORCH_CHECK(false, error.what());
}

}  // namespace tpu::device
