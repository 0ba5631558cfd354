"""Nothing is kept for longer than it is used."""

import gc
import pathlib

import torch


def counts():
    gc.collect()
    torch.tpu.synchronize()
    torch.tpu.empty_cache()  # numbers that were arguments are kept, up to a limit
    stats = torch.tpu.memory_stats()
    return stats["allocated_bytes"], stats["live_buffers"]


def resident():
    """MiB of this process in memory."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def test_eager_steps_leave_nothing():
    x, y = torch.randn(64, 64, device="tpu"), torch.randn(64, 64, device="tpu")

    def step(i):
        z = (x @ y).add_(i).relu()
        z[1:3].mul_(2)
        return float(z.sum()) if i % 50 == 0 else None

    for i in range(60):
        step(i)
    before, size = counts(), resident()
    for i in range(1000):
        step(i)
    assert counts() == before
    assert resident() - size < 30


def test_generation_leaves_nothing():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=100, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval().to("tpu")

    def generate():
        with torch.no_grad():
            model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=5, do_sample=False)

    generate()
    generate()
    before, size = counts(), resident()
    for _ in range(20):
        generate()
    assert counts() == before
    assert resident() - size < 30


def test_what_is_kept_alive_counts_once():
    before = counts()
    x = torch.ones(1024, device="tpu")
    views = [x[i:] for i in range(10)]
    assert counts() == (before[0] + 4096, before[1] + 1)
    x.add_(1)
    assert counts() == (before[0] + 4096, before[1] + 1)
    del x
    assert counts()[0] == before[0] + 4096
    del views
    assert counts() == before


def test_errors_leave_nothing():
    x = torch.ones(3, device="tpu")
    before = counts()
    for _ in range(10):
        try:
            x + torch.ones(4, device="tpu")
        except RuntimeError:
            pass
    assert counts() == before


def test_a_pending_result_that_nobody_wants():
    before = counts()
    for n in range(50):
        torch.ones(n + 1000, device="tpu") * 2
    assert counts()[0] == before[0]
