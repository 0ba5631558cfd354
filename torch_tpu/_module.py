"""Keeps modules whole when they move to the device.

`Module.to("tpu")` would give each parameter a new object: weights that two modules share would come apart, and an
optimizer built before would go on with the old ones. PyTorch can swap the tensors inside the parameters instead
(`torch.__future__.set_swap_module_params_on_conversion`), but only for all devices at once. Here it is switched on for
just those conversions that cross between tpu and another device.
"""

import functools
import warnings

import torch


def _crosses(module, fn):
    """Whether fn takes a parameter of the module from or to a tpu device. One parameter of each device is tried, by an
    empty tensor like it."""
    seen = set()
    for tensor in module.parameters():
        device = tensor.device
        if (
            device in seen
            or device.type not in ("cpu", "tpu")
            or type(tensor) not in (torch.nn.Parameter, torch.Tensor)
        ):
            continue
        seen.add(device)
        try:
            with torch.no_grad():
                moved = fn(torch.empty(0, dtype=tensor.dtype, device=device))
        except Exception:
            return False  # the conversion itself will raise it
        if isinstance(moved, torch.Tensor) and moved.device != device and "tpu" in (device.type, moved.device.type):
            return True
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
        except RuntimeError as error:
            # Something else holds a parameter (a graph that awaits its backward, a weak reference): it can't be
            # swapped. What is done already stays as it is, the rest gets new parameters.
            if not str(error).startswith("_apply(): Couldn't swap"):
                raise
            warnings.warn(
                f"{str(error)[10:]}, something holds on to it ({error.__cause__}): the module gets new parameters on "
                "the new device. Weights that were tied are not any more; build optimizers anew.",
                stacklevel=3,
            )
        finally:
            future.set_swap_module_params_on_conversion(False)
        return original(self, fn, recurse)

    torch.nn.Module._apply = _apply
