// Keys calls, runs programs, hands back tensors.
#include "dispatch/op.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/Resize.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "device/device.h"
#include "device/generator.h"
#include "device/storage.h"
#include "dispatch/infer.h"
#include "graph/runtime.h"
#include "graph/scalar.h"

namespace tpu::dispatch {

using c10::IValue;
using device::is_tpu;
using graph::Call;
using graph::Program;

namespace {

// A call under way on this thread. A program being built may itself run calls (a meta kernel written in Python).
class Scratch {
 public:
  Scratch() : slot_(depth()++) {
    auto& all = slots();
    if (all.size() <= slot_) all.push_back(std::make_unique<State>());
    state_ = all[slot_].get();
  }
  ~Scratch() {
    state_->call.end();
    state_->results.clear();
    --depth();
  }
  Scratch(const Scratch&) = delete;
  Call& call() { return state_->call; }
  std::vector<graph::ArrayRef>& results() { return state_->results; }

 private:
  struct State {
    Call call;
    std::vector<graph::ArrayRef> results;
  };
  static size_t& depth() {
    thread_local size_t value = 0;
    return value;
  }
  static std::vector<std::unique_ptr<State>>& slots() {
    thread_local std::vector<std::unique_ptr<State>> value;
    return value;
  }
  size_t slot_;
  State* state_;
};

hlo::Options options() {
  static const auto& context = at::globalContext();
  hlo::Options o;
  o.precision = context.float32MatmulPrecision() == at::Float32MatmulPrecision::HIGHEST ? hlo::Precision::Highest
                : context.float32MatmulPrecision() == at::Float32MatmulPrecision::HIGH  ? hlo::Precision::High
                                                                                        : hlo::Precision::Default;
  o.default_float = device::dtype(c10::get_default_dtype_as_scalartype());
  o.checks = graph::runtime().scheduler.mode() == graph::EagerMode::Debug;
  return o;
}

Param::Type param_type(const c10::Type& type) {
  using c10::TypeKind;
  switch (type.kind()) {
    case TypeKind::OptionalType:
      return param_type(*type.castRaw<c10::OptionalType>()->getElementType());
    case TypeKind::TensorType:
      return Param::Type::Tensor;
    case TypeKind::NumberType:
      return Param::Type::Scalar;
    case TypeKind::SymIntType:
    case TypeKind::IntType:
      return Param::Type::Int;
    case TypeKind::FloatType:
      return Param::Type::Float;
    case TypeKind::BoolType:
      return Param::Type::Bool;
    case TypeKind::StringType:
      return Param::Type::String;
    case TypeKind::ScalarTypeType:
      return Param::Type::DType;
    case TypeKind::GeneratorType:
      return Param::Type::Generator;
    case TypeKind::ListType:
      switch (type.castRaw<c10::ListType>()->getElementType()->kind()) {
        case TypeKind::TensorType:
          return Param::Type::TensorList;
        case TypeKind::OptionalType:
          return Param::Type::OptionalTensorList;
        case TypeKind::SymIntType:
        case TypeKind::IntType:
          return Param::Type::Ints;
        case TypeKind::FloatType:
          return Param::Type::Floats;
        case TypeKind::BoolType:
          return Param::Type::Bools;
        default:
          return Param::Type::Other;
      }
    default:
      return Param::Type::Other;
  }
}

graph::ArrayRef number(const c10::Scalar& s, int device) {
  if (s.isBoolean()) return graph::scalar(DType::Pred, int64_t(s.toBool()), device);
  if (s.isComplex()) return graph::scalar(DType::C128, std::complex<double>(s.toComplexDouble()), device);
  if (s.isFloatingPoint()) return graph::scalar(DType::F64, s.toDouble(), device);
  return graph::scalar(DType::I64, s.toLong(), device);
}

// A 0-d tensor on the CPU takes part by its value.
graph::ArrayRef host_scalar(const at::Tensor& t, int device) {
  const DType dtype = device::dtype(t.scalar_type());
  const c10::Scalar s = t.item();
  if (s.isComplex()) return graph::scalar(dtype, std::complex<double>(s.toComplexDouble()), device);
  if (s.isFloatingPoint()) return graph::scalar(dtype, s.toDouble(), device);
  return graph::scalar(dtype, s.isBoolean() ? int64_t(s.toBool()) : s.toLong(), device);
}

[[noreturn]] void mixed_devices(const c10::Device& a, const c10::Device& b) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", a, " and ", b,
              "!");
}

