"""Keeps modules whole when they move to the device.

`Module.to("tpu")` would give each parameter a new object: weights that two modules share would come apart, and an
optimizer built before would go on with the old ones. PyTorch can swap the tensors inside the parameters instead
(`torch.__future__.set_swap_module_params_on_conversion`), but only for all devices at once. Here it is switched on for
just those conversions that cross between tpu and another device.
"""

import functools

import torch


def _crosses(module, fn):
    """Whether fn takes the module's first parameter from or to a tpu device."""
    for tensor in module.parameters():
        if tensor.device.type == "tpu":
            with torch.no_grad():
                return fn(tensor[:0] if tensor.dim() else tensor).device.type != "tpu"
        if tensor.device.type == "cpu" and type(tensor) in (torch.nn.Parameter, torch.Tensor):
            with torch.no_grad():
                return fn(torch.empty(0, dtype=tensor.dtype)).device.type == "tpu"
        return False
    return False


def install():
    """Wraps Module._apply, which .to(), .cpu(), .tpu() and their like go through."""
    original = torch.nn.Module._apply

    @functools.wraps(original)
    def _apply(self, fn, recurse=True):
        future = torch.__future__
        if future.get_swap_module_params_on_conversion() or not _crosses(self, fn):
            return original(self, fn, recurse)
        future.set_swap_module_params_on_conversion(True)
        try:
            return original(self, fn, recurse)
        finally:
            future.set_swap_module_params_on_conversion(False)

    torch.nn.Module._apply = _apply
