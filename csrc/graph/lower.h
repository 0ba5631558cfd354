// From a call to the text of its program: views are read, the lowering runs, results are written back.
#pragma once

#include "graph/call.h"
#include "graph/program.h"
#include "ops/ops.h"

namespace tpu::graph {

// One parameter of a lowering: operands of the call, or something compiled in.
struct Argument {
  enum class Kind : uint8_t { Absent, Tensor, List, OptionalList, Baked, Rng };
  Kind kind = Kind::Absent;
  std::vector<int> operands;  // -1 for an absent entry of an optional list
  ops::Arg baked;
};

// A tensor that the call overwrites; `resized` where PyTorch gives it new sizes first.
struct Written {
  int operand = -1;
  std::optional<Layout> resized;
};

struct Request {
  const char* name;
  ops::Lowering lowering;
  std::vector<Argument> arguments;
  const Call* call;
  std::vector<Layout> results;   // what the meta kernel says; ignored where `trusted`
  bool trusted = false;          // no meta kernel: the lowering's own types stand
  std::vector<Written> written;  // instead of results, in the order of the lowering's values
  size_t returned = 0;           // results that come before what is written, where both are there
  size_t spare = 0;              // how many of the last written tensors a lowering may leave as they are
};

struct Lowered {
  std::string text;
  Program program;  // without code
};

Lowered lower(const Request& request);

}  // namespace tpu::graph