void add_tensor(Call& call, const at::Tensor& t, bool needed) {
  if (!is_tpu(t)) {
    if (t.dim() != 0 || !t.device().is_cpu()) mixed_devices(device::device(call.device()), t.device());
    call.add_array(host_scalar(t, call.device()), t.unsafeGetTensorImpl()->is_wrapped_number());
    return;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(t.layout() == c10::kStrided, "tpu tensors have no layout ", t.layout());
  if (t.device().index() != call.device()) mixed_devices(device::device(call.device()), t.device());
  const graph::Cell& cell = device::cell(t);
  const graph::View view = device::view(t);
  if (!needed && graph::covers(view, cell.bytes)) {
    call.add_tensor({}, cell.bytes, view, false);
  } else {
    call.add_tensor(array_of(t), cell.bytes, view);
  }
}

ops::Arg baked(const IValue& v, Param::Type type) {
  switch (type) {
    case Param::Type::Int:
      return v.toInt();
    case Param::Type::Bool:
      return v.toBool();
    case Param::Type::Float:
      return v.isInt() ? double(v.toInt()) : v.toDouble();
    case Param::Type::String:
      return v.toStringRef();
    case Param::Type::DType:
      return device::dtype(v.toScalarType());
    case Param::Type::Ints: {
      if (v.isInt()) return Dims{v.toInt()};
      const auto dims = v.toDimVector();
      return Dims(dims.begin(), dims.end());
    }
    case Param::Type::Floats:
      return v.toDoubleVector();
    case Param::Type::Bools: {
      std::vector<bool> list;
      for (bool b : v.toBoolList()) list.push_back(b);
      return list;
    }
    case Param::Type::Scalar: {
      ops::Number n;
      const c10::Scalar s = v.toScalar();
      n.is_bool = s.isBoolean();
      n.is_complex = s.isComplex();
      n.is_float = s.isFloatingPoint();
      if (n.is_complex) {
        n.real = s.toComplexDouble().real();
        n.imag = s.toComplexDouble().imag();
      } else if (n.is_float) {
        n.real = s.toDouble();
      } else {
        n.integer = n.is_bool ? int64_t(s.toBool()) : s.toLong();
      }
      return n;
    }
    default:
      fail(Code::Unimplemented, "an argument of type ", v.tagKind(), " can't be compiled into a program");
  }
}

void bake(Call& call, const IValue& v, Param::Type type) {
  call.bake_value('b');
  switch (type) {
    case Param::Type::Int:
      return call.bake_value(v.toInt());
    case Param::Type::Bool:
      return call.bake_value(v.toBool());
    case Param::Type::Float:
      return call.bake_value(v.isInt() ? double(v.toInt()) : v.toDouble());
    case Param::Type::DType:
      return call.bake_value(v.toScalarType());
    case Param::Type::String:
      call.bake_value(uint32_t(v.toStringRef().size()));
      return call.bake(v.toStringRef());
    case Param::Type::Ints: {
      if (v.isInt()) return call.bake_dims(std::array{v.toInt()});
      const auto dims = v.toDimVector();
      return call.bake_dims({dims.data(), dims.size()});
    }
    case Param::Type::Floats:
      call.bake_value(uint32_t(v.toDoubleList().size()));
      for (double d : v.toDoubleVector()) call.bake_value(d);
      return;
    case Param::Type::Bools:
      call.bake_value(uint32_t(v.toBoolList().size()));
      for (bool b : v.toBoolList()) call.bake_value(b);
      return;
    case Param::Type::Scalar: {
      const auto n = std::get<ops::Number>(baked(v, type));
      call.bake_value(uint8_t(n.is_bool | n.is_float << 1 | n.is_complex << 2));
      call.bake_value(n.real);
      call.bake_value(n.imag);
      return call.bake_value(n.integer);
    }
    default:
      baked(v, type);
  }
}

bool absent(const IValue& v) { return v.isNone() || (v.isTensor() && !v.toTensor().defined()); }

}  // namespace

const graph::ArrayRef& array_of(const at::Tensor& t) {
  graph::Cell& cell = device::cell(t);
  const DType dtype = device::dtype(t.scalar_type());
  if (cell.array && cell.array->shape()->dtype() != dtype) {
    // The storage was last used as another dtype: its array is made anew from the same bytes.
    at::Tensor flat = device::tensor(
        {cell.array->shape()->dtype(), cell.array->shape()->logical, row_major_strides(cell.array->shape()->logical)},
        cell.device, cell.array);
    at::Tensor same = run_row("tpu::retype", {flat}, {dtype})[0];
    cell.array = device::cell(same).array;
  }
  return cell.array;
}

