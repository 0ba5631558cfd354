// Calls, keys, lowering and scheduling, without PyTorch: what shares a program, what is donated, what costs nothing.
#include <array>

#include "base/error.h"
#include "graph/call.h"
#include "graph/lower.h"
#include "graph/runtime.h"
#include "graph/scalar.h"
#include "ops/ops.h"
#include "test.h"

namespace tpu::test {
namespace {

using namespace graph;

const ops::Row& row(const std::string& name) {
  for (const ops::Row* r : ops::rows())
    if (name == r->name) return *r;
  fail(Code::Internal, "no row ", name);
}

ArrayRef array(const std::vector<float>& v, const Dims& dims) {
  const Type type{DType::F32, dims};
  return ArrayRef(new Array(shape(type), 0, runtime().client->from_host(v.data(), type, 0)));
}

std::vector<float> elements(const ArrayRef& a) {
  a->await();
  std::vector<float> v(size_t(a->shape()->count()));
  a->buffer().to_host(v.data(), a->shape()->bytes()).await();
  return v;
}

struct Strided {
  Dims sizes, strides;
  int64_t offset = 0;
  View view() const { return {.dtype = DType::F32, .sizes = sizes, .strides = strides, .offset = offset}; }
};

// self + other * alpha over views of one cell and another; written back through `self` where `in_place`.
Request add(Call& call, bool in_place) {
  Request r{.name = "aten::add.Tensor",
            .lowering = row("aten::add.Tensor").lowering,
            .arguments = {},
            .call = &call,
            .results = {},
            .trusted = true,
            .written = {}};
  for (int i = 0; i < 3; ++i) r.arguments.push_back({.kind = Argument::Kind::Tensor, .operands = {i}, .baked = {}});
  if (in_place) r.written.push_back({.operand = 0, .resized = std::nullopt});
  return r;
}

void record(Call& call, const ArrayRef& x, const Strided& v, const ArrayRef& y, const Strided& w, double alpha) {
  static const int op = 0;
  call.begin(&op, {}, 0);
  call.add_tensor(x, x->shape()->bytes(), v.view());
  call.add_tensor(y, y->shape()->bytes(), w.view());
  call.add_array(scalar(DType::F64, alpha, 0), true);
}

const Strided kRow{{3}, {1}, 3}, kOther{{3}, {1}, 6}, kVector{{3}, {1}, 0};

}  // namespace

void graph_tests() {
  test("numbers and offsets are not part of a key, views and roles are", [] {
    const ArrayRef x = array({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {4, 3}), y = array({1, 1, 1}, {3});
    Call call;
    record(call, x, kRow, y, kVector, 2);
    const std::string key(call.key());
    record(call, x, kOther, y, kVector, -7.5);
    CHECK_EQUAL(std::string(call.key()), key);
    record(call, x, {{2}, {1}, 3}, y, kVector, 2);
    CHECK(std::string(call.key()) != key);
    record(call, x, {{3}, {3}, 1}, y, kVector, 2);
    CHECK(std::string(call.key()) != key);
    record(call, y, kVector, y, kVector, 2);
    const std::string same(call.key());
    record(call, y, kVector, array({1, 1, 1}, {3}), kVector, 2);
    CHECK(std::string(call.key()) != same);
  });
  test("a row is read and written in place", [] {
    const ArrayRef x = array({0, 1, 2, 3, 4, 5}, {2, 3}), y = array({10, 20, 30}, {3});
    Call call;
    record(call, x, kRow, y, kVector, 2);
    Lowered lowered = lower(add(call, true));
    CHECK_EQUAL(lowered.program.donated.size(), size_t(1));
    lowered.program.code = runtime().compiler.compile("test", lowered.text);
    lowered.program.code->executable();
    std::vector<ArrayRef> results;
    runtime().scheduler.run(lowered.program, call.inputs(), 0, 2, results);
    CHECK(elements(results[0]) == std::vector<float>({0, 1, 2, 23, 44, 65}));
    // `x` is held here and by the call: twice, as a cell and a call would hold it, so it was given away.
    runtime().scheduler.synchronize(0);
    CHECK(x->buffer_deleted());
  });
  test("an array that others hold is not given away", [] {
    const ArrayRef x = array({0, 1, 2, 3, 4, 5}, {2, 3}), y = array({10, 20, 30}, {3}), other = x;
    Call call;
    record(call, x, kRow, y, kVector, 1);
    Lowered lowered = lower(add(call, true));
    lowered.program.code = runtime().compiler.compile("test", lowered.text);
    lowered.program.code->executable();
    std::vector<ArrayRef> results;
    runtime().scheduler.run(lowered.program, call.inputs(), 0, 2, results);
    CHECK(elements(results[0]) == std::vector<float>({0, 1, 2, 13, 24, 35}));
    CHECK(elements(x) == std::vector<float>({0, 1, 2, 3, 4, 5}));
  });
  test("a copy of a whole array is the array", [] {
    const ArrayRef x = array({1, 2, 3}, {3});
    Call call;
    static const int op = 0;
    call.begin(&op, {}, 0);
    call.add_tensor(x, 12, kVector.view());
    Request r{.name = "aten::clone",
              .lowering = row("aten::clone").lowering,
              .arguments = {},
              .call = &call,
              .results = {},
              .trusted = true,
              .written = {}};
    r.arguments.push_back({.kind = Argument::Kind::Tensor, .operands = {0}, .baked = {}});
    r.arguments.push_back({});
    Lowered lowered = lower(r);
    CHECK(lowered.text.empty());
    std::vector<ArrayRef> results;
    runtime().scheduler.run(lowered.program, call.inputs(), 0, 2, results);
    CHECK(results[0].get() == x.get());
  });
  test("a lowering that disagrees with PyTorch is an error that names both types", [] {
    const ArrayRef x = array({1, 2, 3}, {3});
    Call call;
    record(call, x, kVector, x, kVector, 1);
    Request r = add(call, false);
    r.trusted = false;
    r.results.push_back({DType::I32, {3}, {1}});
    CHECK_ERROR(Code::Internal, "tensor<3xi32>", lower(r));
  });
  test("a program that the compiler refuses fails where its result is waited for", [] {
    const ArrayRef x = array({1, 2, 3}, {3});
    Program program;
    program.name = "refused";
    program.output_count = 1;
    program.slots.push_back({.shape = x->shape(), .output = 0, .input = -1});
    program.code = runtime().compiler.compile("refused", "this is no module");
    std::vector<ArrayRef> results;
    const std::array inputs{x};
    runtime().scheduler.run(program, inputs, 0, 2, results);
    CHECK_ERROR(Code::Runtime, "refused", results[0]->wait());
    CHECK_ERROR(Code::Runtime, "refused", runtime().scheduler.synchronize(0));
  });
  test("memory is counted while arrays live", [] {
    const MemoryStats before = memory_stats(0);
    {
      const ArrayRef x = array(std::vector<float>(1000), {1000});
      CHECK_EQUAL(memory_stats(0).bytes - before.bytes, int64_t(4000));
    }
    CHECK_EQUAL(memory_stats(0).bytes, before.bytes);
    CHECK_EQUAL(memory_stats(0).arrays, before.arrays);
  });
}

}  // namespace tpu::test
