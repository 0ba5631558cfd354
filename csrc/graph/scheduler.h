// Runs programs in the order of their calls: at once where everything is there, else when the compiler is done.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "graph/array.h"
#include "graph/program.h"
#include "pjrt/client.h"

namespace tpu::graph {

enum class EagerMode : uint8_t { Strict, Debug };

// Each chip has a queue. While it is empty, the calling thread hands programs to the plugin itself; a program that is
// still being compiled opens the queue, and a worker empties it in order. Any thread may call its functions.
class Scheduler {
 public:
  explicit Scheduler(pjrt::Client& client);
  ~Scheduler();

  // Runs a program on one chip and gives an array for each slot (null where a slot has no elements). The program must
  // outlive the run. `holders` says how many references to a donated input the caller itself keeps: an input with more
  // is kept alive.
  void run(const Program& program, std::span<const ArrayRef> inputs, int device, uint32_t holders,
           std::vector<ArrayRef>& results);

  // Waits until all that was asked of a chip is done, and throws the first failure since the last call.
  void synchronize(int device);
  // Ends the workers once their queues are empty.
  void stop();
  // Whether nothing is under way on a chip.
  bool idle(int device);

  EagerMode mode() const { return mode_.load(std::memory_order_relaxed); }
  void set_mode(EagerMode mode) { mode_.store(mode); }
  int64_t executions() const { return executions_.load(std::memory_order_relaxed); }
  void reset_executions() { executions_.store(0); }

 private:
  struct Run {
    const Program* program;
    std::vector<ArrayRef> inputs, outputs;  // outputs in the order of the executable's
  };
  struct Queue {
    std::mutex mutex;  // guards runs, error, stop
    std::condition_variable wake, idle;
    std::deque<Run> runs;
    std::atomic<int> length{0};  // of runs and the one being worked on
    std::exception_ptr error;    // the first since the last synchronize
    std::thread worker;
    bool stop = false;
  };

  void execute(const Program& program, std::span<const ArrayRef> inputs, int device, uint32_t holders,
               std::span<const ArrayRef> outputs);
  void verify(const Program& program, std::span<const ArrayRef> outputs, std::vector<pjrt::Buffer>& checks);
  // Waits until a chip's queue is empty, and throws the first failure.
  void drain(int device);
  void work(int device);

  pjrt::Client& client_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::atomic<EagerMode> mode_{EagerMode::Strict};
  std::atomic<int64_t> executions_{0};
};

}  // namespace tpu::graph