Op::Op(const ops::Row& row, const c10::FunctionSchema& schema, Prepare prepare)
    : row_(row), returns_(schema.returns().size()), prepare_(prepare) {
  const auto& kinds = row.lowering.kinds;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& a = schema.arguments()[i];
    Param p{.type = param_type(*a.real_type())};
    p.written = a.alias_info() && a.alias_info()->isWrite();
    p.lowered = i < kinds.size();
    if (p.lowered) p.kind = kinds[i];
    if (p.written) written_.push_back(int(i));
    params_.push_back(p);
  }
  trailing_rng_ = kinds.size() == schema.arguments().size() + 1 && kinds.back() == ops::Kind::Rng;
  for (const c10::Argument& r : schema.returns())
    returns_written_ = returns_written_ || (r.alias_info() && r.alias_info()->isWrite());
  // What is returned comes first: `_native_batch_norm_legit.out` also writes arguments that it does not return.
  std::stable_partition(written_.begin(), written_.end(),
                        [&](int i) { return schema.arguments()[size_t(i)].is_out(); });
  // A batch norm writes its running statistics without saying so in its schema, if it trains.
  if (schema.name() == "aten::native_batch_norm") {
    written_.insert(written_.end(), {3, 4});
    spare_ = 2;
  }
}

int Op::device(c10::ArrayRef<IValue> values) const {
  for (const IValue& v : values) {
    if (v.isTensor()) {
      if (v.toTensor().defined() && is_tpu(v.toTensor())) return v.toTensor().device().index();
    } else if (v.isTensorList()) {
      for (const IValue& t : v.toListRef())
        if (is_tpu(t.toTensor())) return t.toTensor().device().index();
    } else if (v.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& t : v.toOptionalTensorList())
        if (t && t->defined() && is_tpu(*t)) return t->device().index();
    }
  }
  return device::current();
}

void Op::record(c10::ArrayRef<IValue> values, Call& call) const {
  for (size_t i = 0; i < params_.size(); ++i) {
    const Param& p = params_[i];
    const IValue& v = values[i];
    if (p.kind == ops::Kind::Ignored && !p.written) continue;
    if (absent(v) && p.kind != ops::Kind::Rng) {
      call.bake_value('-');
      continue;
    }
    if (p.type == Param::Type::Tensor) {
      add_tensor(call, v.toTensor(), p.lowered && p.kind == ops::Kind::Data);
    } else if (p.type == Param::Type::TensorList) {
      call.bake_value(uint32_t(v.toListRef().size()));
      for (const IValue& t : v.toListRef()) add_tensor(call, t.toTensor(), p.lowered && p.kind == ops::Kind::DataList);
    } else if (p.type == Param::Type::OptionalTensorList) {
      call.bake_value(uint32_t(v.toListRef().size()));
      for (const IValue& t : v.toListRef()) {
        if (absent(t)) {
          call.bake_value('-');
        } else {
          add_tensor(call, t.toTensor(), true);
        }
      }
    } else if (p.kind == ops::Kind::Data) {
      call.add_array(number(v.toScalar(), call.device()), true);
    } else if (p.kind == ops::Kind::Baked) {
      bake(call, v, p.type);
    }
  }
}

graph::Request Op::request(c10::ArrayRef<IValue> values, const Call& call) const {
  graph::Request r{
      .name = row_.name, .lowering = row_.lowering, .arguments = {}, .call = &call, .results = {}, .written = {}};
  using Kind = graph::Argument::Kind;
  int next = 0;                                            // the operand that record() added next
  std::vector<std::vector<int>> written(written_.size());  // operands, in the order of written_
  for (size_t i = 0; i < params_.size(); ++i) {
    const Param& p = params_[i];
    const IValue& v = values[i];
    graph::Argument a;
    const auto place = std::find(written_.begin(), written_.end(), int(i));
    if ((p.kind == ops::Kind::Ignored && !p.written) || absent(v)) {
      // Absent, or of no account.
    } else if (p.type == Param::Type::Tensor || (p.kind == ops::Kind::Data && p.type != Param::Type::TensorList)) {
      a = {.kind = Kind::Tensor, .operands = {next++}, .baked = {}};
    } else if (p.type == Param::Type::TensorList || p.type == Param::Type::OptionalTensorList) {
      a.kind = p.type == Param::Type::TensorList ? Kind::List : Kind::OptionalList;
      for (const IValue& t : v.toListRef()) a.operands.push_back(absent(t) ? -1 : next++);
    } else if (p.kind == ops::Kind::Baked) {
      a = {.kind = Kind::Baked, .operands = {}, .baked = baked(v, p.type)};
    }
    if (place != written_.end()) written[size_t(place - written_.begin())] = a.operands;
    if (p.kind == ops::Kind::Rng) a = {.kind = Kind::Rng, .operands = {int(call.operands().size()) - 1}, .baked = {}};
    if (p.kind == ops::Kind::Ignored) a = {};
    if (p.lowered) r.arguments.push_back(std::move(a));
  }
  if (trailing_rng_)
    r.arguments.push_back({.kind = Kind::Rng, .operands = {int(call.operands().size()) - 1}, .baked = {}});
  for (const std::vector<int>& operands : written)
    for (int o : operands) r.written.push_back({.operand = o, .resized = std::nullopt});
  if (!returns_written_) r.returned = returns_;
  r.spare = spare_;
  return r;
}

