"""PyTorch on TPU: `import torch` is enough, this package loads itself and adds the device "tpu"."""

__version__ = "0.1.0"

_loaded = False


def _autoload():
    """Adds the device to PyTorch. `import torch` calls it through the entry point `torch.backends`; calling it again
    does nothing. No plugin is loaded before the device is first used."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    import sys
    import types

    import torch

    from torch_tpu import _C, _module, _plugins, tpu

    _C.set_plugin_candidates(_plugins.candidates())
    torch.utils.rename_privateuse1_backend("tpu")
    torch._register_device_module("tpu", tpu)
    sys.modules["torch.tpu"] = tpu
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    # The kernels library looks for this attribute to know that there is a TPU.
    torch.backends.tpu = types.ModuleType("torch.backends.tpu", "Marks that PyTorch has the device tpu.")
    torch.backends.tpu.is_available = tpu.is_available
    sys.modules["torch.backends.tpu"] = torch.backends.tpu
    _module.install()


_autoload()
