// ctc_loss: lengths reach the program as data, however they were given, so that new ones compile nothing.
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>

#include "device/device.h"
#include "dispatch/op.h"

namespace tpu::dispatch {
namespace {

using at::Tensor;
using c10::IntArrayRef;

void check_lengths(IntArrayRef lengths, int64_t batch, int64_t most, const char* what) {
  TORCH_CHECK(int64_t(lengths.size()) == batch, what, " must be of size batch_size");
  for (const int64_t length : lengths) {
    TORCH_CHECK(length >= 0, what, " must be non-negative");
    TORCH_CHECK(length <= most, "Expected ", what, " to have value at most ", most, ", but got value ", length);
  }
}

int64_t longest(IntArrayRef lengths) { return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end()); }

// {loss, log alpha}. The program has room for the padded targets, or for the longest up to a power of two.
std::tuple<Tensor, Tensor> forward(const Tensor& log_probs, const Tensor& targets, const Tensor& lengths,
                                   const Tensor& target_lengths, int64_t most, int64_t blank) {
  TORCH_CHECK(log_probs.dim() == 3, "ctc_loss: expected log_probs of 3 dimensions, got ", log_probs.dim());
  TORCH_CHECK(blank >= 0 && blank < log_probs.size(2), "blank must be in label range");
  TORCH_CHECK_NOT_IMPLEMENTED(log_probs.scalar_type() == c10::kFloat || log_probs.scalar_type() == c10::kDouble,
                              "\"ctc_loss\" not implemented for '", log_probs.scalar_type(), "'");
  const auto device = log_probs.device();
  const int64_t room = targets.dim() == 2 ? targets.size(1) : int64_t(std::bit_ceil(uint64_t(most)));
  auto r = run_row("tpu::ctc_loss", {log_probs, targets.to(device), lengths.to(device), target_lengths.to(device)},
                   {blank, room});
  return {r[0], r[1]};
}

Tensor backward(const Tensor& gradient, const Tensor& log_probs, const Tensor& targets, const Tensor& lengths,
                const Tensor& target_lengths, const Tensor& loss, const Tensor& log_alpha, int64_t blank,
                bool zero_infinity) {
  const auto device = log_probs.device();
  return run_row(
      "tpu::ctc_loss_backward",
      {gradient, log_probs, targets.to(device), lengths.to(device), target_lengths.to(device), loss, log_alpha},
      {blank, zero_infinity})[0];
}

std::tuple<Tensor, Tensor> ctc_loss(const Tensor& log_probs, const Tensor& targets, IntArrayRef lengths,
                                    IntArrayRef target_lengths, int64_t blank, bool) {
  const int64_t most = longest(target_lengths);
  check_lengths(lengths, log_probs.size(1), log_probs.size(0), "input_lengths");
  check_lengths(target_lengths, log_probs.size(1), targets.dim() == 2 ? targets.size(1) : targets.numel(),
                "target_lengths");
  auto [loss, alpha] = forward(log_probs, targets, at::tensor(lengths), at::tensor(target_lengths), most, blank);
  return {loss, alpha.narrow(2, 0, 2 * most + 1)};
}
Tensor ctc_loss_backward(const Tensor& gradient, const Tensor& log_probs, const Tensor& targets, IntArrayRef lengths,
                         IntArrayRef target_lengths, const Tensor& loss, const Tensor& log_alpha, int64_t blank,
                         bool zero_infinity) {
  return backward(gradient, log_probs, targets, at::tensor(lengths), at::tensor(target_lengths), loss, log_alpha, blank,
                  zero_infinity);
}
std::tuple<Tensor, Tensor> ctc_loss_tensor(const Tensor& log_probs, const Tensor& targets, const Tensor& lengths,
                                           const Tensor& target_lengths, int64_t blank, bool) {
  int64_t most = 0;
  if (targets.dim() != 2 && target_lengths.numel() > 0) most = target_lengths.max().item<int64_t>();
  return forward(log_probs, targets, lengths, target_lengths, most, blank);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_ctc_loss", ctc_loss);
  m.impl("_ctc_loss.Tensor", ctc_loss_tensor);
  m.impl("_ctc_loss_backward", ctc_loss_backward);
  m.impl("_ctc_loss_backward.Tensor", backward);
}

}  // namespace
}  // namespace tpu::dispatch
