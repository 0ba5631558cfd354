"""`torch-tpu info` or `python -m torch_tpu.info`: what is there, and what is wrong if something is."""

import argparse
import os
import sys


def _size(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _cache_trouble(directory):
    """What keeps the cache directory from being written, or None."""
    folder = directory
    while not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return f"{folder} is not a directory"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"{folder} can't be written"


def report(out=None) -> list:
    """Prints the report and gives the list of what is wrong."""
    import torch

    import torch_tpu
    from torch_tpu import _C, _plugins

    def line(name, value):
        print(f"{name + ':':<16}{value}", file=out)

    trouble = []
    line("torch_tpu", torch_tpu.__version__)
    line("torch", torch.__version__)
    try:
        info = _C.plugin_info()
    except Exception as error:
        trouble.append(str(error))
        line("plugin", "none that can be used")
        for kind, path in _plugins.candidates():
            line("  found", f"{kind}: {path}")
    else:
        line("plugin", f"{info['kind']}: {info['path']}")
        line("  API version", ".".join(map(str, info["api_version"])))
        line("  platform", f"{info['platform']}, {info['platform_version'].strip().splitlines()[0]}")
        line("devices", f"{len(info['devices'])}: " + ", ".join(info["devices"]))
    try:
        directory = _C.cache_directory()
    except Exception as error:
        directory = None
        trouble.append(str(error))
    if directory is None:
        line("cache", "off")
    else:
        line("cache", directory)
        wrong = _cache_trouble(directory)
        if wrong:
            trouble.append(f"the cache directory can't be used, every process will compile anew: {wrong}")
        if _C.is_initialized():
            stats = _C.stats()
            disk = stats["disk"]
            line("  on disk", f"{disk['files']} programs, {_size(disk['bytes'])}")
            line("  this process", f"{disk['hits']} hits, {disk['misses']} misses, {disk['stores']} stored")
    changed = [(name, value) for name, _, default, _, value in _C.settings() if value != default]
    for name, value in changed:
        line("setting", f"{name}={value}")
    for text in trouble:
        line("wrong", text)
    if not trouble:
        line("status", "ready")
    return trouble


def main(arguments=None) -> int:
    """The console script. Exit status 1 if the device can't be used as it is set up."""
    parser = argparse.ArgumentParser(prog="torch-tpu", description="Tells what torch_tpu finds on this machine.")
    parser.add_argument("command", nargs="?", default="info", choices=["info"])
    parser.parse_args(arguments)
    return 1 if report() else 0


if __name__ == "__main__":
    sys.exit(main())
