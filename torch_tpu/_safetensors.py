"""Lets safetensors read files straight onto the device.

Its list of devices does not know "tpu", but an index means a device of the current accelerator: the name is replaced by
the index. It is done when safetensors is imported, by whomever.
"""

import importlib.abc
import importlib.util
import sys

import torch


def _index(device):
    """The index of a tpu device; other devices as they are."""
    if isinstance(device, str) and device.partition(":")[0] == "tpu":
        device = torch.device(device)
    if isinstance(device, torch.device) and device.type == "tpu":
        return torch.tpu.current_device() if device.index is None else device.index
    return device


def _patch(safetensors):
    native = safetensors.safe_open

    class Opener(type):
        def __instancecheck__(cls, thing):
            return isinstance(thing, native)

    class safe_open(metaclass=Opener):
        __doc__ = native.__doc__

        def __new__(cls, filename, framework, device="cpu", **options):
            return native(filename, framework, device=_index(device), **options)

    safetensors.safe_open = safe_open
    if "safetensors.torch" in sys.modules:
        sys.modules["safetensors.torch"].safe_open = safe_open


class _Finder(importlib.abc.MetaPathFinder):
    """Finds safetensors as Python would, once, and has it patched when it has run."""

    def find_spec(self, name, path, target=None):
        if name != "safetensors":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _patch(module)

            spec.loader.exec_module = exec_module
        return spec


def install():
    """Patches safetensors, now or when it is imported."""
    if "safetensors" in sys.modules:
        _patch(sys.modules["safetensors"])
    else:
        sys.meta_path.insert(0, _Finder())