const Program* Op::build(const c10::OperatorHandle& handle, const torch::jit::Stack& stack, Call& call) {
  const auto values = torch::jit::last(stack, params_.size());
  graph::Request r = request(values, call);
  Inferred inferred = infer(handle, values, written_, returns_written_ || returns_ == 0);
  r.trusted = !inferred.known;
  r.results = std::move(inferred.results);
  for (size_t i = 0; i < r.written.size() && i < inferred.resized.size(); ++i)
    r.written[i].resized = std::move(inferred.resized[i]);
  graph::Lowered lowered = graph::lower(r);
  lowered.program.list_sizes = std::move(inferred.list_sizes);
  graph::Runtime& runtime = graph::runtime();
  if (!lowered.text.empty()) lowered.program.code = runtime.compiler.compile(row_.name, std::move(lowered.text));
  return runtime.cache.insert(call.key(), std::move(lowered.program));
}

void Op::finish(const Program& program, std::vector<graph::ArrayRef>& results, int device,
                torch::jit::Stack* stack) const {
  const size_t slots = program.slots.size() - (program.draws ? 1 : 0);
  const size_t written = program.resized.size();
  const size_t returned = slots - written;
  std::vector<IValue> values;
  values.reserve(returned);
  for (size_t i = 0; i < returned; ++i)
    values.emplace_back(program.layouts[i].absent ? at::Tensor()
                                                  : device::tensor(program.layouts[i], device, std::move(results[i])));
  auto arguments = torch::jit::last(*stack, params_.size());
  size_t next = returned;
  auto store = [&](const at::Tensor& t) {
    if (next >= slots) return;
    if (program.resized[next - returned]) {
      const graph::Layout& layout = program.layouts[next];
      at::native::resize_output(t, layout.sizes);
      if (t.strides() != c10::IntArrayRef(layout.strides))
        t.unsafeGetTensorImpl()->set_sizes_and_strides(layout.sizes, layout.strides);
      // The storage may be larger than needed: what is written is its beginning.
    }
    device::cell(t).array = std::move(results[next]);
    ++next;
  };
  for (int w : written_) {
    const IValue& v = arguments[size_t(w)];
    if (v.isTensor()) {
      if (v.toTensor().defined()) {
        store(v.toTensor());
        if (returns_written_ && values.size() < returns_) values.push_back(v);
      }
    } else if (v.isTensorList()) {
      for (const IValue& t : v.toListRef()) store(t.toTensor());
      if (returns_written_) values.push_back(v);
    }
  }
  torch::jit::drop(*stack, params_.size());
  if (returns_written_ || program.list_sizes.empty()) {
    if (returns_ > 0)
      for (IValue& v : values) stack->push_back(std::move(v));
    return;
  }
  size_t value = 0;
  for (int size : program.list_sizes) {
    if (size < 0) {
      stack->push_back(value < values.size() ? std::move(values[value]) : IValue(at::Tensor()));
      ++value;
      continue;
    }
    c10::List<at::Tensor> list;
    for (int i = 0; i < size; ++i) list.push_back(std::move(values[value++]).toTensor());
    stack->push_back(std::move(list));
  }
}

namespace {

// Some ops reach the device with lazily conjugated or negated tensors; programs see plain ones.
at::Tensor plain(const at::Tensor& t) {
  at::Tensor copy = device::tensor(t.scalar_type(), t.sizes(), row_major_strides(t.sizes()), t.device().index());
  copy.copy_(t);
  return copy;
}

bool is_lazy(const at::Tensor& t) {
  return t.defined() && is_tpu(t) &&
         t.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}));
}

}  // namespace

void Op::settle(torch::jit::Stack& stack) const {
  IValue* values = &*(stack.end() - int64_t(params_.size()));
  for (size_t i = 0; i < params_.size(); ++i) {
    IValue& v = values[i];
    if (v.isTensor()) {
      if (!params_[i].written && is_lazy(v.toTensor())) v = plain(v.toTensor());
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list = v.toTensorList();
      for (size_t j = 0; j < list.size(); ++j) {
        if (!is_lazy(list.get(j))) continue;
        list = list.copy();
        for (size_t k = j; k < list.size(); ++k)
          if (is_lazy(list.get(k))) list.set(k, plain(list.get(k)));
        v = list;
        break;
      }
    }
  }
}

