// Registers every kernel of the device with PyTorch.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tpu::dispatch {

// Once a process, when the module is imported.
void register_kernels();

// One kernel of the device: the op it serves, the row behind it, and how it came to be: "row", "derived" from the
// row's schema, or "native" where no lowering is needed.
struct Kernel {
  std::string op, row, kind;
};
const std::vector<Kernel>& kernels();

// How often each op ran on the CPU.
std::map<std::string, int64_t> fallback_counts();
void reset_fallback_counts();

}  // namespace tpu::dispatch
