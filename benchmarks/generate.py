"""Generation on tpu beside the CPU: the first call with an empty cache, with a full one, and later calls."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

CASES = {"dynamic": {}, "static": {"cache_implementation": "static", "disable_compile": True}}


def measure(device, case, new, calls):
    """In a process of its own: prints what was measured as JSON."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4,
        head_dim=64, vocab_size=32000, max_position_embeddings=4096, tie_word_embeddings=False,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    model.to(device)
    ids = torch.randint(0, 32000, (1, 64), generator=torch.Generator().manual_seed(1)).to(device)
    seconds, tokens = [], []
    for _ in range(calls):
        start = time.perf_counter()
        with torch.no_grad():
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False, **CASES[case]
            )
        tokens = out.cpu()[0, 64:].tolist()
        seconds.append(time.perf_counter() - start)
    result = {"seconds": seconds, "tokens": tokens}
    if device != "cpu":
        result.update({name: torch.tpu.cache_stats()[name] for name in ("compiles", "disk_hits", "executions")})
    print(json.dumps(result))


def run(device, case, arguments, folder):
    command = [sys.executable, __file__, "--measure", device, "--cases", case]
    command += ["--new", str(arguments.new), "--calls", str(arguments.calls)]
    environment = {**os.environ, "TORCH_TPU_CACHE_DIR": folder}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--new", type=int, default=64, help="tokens a call")
    parser.add_argument("--calls", type=int, default=4)
    parser.add_argument("--measure", metavar="DEVICE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.cases[0], arguments.new, arguments.calls)
        return
    print(f"Qwen3, 8 layers of 512, float32, prompt of 64, {arguments.new} new tokens, greedy")
    print(f"{'case':<9}{'process':<13}{'first s':>8}{'tokens/s':>10}{'compiles':>10}{'disk hits':>10}{'same text':>11}")
    for case in arguments.cases:
        with tempfile.TemporaryDirectory() as folder:
            cpu = run("cpu", case, arguments, folder)
            rows = [("cpu", cpu)] + [
                (name, run("tpu", case, arguments, folder)) for name in ("tpu, empty", "tpu, full")
            ]
        rates = {}
        for name, r in rows:
            rates[name] = arguments.new / min(r["seconds"][1:])
            line = f"{case:<9}{name:<13}{r['seconds'][0]:8.2f}{rates[name]:10.1f}"
            line += f"{r.get('compiles', ''):>10}{r.get('disk_hits', ''):>10}"
            print(line + f"{'yes' if r['tokens'] == cpu['tokens'] else 'NO':>11}", flush=True)
        print(f"{case:<9}{'tpu / cpu':<13}{'':8}{rates['tpu, full'] / rates['cpu']:10.2f}   (goal: at least 0.80)")


if __name__ == "__main__":
    main()
