// One array in the memory of one device.
//
// A Buffer owns its handle and must be destroyed before its client. Arrays never change once made, so any number of
// threads may read one; donating it to a program ends it for everyone.
#pragma once

#include <utility>

#include "pjrt/event.h"
#include "pjrt/pjrt.h"

namespace tpu::pjrt {

class Buffer {
 public:
  Buffer() = default;
  Buffer(const PJRT_Api* api, PJRT_Buffer* buffer) : api_(api), buffer_(buffer) {}
  Buffer(Buffer&& other) noexcept : api_(other.api_), buffer_(std::exchange(other.buffer_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  // Frees the memory once the programs that read it are done; does not wait for them.
  ~Buffer();

  explicit operator bool() const { return buffer_ != nullptr; }
  PJRT_Buffer* get() const { return buffer_; }
  // Gives the handle away.
  PJRT_Buffer* release() { return std::exchange(buffer_, nullptr); }

  Type type() const;
  // Bytes it takes on the device, padding included.
  int64_t device_bytes() const;
  // Happens when the array is computed, or its program failed. For a donated buffer it is an error.
  Event ready() const;
  bool is_ready() const { return ready().is_ready(); }
  // Starts copying the elements, row-major, to `destination` of `bytes` bytes, which must live until the event.
  Event to_host(void* destination, int64_t bytes) const;
  // Starts a copy on another device of the same client.
  Buffer copy_to(PJRT_Device* device) const;
  // Frees the memory early; the handle stays and is_deleted() becomes true.
  void free();
  // Freed, or donated to a program.
  bool is_deleted() const;
  // The address of the elements, in the device's own address space; host memory for the CPU plugin. Waits for nothing.
  uintptr_t address() const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Buffer* buffer_ = nullptr;
};

}  // namespace tpu::pjrt
