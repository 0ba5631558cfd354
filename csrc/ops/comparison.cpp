// Comparisons and logic: results are bools.
#include "ops/math.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

// Compares in the promoted type; complex values only for equality.
template <Compare Direction>
Value compare_op(Value x, Value y) {
  auto [a, b] = promote(x, y);
  if (is_narrow_float(a.dtype())) {
    a = widen(a);
    b = widen(b);
  }
  return compare(a, b, Direction);
}

template <auto F>
Value logical(Value x, Value y) {
  auto [a, b] = promote_to(DType::Pred, truth(x), truth(y));
  return F(a, b);
}

// Whether each element is among the tests: all pairs at once.
Value isin(Value elements, Value tests, Ignored, bool invert) {
  const DType t = result_type(elements, tests);
  Dims dims = elements.dims();
  const int64_t last = elements.rank();
  dims.push_back(tests.count());
  Dims positions;
  for (int64_t d = 0; d < last; ++d) positions.push_back(d);
  Value a = broadcast_in_dim(convert(elements, t), dims, positions);
  Value b = broadcast_in_dim(reshape(convert(tests, t), {tests.count()}), dims, {last});
  Value found = reduce(a == b, "or", constant(*a.builder, int64_t{0}, {DType::Pred, {}}), {last});
  return invert ? not_(found) : found;
}

constexpr Row kRows[] = {
    {"aten::eq.Scalar", op<compare_op<Compare::EQ>>}, {"aten::eq.Tensor", op<compare_op<Compare::EQ>>},
    {"aten::ge.Scalar", op<compare_op<Compare::GE>>}, {"aten::ge.Tensor", op<compare_op<Compare::GE>>},
    {"aten::gt.Scalar", op<compare_op<Compare::GT>>}, {"aten::gt.Tensor", op<compare_op<Compare::GT>>},
    {"aten::isin.Scalar_Tensor", op<isin>},           {"aten::isin.Tensor_Scalar", op<isin>},
    {"aten::isin.Tensor_Tensor", op<isin>},           {"aten::le.Scalar", op<compare_op<Compare::LE>>},
    {"aten::le.Tensor", op<compare_op<Compare::LE>>}, {"aten::logical_and", op<logical<and_>>},
    {"aten::logical_or", op<logical<or_>>},           {"aten::logical_xor", op<logical<xor_>>},
    {"aten::lt.Scalar", op<compare_op<Compare::LT>>}, {"aten::lt.Tensor", op<compare_op<Compare::LT>>},
    {"aten::ne.Scalar", op<compare_op<Compare::NE>>}, {"aten::ne.Tensor", op<compare_op<Compare::NE>>},
};

}  // namespace

const Table kComparison = kRows;

}  // namespace tpu::ops
