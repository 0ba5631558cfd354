// A compiled graph: the executable, and what becomes of its outputs.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/ref.h"
#include "graph/shape.h"
#include "pjrt/executable.h"

namespace tpu::graph {

// An executable that is there or is being compiled. Programs with the same text share one.
class Binary : public Counted {
 public:
  bool ready() const { return state_.load(std::memory_order_acquire) == State::Ready; }
  // Waits for the compiler and throws what it threw.
  pjrt::Executable& executable();
  // Only where ready().
  pjrt::Executable& operator*() { return *executable_; }

  void set(pjrt::Executable executable);
  void set(std::exception_ptr error);

 private:
  enum class State : uint8_t { Compiling, Ready, Failed };
  void finish(State state);
  std::atomic<State> state_{State::Compiling};
  std::unique_ptr<pjrt::Executable> executable_;  // set before state_ becomes Ready
  std::exception_ptr error_;                      // set before state_ becomes Failed
};

// One result of a program: a fresh array (output >= 0), one of the inputs unchanged (input >= 0), or, where both are
// -1, an array without elements, which needs no memory.
struct Slot {
  const Shape* shape = nullptr;
  int output = -1;
  int input = -1;
};

// What a tensor that shows a result looks like.
struct Layout {
  DType dtype = DType::F32;
  Dims sizes, strides;
  bool absent = false;  // an undefined tensor
};

// Immutable once published in the cache, but for the code, which arrives.
struct Program {
  std::string name;                 // of the op, for logs
  Ref<Binary> code;                 // null where no slot needs running
  int output_count = 0;             // slots' outputs and checks
  std::vector<Slot> slots;          // returned results, or what each written operand becomes; the random state last
  std::vector<Layout> layouts;      // one for each returned result; for a written operand that PyTorch resizes
  std::vector<char> resized;        // for written operands: whether layouts[i] holds new sizes
  std::vector<int> list_sizes;      // of each schema return: -1 for a tensor, else the length of a list
  std::vector<int> donated;         // inputs whose memory an output may take over
  std::vector<std::string> checks;  // texts for the trailing outputs, each a Pred that must hold
  bool draws = false;               // the last slot is the next random state
};

}  // namespace tpu::graph
