"""PyTorch on TPU: `import torch` is enough, this package loads itself and adds the device "tpu"."""

__version__ = "0.1.0"

_loaded = False


def _autoload():
    """Adds the device to PyTorch. `import torch` calls it through the entry point `torch.backends`; calling it again
    does nothing. No plugin is loaded before the device is first used. Where the device can't be added, a warning says
    why, and the rest of PyTorch works."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    try:
        _add_device()
    except (ImportError, RuntimeError, AttributeError) as error:
        import warnings

        warnings.warn(
            f"torch_tpu {__version__} can't add the device tpu: {error}. It was built for the torch release that was "
            "installed then; reinstall it after changing torch. TORCH_DEVICE_BACKEND_AUTOLOAD=0 silences this.",
            RuntimeWarning,
            stacklevel=2,
        )


def _add_device():
    import atexit
    import sys
    import types

    import torch

    from torch_tpu import _C, _module, _plugins, _safetensors, tpu

    atexit.register(_C.finish)
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
    _safetensors.install()


_autoload()
