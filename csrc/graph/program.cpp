// The arrival of executables.
#include "graph/program.h"

#include <condition_variable>
#include <mutex>

namespace tpu::graph {
namespace {

// Waiting for the compiler is long: one condition serves all.
std::mutex wait_mutex;
std::condition_variable wait_condition;

}  // namespace

pjrt::Executable& Binary::executable() {
  if (!ready()) {
    std::unique_lock lock(wait_mutex);
    wait_condition.wait(lock, [this] { return state_.load() != State::Compiling; });
    if (error_) std::rethrow_exception(error_);
  }
  return *executable_;
}

void Binary::set(pjrt::Executable executable) {
  executable_ = std::make_unique<pjrt::Executable>(std::move(executable));
  finish(State::Ready);
}

void Binary::set(std::exception_ptr error) {
  error_ = std::move(error);
  finish(State::Failed);
}

void Binary::finish(State state) {
  {
    std::lock_guard lock(wait_mutex);
    state_.store(state, std::memory_order_release);
  }
  wait_condition.notify_all();
}

}  // namespace tpu::graph
