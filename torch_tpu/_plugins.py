"""Finds the plugin files that installed packages bring, without importing those packages."""

import importlib.util
import os

# In order of preference within a kind: (kind, package, file in it).
_WHEELS = [
    ("tpu", "libtpu", "libtpu.so"),
    ("cuda", "jax_plugins.xla_cuda13", "xla_cuda_plugin.so"),
    ("cuda", "jax_plugins.xla_cuda12", "xla_cuda_plugin.so"),
    ("cpu", "lammps_jax_pjrt_cpu", "pjrt_c_api_cpu_plugin.so"),
    ("cpu", "fastatomstruct_xla_cpu", "libpjrt_cpu.so"),
    ("cpu", "xla_plugins.xla_cpu_pjrt", "xla_cpu_pjrt.so"),
]


def _folder(package):
    """The folder of a package, or None. Only namespace parents are imported."""
    parent, _, _ = package.rpartition(".")
    if parent and importlib.util.find_spec(parent) is None:
        return None
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return list(spec.submodule_search_locations)[0]


def candidates():
    """(kind, path) of each plugin file that is there; kinds are "tpu", "cuda" and "cpu"."""
    found = []
    library = os.environ.get("TPU_LIBRARY_PATH")
    if library:
        found.append(("tpu", library))
    for kind, package, name in _WHEELS:
        folder = _folder(package)
        if folder and os.path.exists(os.path.join(folder, name)):
            found.append((kind, os.path.join(folder, name)))
    return found
