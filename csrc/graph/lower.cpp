// Lowers one request.
#include "graph/lower.h"

#include <algorithm>

#include "base/error.h"

namespace tpu::graph {

using hlo::Builder;
using hlo::Value;
using hlo::Values;

namespace {

class Lowerer {
 public:
  explicit Lowerer(const Request& request) : request_(request), builder_(request.call->options()) {}

  Lowered run() {
    for (const ArrayRef& input : inputs()) params_.push_back(builder_.param(input->shape()->physical));
    std::vector<ops::Arg> arguments;
    for (const Argument& a : request_.arguments) arguments.push_back(argument(a));
    const Values values = request_.lowering.call(arguments);
    const size_t returned = request_.written.empty() ? values.size() : request_.returned;
    check(values.size() >= returned, Code::Internal, request_.name, ": the lowering gives ", values.size(),
          " values, PyTorch expects ", returned);
    // An op with extra results leaves them out where it has nothing to write.
    return finish(values, returned, std::min(values.size() - returned, request_.written.size()));
  }

 private:
  const std::vector<ArrayRef>& inputs() const { return request_.call->inputs(); }

  Lowered finish(const Values& values, size_t returned, size_t written) {
    check(written + request_.spare >= request_.written.size(), Code::Internal, request_.name, ": the lowering gives ",
          values.size(), " values for ", request_.written.size(), " written tensors");
    for (size_t i = 0; i < returned; ++i) give(values[i], i);
    for (size_t i = 0; i < written; ++i) store(values[returned + i], request_.written[i]);
    if (rng_.state) {
      lowered_.program.draws = true;
      slot(*rng_.state, rng_input_);
    }
    for (const Builder::Check& c : builder_.checks()) {
      outputs_.push_back(c.holds);
      lowered_.program.checks.push_back(c.text);
    }
    lowered_.program.name = request_.name;
    lowered_.program.output_count = int(outputs_.size());
    if (!outputs_.empty()) lowered_.text = builder_.module(outputs_);
    return std::move(lowered_);
  }

  // The array behind an operand, as the program sees it before anything is written.
  Value base(const Operand& o) {
    if (o.input >= 0) return params_[size_t(o.input)];
    const int64_t count = o.bytes / element_size(o.view.dtype);
    return hlo::constant(builder_, 0.0, {o.view.dtype, {count}});
  }

  std::optional<Value> offset(const Operand& o) {
    if (o.offset >= 0) return params_[size_t(o.offset)];
    if (o.view.offset != 0) return hlo::constant(builder_, o.view.offset, {DType::I64, {}});
    return std::nullopt;
  }

  Value value(int operand) {
    const Operand& o = request_.call->operands()[size_t(operand)];
    Dims sizes(o.view.sizes.begin(), o.view.sizes.end());
    // A lowering that asks for its out tensor sees it as PyTorch will have sized it.
    for (const Written& w : request_.written)
      if (w.operand == operand && w.resized) return hlo::constant(builder_, 0.0, {o.view.dtype, w.resized->sizes});
    Value v;
    if (o.input < 0) {
      v = hlo::constant(builder_, 0.0, {o.view.dtype, sizes});
    } else {
      Value b = base(o);
      v = o.whole ? b : read(b, o.view, offset(o));
    }
    v.number = o.number;
    return v;
  }

  ops::Arg argument(const Argument& a) {
    switch (a.kind) {
      case Argument::Kind::Absent:
        return std::monostate{};
      case Argument::Kind::Tensor:
        return value(a.operands[0]);
      case Argument::Kind::Baked:
        return a.baked;
      case Argument::Kind::List: {
        Values list;
        for (int o : a.operands) list.push_back(value(o));
        return list;
      }
      case Argument::Kind::OptionalList: {
        ops::OptionalValues list;
        for (int o : a.operands) list.push_back(o < 0 ? std::nullopt : std::optional(value(o)));
        return list;
      }
      case Argument::Kind::Rng:
        rng_input_ = request_.call->operands()[size_t(a.operands[0])].input;
        rng_.state = std::make_shared<Value>(value(a.operands[0]));
        return rng_;
    }
    return std::monostate{};
  }

  // Adds a slot for the new contents of a cell. `base` is the input whose memory it may take over, or -1.
  void slot(const Value& v, int base) {
    Slot s{.shape = shape(v.type), .output = -1, .input = -1};
    if (v.count() > 0 || v.rank() == 0) {
      for (size_t i = 0; i < params_.size(); ++i)
        if (params_[i].id == v.id) s.input = int(i);
      if (s.input < 0) {
        s.output = int(outputs_.size());
        if (base >= 0 && params_[size_t(base)].type == v.type) {
          builder_.alias(base, s.output);
          lowered_.program.donated.push_back(base);
        }
        outputs_.push_back(v);
      }
    }
    lowered_.program.slots.push_back(s);
  }

  void give(Value v, size_t i) {
    if (!v.builder || (i < request_.results.size() && request_.results[i].absent)) {
      lowered_.program.slots.push_back({});
      lowered_.program.layouts.push_back({.dtype = DType::F32, .sizes = {}, .strides = {}, .absent = true});
      return;
    }
    Layout layout{v.dtype(), v.dims(), row_major_strides(v.dims())};
    if (!request_.trusted) {
      check(i < request_.results.size(), Code::Internal, request_.name, ": more values than PyTorch expects");
      layout = request_.results[i];
      const Type expected{layout.dtype, layout.sizes};
      check(v.type == expected, Code::Internal, request_.name, ": the lowering gives ", v.type.str(),
            ", PyTorch expects ", expected.str());
    }
    arrange(v, layout);
    slot(v, -1);
    lowered_.program.layouts.push_back(std::move(layout));
  }

  // Brings v into the order of the layout's memory; strides that leave gaps become row-major.
  void arrange(Value& v, Layout& layout) {
    const View view{.dtype = layout.dtype, .sizes = layout.sizes, .strides = layout.strides, .offset = 0};
    if (auto order = memory_order(view)) {
      v = hlo::transpose(v, *order);
    } else {
      layout.strides = row_major_strides(layout.sizes);
    }
  }

  void store(Value v, const Written& w) {
    const Operand& o = request_.call->operands()[size_t(w.operand)];
    v = hlo::convert(v, o.view.dtype);
    const bool fits = std::equal(v.dims().begin(), v.dims().end(), o.view.sizes.begin(), o.view.sizes.end());
    std::optional<Layout> resized = w.resized;
    if (request_.trusted && !fits) resized = Layout{v.dtype(), v.dims(), row_major_strides(v.dims())};
    Layout layout = resized.value_or(Layout{});
    lowered_.program.resized.push_back(resized.has_value());
    if (resized) {
      check(v.dims() == layout.sizes, Code::Internal, request_.name, ": the lowering gives ", v.type.str(),
            ", PyTorch resizes to ", str(layout.sizes));
      arrange(v, layout);
      slot(v, -1);
    } else {
      check(fits, Code::Internal, request_.name, ": the lowering gives ", v.type.str(), " for a tensor of sizes ",
            str(o.view.sizes));
      if (covers(o.view, o.bytes)) {
        slot(hlo::transpose(v, *memory_order(o.view)), o.input);
      } else {
        slot(write(base(o), o.view, offset(o), v), o.input);
      }
    }
    lowered_.program.layouts.push_back(std::move(layout));
  }

  const Request& request_;
  Builder builder_;
  Values params_, outputs_;
  ops::Rng rng_;
  int rng_input_ = -1;
  Lowered lowered_;
};

}  // namespace

Lowered lower(const Request& request) { return Lowerer(request).run(); }

}  // namespace tpu::graph
