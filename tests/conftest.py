"""Fixtures for all tests. They run on the CPU plugin, with a cache directory of their own."""

import os
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TORCH_TPU_PLUGIN", "cpu")
os.environ.setdefault("TORCH_TPU_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"torch_tpu_tests_{os.getuid()}"))

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def script():
    """Runs code in a new process and gives what came of it: returncode, stdout, stderr. Keywords are environment
    variables; None takes one away."""

    def run(code, timeout=300, **variables):
        environment = {**os.environ, **{k: str(v) for k, v in variables.items() if v is not None}}
        for name in (k for k, v in variables.items() if v is None):
            environment.pop(name, None)
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=timeout
        )

    return run


@pytest.fixture
def prints(script):
    """Runs code in a new process, which must succeed, and gives what it printed."""

    def run(code, **options):
        done = script(code, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run
