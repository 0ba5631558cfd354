// The life of device arrays, and the count of what is alive.
#include "graph/array.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace tpu::graph {
namespace {

constexpr int kMaxDevices = 256;

struct Chip {
  std::mutex mutex;  // guards all below
  Array* first = nullptr;
  MemoryStats stats;
};
Chip chips[kMaxDevices];

// Waiting for an array is rare and short: all arrays share one condition.
std::mutex wait_mutex;
std::condition_variable wait_condition;

}  // namespace

Array::Array(const Shape* shape, int device) : shape_(shape), device_(device), state_(State::Pending) {
  Chip& chip = chips[device];
  std::lock_guard lock(chip.mutex);
  next_ = chip.first;
  if (next_) next_->previous_ = this;
  chip.first = this;
  chip.stats.bytes += shape->bytes();
  chip.stats.peak_bytes = std::max(chip.stats.peak_bytes, chip.stats.bytes);
  ++chip.stats.arrays;
  ++chip.stats.total_allocations;
}

Array::Array(const Shape* shape, int device, pjrt::Buffer buffer) : Array(shape, device) {
  buffer_ = std::move(buffer);
  state_.store(State::Ready, std::memory_order_release);
}

Array::~Array() {
  Chip& chip = chips[device_];
  std::lock_guard lock(chip.mutex);
  (previous_ ? previous_->next_ : chip.first) = next_;
  if (next_) next_->previous_ = previous_;
  chip.stats.bytes -= shape_->bytes();
  --chip.stats.arrays;
}

void Array::await() {
  wait();
  if (computed_.load(std::memory_order_acquire)) return;
  buffer_.ready().await();
  computed_.store(true, std::memory_order_release);
}

void Array::wait() {
  if (pending()) {
    std::unique_lock lock(wait_mutex);
    wait_condition.wait(lock, [this] { return !pending(); });
  }
  if (!ready()) std::rethrow_exception(error_);
}

bool Array::computed() {
  if (computed_.load(std::memory_order_acquire)) return true;
  if (pending()) return false;
  if (ready() && !buffer_deleted() && !buffer_.is_ready()) return false;
  computed_.store(true, std::memory_order_release);
  return true;
}

void Array::set(pjrt::Buffer buffer) {
  buffer_ = std::move(buffer);
  {
    std::lock_guard lock(wait_mutex);
    state_.store(State::Ready, std::memory_order_release);
  }
  wait_condition.notify_all();
}

void Array::set(std::exception_ptr error) {
  error_ = std::move(error);
  {
    std::lock_guard lock(wait_mutex);
    state_.store(State::Failed, std::memory_order_release);
  }
  wait_condition.notify_all();
}

MemoryStats memory_stats(int device) {
  std::lock_guard lock(chips[device].mutex);
  return chips[device].stats;
}

void reset_peak_memory(int device) {
  std::lock_guard lock(chips[device].mutex);
  chips[device].stats.peak_bytes = chips[device].stats.bytes;
}

std::vector<ArrayRef> uncomputed(int device) {
  std::vector<ArrayRef> found;
  std::lock_guard lock(chips[device].mutex);
  for (Array* a = chips[device].first; a; a = a->next_)
    if (!a->computed_.load(std::memory_order_acquire))
      if (ArrayRef ref = ArrayRef::acquire(a)) found.push_back(std::move(ref));
  return found;
}

void await_all(int device) {
  for (const ArrayRef& array : uncomputed(device))
    if (!(array->ready() && array->buffer_deleted())) array->await();
}

bool all_computed(int device) {
  for (const ArrayRef& array : uncomputed(device))
    if (!array->computed()) return false;
  return true;
}

}  // namespace tpu::graph
