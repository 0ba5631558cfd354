"""What an eager op costs beside the plugin's bare execution of the same program, in one run."""

import argparse
import statistics
import time

import torch

from torch_tpu import _C


def eager(count):
    """Seconds for a chain of additions, waited for at the end."""
    x, y = torch.zeros(16, device="tpu"), torch.zeros(16, device="tpu")
    torch.tpu.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        x = x + y
    torch.tpu.synchronize()
    return time.perf_counter() - start


def on_cpu(count):
    x, y = torch.zeros(16), torch.zeros(16)
    start = time.perf_counter()
    for _ in range(count):
        x = x + y
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="additions a round")
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    kinds = {"bare execute": _C.bare_execute_seconds, "eager tpu": eager, "eager cpu": on_cpu}
    times = {name: [] for name in kinds}
    for run in kinds.values():
        run(100)
    # Taken in turn, so that a disturbance of the machine hits all alike.
    for _ in range(arguments.rounds):
        for name, run in kinds.items():
            times[name].append(run(arguments.count) / arguments.count * 1e6)
    print(f"{torch.tpu.get_device_name()}: add of 16 floats, microseconds an op, {arguments.rounds} rounds")
    print(f"{'':<14}{'best':>8}{'median':>8}")
    for name, values in times.items():
        print(f"{name:<14}{min(values):8.2f}{statistics.median(values):8.2f}")
    best = min(times["eager tpu"]) / min(times["bare execute"])
    median = statistics.median(times["eager tpu"]) / statistics.median(times["bare execute"])
    print(f"{'eager / bare':<14}{best:8.2f}{median:8.2f}   (goal: at most 1.30)")


if __name__ == "__main__":
    main()
