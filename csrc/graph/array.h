// One immutable device array, there already or still to be made by a run that is under way.
#pragma once

#include <atomic>
#include <exception>
#include <vector>

#include "base/ref.h"
#include "graph/shape.h"
#include "pjrt/buffer.h"

namespace tpu::graph {

// Owned by the cells that show it and by the runs that read or make it. A run sets the buffer once; whoever sees
// ready() may read it from any thread.
class Array : public Counted {
 public:
  Array(const Shape* shape, int device);
  Array(const Shape* shape, int device, pjrt::Buffer buffer);
  ~Array();

  const Shape* shape() const { return shape_; }
  int device() const { return device_; }
  bool ready() const { return state_.load(std::memory_order_acquire) == State::Ready; }
  bool pending() const { return state_.load(std::memory_order_acquire) == State::Pending; }
  // Only where ready().
  pjrt::Buffer& buffer() { return buffer_; }
  // Donated to a program: about to go.
  bool buffer_deleted() const { return buffer_.is_deleted(); }

  // Waits until the run that makes the array was handed to the plugin, and throws what kept it from being made. The
  // buffer's own event says when its contents are there.
  void wait();

  // Waits until its contents are there, and throws what went wrong.
  void await();

  // Whether its contents are there; does not wait.
  bool computed();

  // For the run that makes the array.
  void set(pjrt::Buffer buffer);
  void set(std::exception_ptr error);

 private:
  friend std::vector<Ref<Array>> uncomputed(int device);
  enum class State : uint8_t { Pending, Ready, Failed };
  Array* previous_ = nullptr;  // in the list of arrays alive on the chip, guarded by its lock
  Array* next_ = nullptr;
  std::atomic<bool> computed_{false};  // known to have its contents
  const Shape* shape_;
  int device_;
  std::atomic<State> state_;
  pjrt::Buffer buffer_;
  std::exception_ptr error_;  // set before state_ becomes Failed
};

using ArrayRef = Ref<Array>;

// Bytes and arrays alive on each chip.
struct MemoryStats {
  int64_t bytes = 0, peak_bytes = 0, arrays = 0, total_allocations = 0;
};
MemoryStats memory_stats(int device);
void reset_peak_memory(int device);

// Waits until every array alive on a chip has its contents; throws the first failure.
void await_all(int device);
// Whether they all have, without waiting.
bool all_computed(int device);

}  // namespace tpu::graph
