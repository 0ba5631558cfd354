"""Views of tpu tensors read and write the same elements as views of CPU tensors."""

import random

import pytest
import torch


def random_view(rng, x, steps):
    """The same random chain of view ops for any tensor of x's shape, as a function."""
    ops = []
    shape, stride_zero = list(x.shape), False
    for _ in range(steps):
        kind = rng.choice(
            ["slice", "slice", "transpose", "select", "unsqueeze", "expand", "flatten", "diagonal", "unfold"]
        )
        dims = len(shape)
        if kind == "slice" and dims:
            d = rng.randrange(dims)
            if shape[d] < 1:
                continue
            a = rng.randrange(shape[d])
            b = rng.randint(a, shape[d])
            s = rng.choice([1, 1, 2, 3])
            ops.append(lambda t, d=d, a=a, b=b, s=s: t[(slice(None),) * d + (slice(a, b, s),)])
        elif kind == "transpose" and dims > 1:
            a, b = rng.sample(range(dims), 2)
            ops.append(lambda t, a=a, b=b: t.transpose(a, b))
        elif kind == "select" and dims > 1:
            d = rng.randrange(dims)
            if shape[d] < 1:
                continue
            i = rng.randrange(shape[d])
            ops.append(lambda t, d=d, i=i: t.select(d, i))
        elif kind == "unsqueeze" and dims < 5:
            d = rng.randint(0, dims)
            ops.append(lambda t, d=d: t.unsqueeze(d))
        elif kind == "expand" and 1 in shape:
            d = shape.index(1)
            n = rng.randint(2, 3)
            ops.append(lambda t, d=d, n=n: t.expand(*[n if i == d else -1 for i in range(t.dim())]))
            stride_zero = True
        elif kind == "flatten" and dims > 1:
            d = rng.randrange(dims - 1)
            probe = chain(ops)(x)
            if probe.stride(d) != probe.stride(d + 1) * probe.size(d + 1):
                continue
            sizes = probe.shape[:d] + (probe.size(d) * probe.size(d + 1),) + probe.shape[d + 2 :]
            ops.append(lambda t, sizes=sizes: t.view(sizes))
        elif kind == "diagonal" and dims > 1:
            ops.append(lambda t: t.diagonal(0, 0, 1))
        elif kind == "unfold" and dims and rng.random() < 0.3:
            d = rng.randrange(dims)
            if shape[d] < 2:
                continue
            ops.append(lambda t, d=d: t.unfold(d, 2, 1))
            stride_zero = True  # overlaps itself: not to be written
        shape = list(chain(ops)(x).shape)
    return chain(ops), stride_zero


def chain(ops):
    ops = list(ops)

    def apply(t):
        for op in ops:
            t = op(t)
        return t

    return apply


@pytest.mark.parametrize("seed", range(60))
def test_random_views(seed):
    rng = random.Random(seed)
    sizes = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
    cpu = torch.arange(1.0, 1 + torch.Size(sizes).numel()).reshape(sizes)
    tpu = cpu.to("tpu")
    view, overlaps = random_view(rng, cpu, rng.randint(1, 5))
    torch.testing.assert_close((view(tpu) * 2).cpu(), view(cpu) * 2)
    torch.testing.assert_close(view(tpu).cpu(), view(cpu))
    if not overlaps:
        view(cpu).mul_(-1)
        view(tpu).mul_(-1)
        torch.testing.assert_close(tpu.cpu(), cpu)
        value = torch.rand(view(cpu).shape)
        view(cpu).copy_(value)
        view(tpu).copy_(value.to("tpu"))
        torch.testing.assert_close(tpu.cpu(), cpu)


def test_views_that_differ_by_offset_share_a_program():
    x = torch.arange(24.0).reshape(6, 4)
    t = x.to("tpu")
    (t[1] * 2).cpu()
    (t[0] * 2).cpu()
    before = torch.tpu.cache_stats()["programs"]
    for i in range(1, 6):
        torch.testing.assert_close((t[i] * 2).cpu(), x[i] * 2)
    assert torch.tpu.cache_stats()["programs"] == before


def test_a_write_through_one_alias_is_seen_by_all():
    x = torch.zeros(4, 4, device="tpu")
    row, column, again = x[1], x[:, 2], x.view(16)
    row.fill_(1)
    assert column.cpu().tolist() == [0, 1, 0, 0]
    again[6:7].fill_(5)
    assert row.cpu().tolist() == [1, 1, 5, 1]


def test_a_copy_is_not_touched_by_later_writes():
    x = torch.ones(3, device="tpu")
    y = x.clone()
    x.add_(1)
    assert y.cpu().tolist() == [1, 1, 1]
    y.mul_(3)
    assert x.cpu().tolist() == [2, 2, 2]
    assert y.cpu().tolist() == [3, 3, 3]


def test_storage_seen_as_another_dtype():
    x = torch.randn(2, 6)
    t = x.to("tpu")
    torch.testing.assert_close(t.view(torch.int32).cpu(), x.view(torch.int32))
    z = torch.randn(3, 2, dtype=torch.complex64)
    d = z.to("tpu")
    torch.view_as_real(d).mul_(2)
    torch.testing.assert_close(d.cpu(), z * 2)
    torch.testing.assert_close(torch.view_as_complex(t.view(2, 3, 2)).cpu(), torch.view_as_complex(x.view(2, 3, 2)))


def test_uninitialised_and_grown_storages():
    x = torch.empty(3, 2, device="tpu")
    assert x.cpu().shape == (3, 2)
    x[1].fill_(4)
    assert x[1].cpu().tolist() == [4, 4]
    y = torch.ones(2, device="tpu")
    y.resize_(4)
    y[2:].fill_(2)
    assert y.cpu().tolist() == [1, 1, 2, 2]
