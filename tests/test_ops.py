"""PyTorch's own op samples, on the device and on the CPU: called, strided, in place, with out=, with wrong inputs.

A gap is a line of unsupported.txt: `entry check dtype  # reason`. A declared gap must still fail; delete its line when
it passes.
"""

import os
import pathlib
import warnings

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

SAMPLES = int(os.environ.get("TEST_OPS_SAMPLES", "3"))
FOLDER = pathlib.Path(__file__).parent
# In bfloat16 both sides round after each step of a composite, not always after the same one.
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 5e-3, torch.complex64: 1e-4, torch.float64: 1e-6}
# Values that are not defined: uninitialized memory, or drawn at random.
UNDEFINED = {
    "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted", "resize_", "resize_as_",
}  # fmt: skip
RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "randint", "randint_like",
    "randn", "randn_like", "rand_like", "uniform", "nn.functional.dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout",
    "nn.functional.rrelu",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.scaled_dot_product_attention", "normal.number_mean", "svd_lowrank", "pca_lowrank",
    "torch.ops.aten._efficient_attention_forward", "torch.ops.aten._flash_attention_forward", "randperm",
}  # fmt: skip
# Results that are defined only up to sign, phase or order.
AMBIGUOUS = {
    "svd", "linalg.svd", "linalg.eig", "linalg.eigh", "linalg.qr", "qr", "geqrf", "linalg.lu", "linalg.lu_factor",
    "linalg.lu_factor_ex", "lu", "linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.eigvals", "lobpcg", "ormqr",
    "linalg.householder_product",
}  # fmt: skip


# Where equal elements go is not defined: only the values are compared.
UNSTABLE = {"argsort", "kthvalue", "sort", "topk"}
# Their meaning depends on the strides of the input.
BY_STRIDES = {"as_strided", "as_strided_copy", "as_strided_scatter", "view_as_complex"}


def entry_name(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


OPS = {}
for op in op_db:
    name = entry_name(op)
    while name in OPS:
        name += "+"
    OPS[name] = op


def declared():
    gaps = set()
    for line in (FOLDER / "unsupported.txt").read_text().splitlines():
        text = line.split("#")[0].split()
        if text:
            gaps.add(tuple(text))
    return gaps


GAPS = declared()


def to_device(value):
    return tree_map(lambda x: x.to("tpu") if isinstance(x, torch.Tensor) else ("tpu" if x == "cpu" else x), value)


def strided(value):
    """The same values, not contiguous."""

    def one(x):
        if not isinstance(x, torch.Tensor) or x.dim() == 0 or x.layout != torch.strided:
            return x
        wide = torch.empty(*x.shape[:-1], x.shape[-1] * 2, dtype=x.dtype, device=x.device)
        view = wide[..., ::2]
        view.copy_(x)
        return view

    return tree_map(one, value)


def clone(value):
    return tree_map(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, value)


def tensors(value):
    return [x for x in tree_flatten(value)[0] if isinstance(x, torch.Tensor)]


def compare(op, actual, expected):
    a, e = tensors(actual), tensors(expected)
    assert len(a) == len(e)
    for x, y in zip(a, e, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype, f"{tuple(x.shape)} {x.dtype}, CPU: {tuple(y.shape)} {y.dtype}"
        if op.name in UNDEFINED or op.name in RANDOM or entry_name(op) in RANDOM or op.name in AMBIGUOUS:
            continue
        if op.name in UNSTABLE and y.dtype == torch.int64 and (op.name == "argsort" or y is not e[0]):
            continue
        tolerance = TOLERANCE.get(y.dtype, 0)
        torch.testing.assert_close(x.detach().cpu(), y, rtol=tolerance, atol=tolerance, equal_nan=True)


def samples(op, dtype):
    torch.manual_seed(0)
    found = []
    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
        found.append((sample.input, sample.args, sample.kwargs, sample))
        if len(found) == SAMPLES:
            break
    return found


def on_cpu(f, *args, **kwargs):
    """What the CPU says, or None where it refuses."""
    torch.manual_seed(0)
    try:
        return f(*args, **kwargs)
    except Exception:
        return None


def check_called(op, dtype, change=lambda v: v):
    for input, args, kwargs, _ in samples(op, dtype):
        expected = on_cpu(op.op, *clone((input, *args)), **clone(kwargs))
        if expected is not None:
            i, a, k = to_device((clone(input), clone(args), clone(kwargs)))
            compare(op, op.op(change(i), *change(a), **change(k)), expected)


def check_strided(op, dtype):
    if op.name in BY_STRIDES:
        return
    check_called(op, dtype, strided)


def check_inplace(op, dtype):
    f = op.get_inplace()
    if f is None:
        return
    for input, args, kwargs, sample in samples(op, dtype):
        if sample.broadcasts_input or not isinstance(input, torch.Tensor):
            continue
        expected = on_cpu(f, *clone((input, *args)), **clone(kwargs))
        if expected is None:
            continue
        i, a, k = to_device((clone(input), clone(args), clone(kwargs)))
        result = f(i, *a, **k)
        compare(op, result, expected)
        assert result is i


def check_out(op, dtype):
    if not op.supports_out:
        return
    for input, args, kwargs, _ in samples(op, dtype):
        expected = on_cpu(op.op, *clone((input, *args)), **clone(kwargs))
        if not isinstance(expected, torch.Tensor):
            continue
        for size in (expected.shape, (0,)):
            make = lambda device, size=size, like=expected: torch.empty(size, dtype=like.dtype, device=device)  # noqa: E731
            if on_cpu(op.op, *clone((input, *args)), **clone(kwargs), out=make("cpu")) is None:
                continue
            out = make("tpu")
            i, a, k = to_device((clone(input), clone(args), clone(kwargs)))
            result = op.op(i, *a, **k, out=out)
            compare(op, out, expected)
            assert result is out


def check_errors(op, dtype):
    if op.error_inputs_func is None:
        return
    for error in op.error_inputs("cpu"):
        s = error.sample_input
        i, a, k = to_device((s.input, s.args, s.kwargs))
        with pytest.raises(error.error_type, match=error.error_regex):
            op.op(i, *a, **k)


CHECKS = [
    ("called", check_called, torch.float32),
    ("called", check_called, torch.bfloat16),
    ("called", check_called, torch.int64),
    ("called", check_called, torch.bool),
    ("strided", check_strided, torch.float32),
    ("inplace", check_inplace, torch.float32),
    ("out", check_out, torch.float32),
    ("errors", check_errors, torch.float32),
]


@pytest.mark.parametrize("name", list(OPS))
def test_op(name):
    """All checks of one entry; a failure lists each check that failed and the line that would declare it."""
    op = OPS[name]
    failed, passed_gaps = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for check, function, dtype in CHECKS:
            if check != "errors" and dtype not in op.dtypes:
                continue
            gap = (name, check, str(dtype).removeprefix("torch."))
            try:
                function(op, dtype)
            except pytest.fail.Exception as error:
                problem = error
            except Exception as error:
                problem = error
            else:
                problem = None
            if problem is not None and gap not in GAPS:
                failed.append(f"{' '.join(gap)}  # {type(problem).__name__}: {str(problem).strip().splitlines()[:3]}")
            if problem is None and gap in GAPS:
                passed_gaps.append(" ".join(gap))
    assert not failed, "\n".join(failed)
    assert not passed_gaps, f"passes now, delete from unsupported.txt: {passed_gaps}"
