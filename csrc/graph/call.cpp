// Builds keys.
#include "graph/call.h"

#include "graph/scalar.h"

namespace tpu::graph {

void Call::begin(const void* op, hlo::Options options, int device) {
  key_.clear();
  inputs_.clear();
  operands_.clear();
  shared_.clear();
  options_ = options;
  device_ = device;
  bake_value(op);
  bake_value(uint8_t(uint8_t(options.precision) | (options.checks ? 4 : 0)));
  bake_value(options.default_float);
}

void Call::end() { inputs_.clear(); }

void Call::bake_dims(std::span<const int64_t> v) {
  bake_value(uint8_t(v.size()));
  key_.append(reinterpret_cast<const char*>(v.data()), v.size_bytes());
}

int Call::input(const ArrayRef& array) {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].get() == array.get() && shared_[i]) return int(i);
  inputs_.push_back(array);
  shared_.push_back(true);
  return int(inputs_.size()) - 1;
}

int Call::add_tensor(const ArrayRef& array, int64_t bytes, const View& view, bool needed) {
  Operand operand{.view = view, .shape = array ? array->shape() : nullptr, .bytes = bytes};
  if (!needed || !array) {
    // Only the view matters; of a cell never written also how much there is.
    bake_value(needed ? 'f' : 'w');
    bake_value(view.dtype);
    if (needed) bake_value(bytes);
    bake_dims(view.sizes);
    bake_dims(view.strides);
    bake_value(view.offset);
  } else {
    operand.input = input(array);
    const bool whole = operand.whole = is_whole(*operand.shape, view);
    bake_value(whole ? 't' : 'v');
    bake_value(uint8_t(operand.input));
    bake_value(operand.shape);
    if (!whole) {
      bake_dims(view.sizes);
      bake_dims(view.strides);
      bake_value(view.offset != 0);
      if (view.offset != 0) {
        bake_value(cut(operand.shape->physical.count(), view));
        inputs_.push_back(scalar(DType::I64, view.offset, device_));
        shared_.push_back(false);
        operand.offset = int(inputs_.size()) - 1;
      }
    }
  }
  operands_.push_back(operand);
  return int(operands_.size()) - 1;
}

int Call::add_array(ArrayRef array, bool number) {
  const Shape* shape = array->shape();
  bake_value(number ? 'n' : 's');
  bake_value(shape);
  inputs_.push_back(std::move(array));
  shared_.push_back(false);
  operands_.push_back({.view = {.dtype = shape->dtype(), .sizes = shape->logical, .strides = {}, .offset = 0},
                       .shape = shape,
                       .input = int(inputs_.size()) - 1,
                       .offset = -1,
                       .whole = true,
                       .number = number,
                       .bytes = shape->bytes()});
  return int(operands_.size()) - 1;
}

}  // namespace tpu::graph
