// A moment on a device: when an array is ready, a copy is done, or either has failed.
//
// An Event owns its handle. Its functions may be called from any thread, but not while it is moved or destroyed.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "pjrt/pjrt.h"

namespace tpu::pjrt {

class Event {
 public:
  Event() = default;
  Event(const PJRT_Api* api, PJRT_Event* event) : api_(api), event_(event) {}
  Event(Event&& other) noexcept : api_(other.api_), event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event();

  // An empty event is one that has happened.
  explicit operator bool() const { return event_ != nullptr; }
  bool is_ready() const;
  // Blocks until it has happened; throws if what it stands for failed. Release Python's lock first.
  void await() const;
  // Calls `done` once, with the failure if there was one; at once if it has happened, else from a thread of the plugin,
  // where it must neither block nor throw. The event may be destroyed meanwhile.
  using Done = std::function<void(const std::optional<Error>&)>;
  void on_ready(Done done) const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Event* event_ = nullptr;
};

}  // namespace tpu::pjrt
