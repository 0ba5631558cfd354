"""Fixtures for all tests. They run on the CPU plugin, with a cache directory of their own."""

import os
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
