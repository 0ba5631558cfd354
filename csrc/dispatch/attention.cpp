// Which implementation scaled_dot_product_attention takes on the device: the one fused lowering.
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>

namespace tpu::dispatch {
namespace {

int64_t choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>&, double, bool, std::optional<double>, bool) {
  const bool plain = query.dim() == 4 && key.dim() == 4 && value.dim() == 4 && at::isFloatingType(query.scalar_type());
  return int64_t(plain ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

}  // namespace
}  // namespace tpu::dispatch

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &tpu::dispatch::choice)
}  // namespace at::native
