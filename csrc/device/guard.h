// The device as PyTorch's own machinery sees it.
#pragma once

namespace tpu::device {

// Waits for all work of a chip and throws what failed.
void synchronize(int index);
// Once a process, when the module is imported.
void register_hooks();

}  // namespace tpu::device
