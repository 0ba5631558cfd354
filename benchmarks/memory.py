"""Whether memory stays where it was: 1,000 eager steps and 20 calls of generate()."""

import gc
import pathlib

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def now():
    """(buffers, bytes on the device, MiB of the process)."""
    gc.collect()
    torch.tpu.synchronize()
    stats = torch.tpu.memory_stats()
    resident = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20
    return stats["live_buffers"], stats["allocated_bytes"], resident


def main():
    x = torch.randn(256, 256, device="tpu")
    config = LlamaConfig(
        hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=1000, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval().to("tpu")

    def step():
        y = (x @ x).add_(1).relu()
        y[:3].mul_(2)

    def generate():
        with torch.no_grad():
            model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=16, do_sample=False)

    print(f"{'':<24}{'buffers':>9}{'bytes':>12}{'process MiB':>13}")
    for name, work, count in (("eager steps", step, 1000), ("generate() calls", generate, 20)):
        work()
        work()
        for label, repeats in (("after the first", 0), (f"after {count}", count)):
            for _ in range(repeats):
                work()
            buffers, size, resident = now()
            print(f"{name + ' ' if repeats == 0 else '':<8}{label:>16}{buffers:>9}{size:>12}{resident:>13.0f}")


if __name__ == "__main__":
    main()
