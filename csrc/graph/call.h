// A call in the form in which it is looked up: its key, and the arrays it reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/array.h"
#include "graph/view.h"

namespace tpu::graph {

// How one tensor or number of a call is fed.
struct Operand {
  View view;
  const Shape* shape = nullptr;  // of the array; null where the cell was never written and reads as zeros
  int input = -1;                // which input; -1 where there is none
  int offset = -1;               // which input holds the view's offset; -1 for offset 0
  bool whole = false;            // the view is the array itself
  bool number = false;           // a Python number
  int64_t bytes = 0;             // of the storage behind it
};

// Filled by one thread for one call, then cleared: nothing is allocated once its vectors have grown. What goes into
// the key is all that decides how the program looks, and nothing else.
class Call {
 public:
  void begin(const void* op, hlo::Options options, int device);

  // Adds a tensor and gives its operand index. `array` may be null. An operand that is only overwritten
  // (`needed` false) takes part with its view, but not as an input.
  int add_tensor(const ArrayRef& array, int64_t bytes, const View& view, bool needed = true);
  // Adds an array that is nobody's view: a number from the scalar cache, a random state.
  int add_array(ArrayRef array, bool number);
  // Compiled in.
  void bake(std::string_view bytes) { key_.append(bytes); }
  template <class T>
  void bake_value(T v) {
    key_.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  void bake_dims(std::span<const int64_t> v);

  std::string_view key() const { return key_; }
  const hlo::Options& options() const { return options_; }
  int device() const { return device_; }
  const std::vector<ArrayRef>& inputs() const { return inputs_; }
  const std::vector<Operand>& operands() const { return operands_; }
  // Drops the references to arrays.
  void end();

 private:
  int input(const ArrayRef& array);

  std::string key_;
  hlo::Options options_;
  int device_ = 0;
  std::vector<ArrayRef> inputs_;
  std::vector<Operand> operands_;
  std::vector<bool> shared_;  // whether an input may serve several operands
};

}  // namespace tpu::graph
