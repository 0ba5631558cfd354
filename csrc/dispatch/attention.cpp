// scaled_dot_product_attention: one program, with grouped heads and bool masks taken as they are.
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include <cmath>

#include "dispatch/op.h"

namespace tpu::dispatch {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

double scale_of(const Tensor& query, std::optional<double> scale) {
  return scale ? *scale : 1 / std::sqrt(double(query.size(-1)));
}

// Whether the fused rows take these inputs: four dims, batches equal, query heads a multiple of the others.
bool fits(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& mask, double dropout) {
  return q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && dropout == 0 && at::isFloatingType(q.scalar_type()) &&
         q.scalar_type() == k.scalar_type() && k.scalar_type() == v.scalar_type() && q.size(0) == k.size(0) &&
         k.size(0) == v.size(0) && k.size(1) == v.size(1) && k.size(1) > 0 && q.size(1) % k.size(1) == 0 &&
         k.size(2) == v.size(2) && q.size(3) == k.size(3) && q.numel() > 0 && k.numel() > 0 && v.numel() > 0 &&
         (!mask || !mask->defined() || mask->device() == q.device());
}

std::vector<Tensor> fused(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& mask, bool causal,
                          std::optional<double> scale) {
  if (mask && mask->defined()) return run_row("tpu::attention_masked", {q, k, v, *mask}, {causal, scale_of(q, scale)});
  return run_row("tpu::attention", {q, k, v}, {causal, scale_of(q, scale)});
}

// With a gradient to come, PyTorch's own composite records the fused op; else nothing stands between call and program.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& mask, double dropout, bool causal,
                 std::optional<double> scale, bool gqa) {
  const bool grouped = q.dim() == 4 && k.dim() == 4 && q.size(1) != k.size(1);
  const bool recorded = c10::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad() ||
                                                        (mask && mask->defined() && mask->requires_grad()));
  const bool mask_fits =
      !mask || !mask->defined() ||
      (!causal && mask->dim() <= 4 && (mask->scalar_type() == c10::kBool || at::isFloatingType(mask->scalar_type())));
  if (recorded || !fits(q, k, v, mask, dropout) || (grouped && !gqa) || !mask_fits)
    return at::native::scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale, gqa);
  return fused(q, k, v, mask, causal, scale)[0];
}

int64_t choice(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& mask, double dropout, bool,
               std::optional<double>, bool) {
  return int64_t(fits(q, k, v, mask, dropout) ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& mask, double, bool causal, bool,
    std::optional<double> scale) {
  auto r = fused(q, k, v, mask, causal, scale);
  return {r[0], r[1], Tensor(), Tensor(), q.sym_size(2), k.sym_size(2), Tensor(), Tensor(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                                                    const Tensor& mask, std::array<bool, 4> wanted, const Tensor& out,
                                                    const Tensor& lse, const Tensor&, const Tensor&, c10::SymInt,
                                                    c10::SymInt, double, bool causal, const Tensor&, const Tensor&,
                                                    std::optional<double> scale) {
  const bool masked = mask.defined();
  auto r = masked
               ? run_row("tpu::attention_masked_backward", {g, q, k, v, out, lse, mask}, {causal, scale_of(q, scale)})
               : run_row("tpu::attention_backward", {g, q, k, v, out, lse}, {causal, scale_of(q, scale)});
  auto given = [&](size_t i) { return wanted[i] && i < r.size() ? r[i] : Tensor(); };
  return {given(0), given(1), given(2), given(3)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", forward);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", backward);
  m.impl("scaled_dot_product_attention", attention);
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("scaled_dot_product_attention", attention); }

}  // namespace
}  // namespace tpu::dispatch

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &tpu::dispatch::choice)
}  // namespace at::native
