"""Runs a function once another package is imported, without importing it."""

import importlib.abc
import importlib.util
import sys


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself: it lets the other finders find the module, and has its loader call back."""

    def __init__(self):
        self.waiting = {}

    def find_spec(self, name, path=None, target=None):
        function = self.waiting.pop(name, None)
        if function is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            function(module)

        spec.loader.exec_module = exec_module
        return spec


_finder = _Finder()


def after_import(name, function):
    """Calls function(module) when the module is imported, or now if it is already."""
    if name in sys.modules:
        function(sys.modules[name])
        return
    _finder.waiting[name] = function
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
