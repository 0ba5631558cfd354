// Products of matrices and vectors.
#include "ops/matrix.h"

#include <numeric>

#include "base/error.h"
#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {

using namespace hlo;

namespace {

// One product with its sums in a wide type. A dot whose contracted dim is empty is zero.
Value contract(Value a, Value b, int64_t contract_a, int64_t contract_b) {
  check(a.dtype() == b.dtype(), Code::Runtime,
        "expected m1 and m2 to have the same dtype, but got: ", tpu::name(a.dtype()), " != ", tpu::name(b.dtype()));
  const DType t = a.dtype();
  DotDims dims;
  for (int64_t d = 0; d + 2 < a.rank(); ++d) {
    dims.batch_x.push_back(d);
    dims.batch_y.push_back(d);
  }
  dims.contract_x = {contract_a};
  dims.contract_y = {contract_b};
  if (t == DType::Pred)
    return convert(contract(convert(a, DType::I32), convert(b, DType::I32), contract_a, contract_b), t);
  return convert(dot(widen(a), widen(b), dims, compute_type(t)), t);
}

}  // namespace

Value matmul(Value a, Value b) { return contract(a, b, a.rank() - 1, b.rank() - 2); }
Value matmul_transposed(Value a, Value b) { return contract(a, b, a.rank() - 1, b.rank() - 1); }

Value matmul_along(Value x, int64_t dim, Value matrix, bool transposed) {
  const DotDims dims{.batch_x = {}, .batch_y = {}, .contract_x = {dim}, .contract_y = {transposed ? 0 : 1}};
  Value y = dot(x, matrix, dims, x.dtype());
  Dims back;
  for (int64_t d = 0; d < x.rank(); ++d) back.push_back(d < dim ? d : d == dim ? x.rank() - 1 : d - 1);
  return transpose(y, back);
}

namespace {

Value mm(Value a, Value b) { return matmul(a, b); }
Value bmm(Value a, Value b) { return matmul(a, b); }
Value mv(Value a, Value b) { return reshape(matmul(a, reshape(b, {b.dim(0), 1})), {a.dim(0)}); }
Value dot_op(Value a, Value b) { return reshape(matmul(reshape(a, {1, a.dim(0)}), reshape(b, {b.dim(0), 1})), {}); }
Value vdot(Value a, Value b) { return dot_op(is_complex(a.dtype()) ? complex(real(a), negate(imag(a))) : a, b); }

// beta * c + alpha * product; where beta is zero c doesn't count, not even its NaNs.
Value blend(Value c, Value product, Value beta, Value alpha) {
  const DType t = product.dtype(), w = compute_type(t);
  if (t == DType::Pred) return or_(broadcast(c, product.dims()), product);
  Value p = convert(product, w);
  Value base = broadcast(convert(c, w), p.dims());
  Value b = fit(beta, p);
  Value scaled = hlo::select(b == like(b, 0), like(b, 0), b * base);
  return convert(scaled + fit(alpha, p) * p, t);
}
// Products stay in the compute type until c is added.
Value wide_matmul(Value a, Value b) { return matmul(widen(a), widen(b)); }
Value addmm(Value c, Value a, Value b, Value beta, Value alpha) {
  return convert(blend(widen(c), wide_matmul(a, b), beta, alpha), a.dtype());
}
Value baddbmm(Value c, Value a, Value b, Value beta, Value alpha) { return addmm(c, a, b, beta, alpha); }
Value addmv(Value c, Value a, Value x, Value beta, Value alpha) {
  Value p = reshape(wide_matmul(a, reshape(x, {x.dim(0), 1})), {a.dim(0)});
  return convert(blend(widen(c), p, beta, alpha), a.dtype());
}
Value addbmm(Value c, Value a, Value b, Value beta, Value alpha) {
  return convert(blend(widen(c), sum(wide_matmul(a, b), {0}, false), beta, alpha), a.dtype());
}
Value addr(Value c, Value x, Value y, Value beta, Value alpha) {
  const DType t = promote(c.dtype(), promote(x.dtype(), y.dtype()));
  auto wide = [&](Value v) { return convert(v, compute_type(t)); };
  Value p = matmul(reshape(wide(x), {x.dim(0), 1}), reshape(wide(y), {1, y.dim(0)}));
  return convert(blend(wide(c), p, beta, alpha), t);
}
Value addmm_activation(Value c, Value a, Value b, Value beta, Value alpha, bool use_gelu) {
  Value y = blend(widen(c), wide_matmul(a, b), beta, alpha);
  y = use_gelu ? 0.5 * y * (1.0 + tanh(0.7978845608028654 * (y + 0.044715 * y * y * y))) : maximum(y, like(y, 0));
  return convert(y, a.dtype());
}

constexpr Row kRows[] = {
    {"aten::_addmm_activation", op<addmm_activation>},
    {"aten::addbmm", op<addbmm>},
    {"aten::addmm", op<addmm>},
    {"aten::addmv", op<addmv>},
    {"aten::addr", op<addr>},
    {"aten::baddbmm", op<baddbmm>},
    {"aten::bmm", op<bmm>},
    {"aten::dot", op<dot_op>},
    {"aten::mm", op<mm>},
    {"aten::mv", op<mv>},
    {"aten::vdot", op<vdot>},
};

}  // namespace

const Table kMatrix = kRows;

}  // namespace tpu::ops
