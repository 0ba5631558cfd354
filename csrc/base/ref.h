// A counted reference to an object that carries its own count.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tpu {

// Base of what Ref points to. The count may be changed from any thread.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  uint32_t use_count() const { return count_.load(std::memory_order_acquire); }

 private:
  template <class T>
  friend class Ref;
  std::atomic<uint32_t> count_{0};
};

template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* object) : object_(object) { retain(); }
  Ref(const Ref& other) : object_(other.object_) { retain(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ && object_->count_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete object_;
  }

  // A reference to an object that may be about to go: null if its last reference is gone. The caller must make sure
  // that the memory is still there.
  static Ref acquire(T* object) {
    uint32_t count = object->count_.load(std::memory_order_relaxed);
    while (count != 0)
      if (object->count_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel)) {
        Ref ref;
        ref.object_ = object;
        return ref;
      }
    return {};
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  void retain() {
    if (object_) object_->count_.fetch_add(1, std::memory_order_relaxed);
  }
  T* object_ = nullptr;
};

}  // namespace tpu
