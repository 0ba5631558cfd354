// How PyTorch's words map to ours: element types, devices, errors.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <utility>

#include "base/error.h"
#include "base/type.h"

namespace tpu::device {

// Throws NotImplementedError for types that no array can have.
DType dtype(c10::ScalarType t);
c10::ScalarType scalar_type(DType t);

inline c10::Device device(int index) { return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index)}; }

// The chip that this thread uses where none is named.
int current();
// Throws RuntimeError "invalid device ordinal" for an index out of range.
void set_current(int index);
// Number of chips, starting the runtime if need be; 0 where there is none.
int count() noexcept;
// `d`'s index, or the current one where it has none; checked.
int index(const c10::Device& d);

// Rethrows as the Python type a PyTorch user expects.
[[noreturn]] void rethrow(const Error& error);
template <class F>
decltype(auto) translated(F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const Error& error) {
    rethrow(error);
  }
}

}  // namespace tpu::device
