"""Lets safetensors read files straight to the device: its own list of devices knows no others than those built in."""

import functools

import torch

from torch_tpu._imports import after_import


def _is_tpu(device):
    return (isinstance(device, torch.device) and device.type == "tpu") or str(device).split(":")[0] == "tpu"


class _Slice:
    """Part of a tensor in a file, read when it is indexed."""

    def __init__(self, slice, device):
        self._slice = slice
        self._device = device

    def __getitem__(self, index):
        return self._slice[index].to(self._device)

    def __getattr__(self, name):
        return getattr(self._slice, name)


class _File:
    """An open file whose tensors go to a tpu device."""

    def __init__(self, file, device):
        self._file = file
        self._device = device

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *exception):
        return self._file.__exit__(*exception)

    def get_tensor(self, name):
        return self._file.get_tensor(name).to(self._device)

    def get_tensors(self, *names):
        return {name: tensor.to(self._device) for name, tensor in self._file.get_tensors(*names).items()}

    def get_slice(self, name):
        return _Slice(self._file.get_slice(name), self._device)

    def __getattr__(self, name):
        return getattr(self._file, name)


def _wrap(module):
    original = module.safe_open
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def safe_open(filename, framework, device="cpu", **options):
        if not _is_tpu(device):
            return original(filename, framework, device=device, **options)
        return _File(original(filename, framework, device="cpu", **options), device)

    module.safe_open = safe_open


def install():
    """Takes effect when safetensors is imported."""
    after_import("safetensors", _wrap)
    after_import("safetensors.torch", _wrap)
