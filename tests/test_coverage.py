"""The kernels that inference of real models needs run on the device."""

import pathlib

from torch_tpu import _C

LIST = pathlib.Path(__file__).parent / "inference_ops.txt"


def test_kernels_of_inference_are_registered():
    registered = {op for op, _, _ in _C.coverage()}
    missing, needless = [], []
    for line in LIST.read_text().splitlines():
        op, _, mark = (part.strip() for part in line.partition("#"))
        if op and mark != "cpu" and op not in registered:
            missing.append(op)
        if op and mark == "cpu" and op in registered:
            needless.append(op)
    assert not missing
    assert not needless, "registered now: delete their marks"


def test_no_kernel_is_registered_twice():
    ops = [op for op, _, _ in _C.coverage()]
    assert len(set(ops)) == len(ops)
