// Determinants, whose factors depend on more than values: PyTorch's gradients expect those of the transposed matrix
// where the matrix was contiguous and real, as its CPU kernels give them. And what raises by what it finds.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/_linalg_det.h>
#include <ATen/ops/_linalg_slogdet.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <torch/library.h>

#include "dispatch/op.h"

namespace tpu::dispatch {
namespace {

using at::Tensor;

// For the meta kernel, which says what is wrong with a call.
Tensor twin(const Tensor& t) { return at::detail::empty_strided_meta(t.sizes(), t.strides(), t.scalar_type()); }
Tensor plain(const Tensor& t) { return t.resolve_conj().resolve_neg(); }
Tensor factored(const Tensor& a) { return a.is_contiguous() && !a.is_complex() ? plain(a).mT() : plain(a); }

std::tuple<Tensor, Tensor, Tensor> det(const Tensor& a) {
  at::_linalg_det(twin(a));
  const auto r = run_row("tpu::det", {factored(a)});
  return {r[0], r[1], r[2]};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> slogdet(const Tensor& a) {
  at::_linalg_slogdet(twin(a));
  const auto r = run_row("tpu::slogdet", {factored(a)});
  return {r[0], r[1], r[2], r[3]};
}

Tensor cholesky(const Tensor& a, bool upper) {
  at::native::squareCheckInputs(a, "cholesky");
  auto [factor, info] = at::linalg_cholesky_ex(a, upper);
  at::_linalg_check_errors(info, "cholesky", a.dim() == 2);
  return factor;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_linalg_det", det);
  m.impl("_linalg_slogdet", slogdet);
  m.impl("cholesky", cholesky);
}

}  // namespace
}  // namespace tpu::dispatch
