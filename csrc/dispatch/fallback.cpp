// Ops without a lowering: they run on the CPU, and say so once.
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <map>
#include <mutex>

#include "base/config.h"
#include "base/log.h"
#include "dispatch/dispatch.h"
#include "dispatch/op.h"

namespace tpu::dispatch {
namespace {

std::mutex mutex;  // guards counts
std::map<std::string, int64_t>& counts() {
  static auto* map = new std::map<std::string, int64_t>;
  return *map;
}

}  // namespace

void fall_back(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const std::string name = c10::toString(handle.operator_name());
  TORCH_CHECK_NOT_IMPLEMENTED(
      config::fallback() != config::Fallback::Error, name,
      " has no lowering for tpu with these arguments, and TORCH_TPU_FALLBACK=error forbids running it on the CPU. ",
      "Move its inputs to the CPU, or set TORCH_TPU_FALLBACK=warn.");
  bool first;
  {
    std::lock_guard lock(mutex);
    first = counts()[name]++ == 0;
  }
  log::line(log::Event::Fallback, name, " runs on the CPU");
  if (first && config::fallback() == config::Fallback::Warn)
    TORCH_WARN(name,
               " has no lowering for tpu with these arguments and runs on the CPU, which is slow. "
               "This is said once for each op; TORCH_TPU_FALLBACK=silent hides it, =error forbids it.");
  at::native::cpu_fallback(handle, stack);
}

std::map<std::string, int64_t> fallback_counts() {
  std::lock_guard lock(mutex);
  return counts();
}

void reset_fallback_counts() {
  std::lock_guard lock(mutex);
  counts().clear();
}

namespace {

void boxed(const c10::OperatorHandle& handle, torch::jit::Stack* stack) { fall_back(handle, stack); }

// Composites that refuse the device before they would reach the fallback.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("mode.values", torch::CppFunction::makeFromBoxedFunction<&boxed>()); }
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed>()); }

}  // namespace
}  // namespace tpu::dispatch