void Op::operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  settle(*stack);
  if (prepare_ && prepare_(*stack, params_.size())) return;
  const Program* program = nullptr;
  Scratch scratch;
  Call& call = scratch.call();
  bool unsupported = false;
  try {
    graph::Runtime& runtime = graph::runtime();
    const auto values = torch::jit::last(*stack, params_.size());
    const int index = device(values);
    call.begin(this, options(), index);
    record(values, call);
    // The generator's lock is held until its next state is in place.
    device::GeneratorImpl* generator = nullptr;
    std::unique_lock<std::mutex> generator_lock;
    for (size_t i = 0; i <= params_.size(); ++i) {
      if (i < params_.size() ? params_[i].kind != ops::Kind::Rng : !trailing_rng_) continue;
      const bool given = i < params_.size() && !values[i].isNone();
      at::Generator g = given ? values[i].toGenerator() : device::default_generator(index);
      // Numbers asked of a CPU generator are drawn there, so that they are the same on every device.
      if (g.device().is_cpu()) fail(Code::Unimplemented, "a CPU generator");
      TORCH_CHECK(g.device().type() == c10::kPrivateUse1, "Expected a 'tpu' device type for generator but found '",
                  g.device().type(), "'");
      generator = static_cast<device::GeneratorImpl*>(g.unsafeGetGeneratorImpl());
      generator_lock = std::unique_lock(generator->mutex_);
      call.add_array(generator->state(), false);
    }
    program = runtime.cache.find(call.key());
    if (!program) program = build(handle, *stack, call);
    runtime.scheduler.run(*program, call.inputs(), index, 2, scratch.results());
    if (generator) generator->state() = std::move(scratch.results().back());
    finish(*program, scratch.results(), index, stack);
  } catch (const Error& error) {
    if (error.code() != Code::Unimplemented) device::rethrow(error);
    unsupported = true;
  }
  if (unsupported) fall_back(handle, stack);
}

std::vector<at::Tensor> run_row(const char* name, at::ArrayRef<at::Tensor> tensors, std::vector<ops::Arg> baked) {
  static const auto* rows = [] {
    auto* map = new std::unordered_map<std::string_view, const ops::Row*>;
    for (const ops::Row* row : ops::rows()) map->emplace(row->name, row);
    return map;
  }();
  auto found = rows->find(name);
  TORCH_INTERNAL_ASSERT(found != rows->end(), name);
  const ops::Row& row = *found->second;
  Scratch scratch;
  Call& call = scratch.call();
  return device::translated([&] {
    graph::Runtime& runtime = graph::runtime();
    const int index = tensors[0].device().index();
    call.begin(&row, options(), index);
    graph::Request r{.name = row.name,
                     .lowering = row.lowering,
                     .arguments = {},
                     .call = &call,
                     .results = {},
                     .trusted = true,
                     .written = {}};
    for (const at::Tensor& t : tensors) {
      add_tensor(call, t, true);
      r.arguments.push_back(
          {.kind = graph::Argument::Kind::Tensor, .operands = {int(r.arguments.size())}, .baked = {}});
    }
    for (ops::Arg& a : baked) {
      if (auto* v = std::get_if<int64_t>(&a)) call.bake_value(*v);
      if (auto* v = std::get_if<bool>(&a)) call.bake_value(*v);
      if (auto* v = std::get_if<double>(&a)) call.bake_value(*v);
      if (auto* v = std::get_if<DType>(&a)) call.bake_value(*v);
      if (auto* v = std::get_if<Dims>(&a)) call.bake_dims(*v);
      r.arguments.push_back({.kind = graph::Argument::Kind::Baked, .operands = {}, .baked = std::move(a)});
    }
    const Program* program = runtime.cache.find(call.key());
    if (!program) {
      graph::Lowered lowered = graph::lower(r);
      if (!lowered.text.empty()) lowered.program.code = runtime.compiler.compile(row.name, std::move(lowered.text));
      program = runtime.cache.insert(call.key(), std::move(lowered.program));
    }
    runtime.scheduler.run(*program, call.inputs(), index, 2, scratch.results());
    std::vector<at::Tensor> results;
    for (size_t i = 0; i < program->slots.size(); ++i)
      results.push_back(device::tensor(program->layouts[i], index, std::move(scratch.results()[i])));
    return results;
  });
}

}  // namespace tpu::dispatch
