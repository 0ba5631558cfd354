"""What goes wrong says so as PyTorch users expect, or work goes on: plugins, indices, shapes, memory, the cache."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

PROBE = "import torch; print(torch.accelerator.is_available(), torch.accelerator.device_count())\n"
USE = "import torch; x = torch.arange(4.0, device='tpu'); print((x * 2 + 1).tolist())\n"
USED = "[1.0, 3.0, 5.0, 7.0]"


# ---- plugins


def refusal(script, **variables):
    """The error of the device's first use. What merely asks whether there is a device goes on."""
    done = script(PROBE, **variables)
    assert done.returncode == 0 and done.stdout.strip() == "False 0", done.stderr
    assert script("import torch; torch.manual_seed(0); print(torch.rand(2).sum())", **variables).returncode == 0
    done = script(USE, **variables)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


def library(tmp_path, source):
    """A shared library made of C source."""
    (tmp_path / "plugin.c").write_text(source)
    path = tmp_path / "plugin.so"
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("c++")
    subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", tmp_path / "plugin.c", "-o", path], check=True)
    return path


def test_plugin_file_missing(script):
    assert refusal(script, TORCH_TPU_PLUGIN="/no/such.so") == "RuntimeError: PJRT plugin /no/such.so: no such file"


@pytest.mark.parametrize(("kind", "advice"), [("cpu", "lammps-jax-pjrt-cpu"), ("cuda", "jax-cuda13-pjrt")])
def test_no_plugin_installed(script, kind, advice):
    code = "import torch, torch_tpu._C as c; c.set_plugin_candidates([]); torch.ones(1, device='tpu')"
    done = script(code, TORCH_TPU_PLUGIN=kind)
    assert done.returncode == 1
    assert f"RuntimeError: no PJRT plugin for {kind} found; install one (pip install {advice})" in done.stderr


def test_a_file_that_is_no_library(script, tmp_path):
    path = tmp_path / "plugin.so"
    path.write_text("not a library")
    assert f"RuntimeError: PJRT plugin {path} cannot be loaded" in refusal(script, TORCH_TPU_PLUGIN=path)


def test_a_library_that_is_no_plugin(script, tmp_path):
    path = library(tmp_path, "int f(void) { return 1; }")
    text = refusal(script, TORCH_TPU_PLUGIN=path)
    assert text == f"RuntimeError: {path} is not a PJRT plugin: it has no function GetPjrtApi"


def test_a_plugin_that_is_too_old(script, tmp_path):
    source = """#include <stddef.h>
struct Version { size_t size; void *next; int major, minor; };
struct Api { size_t size; void *next; struct Version version; void *functions[200]; };
static struct Api api = {sizeof(struct Api), 0, {sizeof(struct Version), 0, 0, 20}};
const void *GetPjrtApi(void) { return &api; }"""
    text = refusal(script, TORCH_TPU_PLUGIN=library(tmp_path, source))
    assert "speaks version 0.20" in text and "RuntimeError" in text


def test_a_setting_that_makes_no_sense(script):
    text = refusal(script, TORCH_TPU_PLUGIN="bogus")
    assert text == "ValueError: TORCH_TPU_PLUGIN: expected auto, tpu, cuda, cpu or a path, got 'bogus'"
    text = refusal(script, TORCH_TPU_CPU_DEVICES=0)
    assert text == "ValueError: TORCH_TPU_CPU_DEVICES: expected an integer from 1 to 1024, got '0'"


def test_a_broken_install_does_not_break_pytorch(script):
    code = """import sys, warnings
sys.modules["torch_tpu._C"] = None
warnings.simplefilter("always")
import torch
print(torch.ones(2).sum().item())"""
    done = script(code)
    assert done.returncode == 0 and done.stdout.strip() == "2.0"
    assert "can't add the device tpu" in done.stderr and "reinstall" in done.stderr


def test_info_says_what_is_there_and_what_is_wrong(tmp_path):
    def info(**variables):
        done = subprocess.run(
            [sys.executable, "-m", "torch_tpu.info"],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stdout

    code, text = info(TORCH_TPU_CACHE_DIR=str(tmp_path / "cache"), TORCH_TPU_CPU_DEVICES="2")
    assert code == 0, text
    for part in ("torch_tpu:", torch.__version__, "API version:", "devices:", "TORCH_TPU_CPU_DEVICES=2", "ready"):
        assert part in text
    assert str(tmp_path / "cache") in text
    code, text = info(TORCH_TPU_PLUGIN="/no/such.so")
    assert code == 1 and "wrong:" in text and "/no/such.so: no such file" in text
    blocked = tmp_path / "file"
    blocked.write_text("")
    code, text = info(TORCH_TPU_CACHE_DIR=str(blocked / "cache"))
    assert "the cache directory can't be used" in text


# ---- the caller's mistakes


def test_unknown_device_index():
    for use in (
        lambda: torch.ones(1, device="tpu:9"),
        lambda: torch.ones(1).to("tpu:9"),
        lambda: torch.tpu.set_device(9),
        lambda: torch.tpu.synchronize(9),
        lambda: torch.tpu.get_device_properties(9),
        lambda: torch.tpu.memory_allocated(9),
    ):
        with pytest.raises(RuntimeError, match="invalid device ordinal: tpu:9, there are 4 devices"):
            use()
    with pytest.raises(ValueError, match="expected a tpu device, got cuda:0"):
        torch.tpu.set_device("cuda:0")


def test_mixed_devices():
    x = torch.ones(3, device="tpu")
    for other, name in ((torch.ones(3), "cpu"), (torch.ones(3, device="tpu:1"), "tpu:1")):
        with pytest.raises(RuntimeError, match=f"Expected all tensors to be on the same device.*tpu:0 and {name}"):
            x + other
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.nn.Linear(3, 2)(x)
    assert (x + torch.tensor(2.0)).tolist() == [3, 3, 3]


def test_shapes_that_do_not_fit():
    x = torch.ones(3, 4, device="tpu")
    for use, text in (
        (lambda: x + torch.ones(5, device="tpu"), r"The size of tensor a \(4\) must match the size of tensor b \(5\)"),
        (lambda: x @ x, r"mat1 and mat2 shapes cannot be multiplied \(3x4 and 3x4\)"),
        (lambda: x.view(5), r"shape '\[5\]' is invalid for input of size 12"),
        (lambda: torch.cat([x, x[0]]), "Tensors must have same number of dimensions"),
        (lambda: x.sum(7), r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 7\)"),
        (lambda: x[9], "index 9 is out of bounds for dimension 0 with size 3"),
        (lambda: x.add_(torch.ones(2, 3, 4, device="tpu")), "doesn't match the broadcast shape"),
    ):
        with pytest.raises((RuntimeError, IndexError), match=text):
            use()
    assert x.sum().item() == 12


INDEXING = {
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "index": lambda x, i: x[i],
    "index_select": lambda x, i: x.index_select(0, i),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 1.0),
    "index_put": lambda x, i: x.clone().index_put_((i,), torch.tensor(1.0, device="tpu")),
}


@pytest.mark.parametrize("name", INDEXING)
def test_an_index_out_of_range(name):
    x = torch.ones(3, 4, device="tpu")
    far = torch.tensor([0, 9], device="tpu")
    with torch.tpu.eager_mode("debug"), pytest.raises(IndexError, match="out of range"):
        INDEXING[name](x, far)
    INDEXING[name](x, far).cpu()  # not checked, but never a crash
    assert (x + 1).sum().item() == 24


def test_out_of_memory():
    with pytest.raises(torch.OutOfMemoryError, match="(?i)memory|address space"):
        (torch.zeros(1 << 34, 16, device="tpu") + 1)[0, 0].item()
    with pytest.raises(torch.OutOfMemoryError):  # what failed asynchronously is told once more, as on other devices
        torch.tpu.synchronize()
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 46, device="tpu")
    torch.ones(1, device="tpu").item()
    assert torch.ones(3, device="tpu").sum().item() == 3


def test_fallback_warns_once_and_can_be_forbidden(script):
    code = """import torch, warnings
warnings.simplefilter("always")
x = torch.eye(3, device="tpu")
for _ in range(2): torch.linalg.eigvals(x).cpu()
print(sum(torch.tpu.fallback_stats().values()))"""
    done = script(code, TORCH_TPU_FALLBACK="warn")
    assert done.returncode == 0 and done.stdout.strip() == "2"
    assert done.stderr.count("linalg_eig") == 1, done.stderr
    assert "UserWarning" not in script(code, TORCH_TPU_FALLBACK="silent").stderr
    done = script(code, TORCH_TPU_FALLBACK="error")
    assert done.returncode == 1 and "NotImplementedError" in done.stderr and "linalg_eig" in done.stderr


# ---- the cache directory


def programs(folder):
    return [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]


def goes_on(script, **variables):
    """The work is done; at most one warning is written. Gives what was written."""
    done = script(USE, **variables)
    assert done.returncode == 0 and done.stdout.strip() == USED, done.stderr
    lines = [line for line in done.stderr.splitlines() if "torch_tpu" in line or "warn" in line.lower()]
    assert len(lines) <= 1, done.stderr
    return done.stderr


def test_a_cache_that_can_not_be_made(script, tmp_path):
    (tmp_path / "file").write_text("")
    text = goes_on(script, TORCH_TPU_CACHE_DIR=tmp_path / "file" / "cache")
    assert "compiled programs cannot be kept in" in text


def test_a_cache_that_can_not_be_written(script, tmp_path):
    # /proc takes no new files, not even from root.
    text = goes_on(script, TORCH_TPU_CACHE_DIR="/proc/self/torch_tpu")
    assert "compiled programs cannot be kept in /proc/self/torch_tpu" in text


def test_a_full_disk(script, tmp_path):
    # A limit on the size of files fails the write in the middle, as a full disk does.
    code = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n" + USE
    done = script(code, TORCH_TPU_CACHE_DIR=tmp_path)
    assert done.returncode == 0 and done.stdout.strip() == USED, done.stderr
    assert done.stderr.count("compiled programs cannot be kept in") == 1
    # Nothing half written is taken for a program later.
    assert "cannot" not in goes_on(script, TORCH_TPU_CACHE_DIR=tmp_path)


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[: len(b) // 2], lambda b: b[:-9] + b"x" * 9])
def test_a_corrupted_cache(script, tmp_path, damage):
    goes_on(script, TORCH_TPU_CACHE_DIR=tmp_path)
    damaged = programs(tmp_path)
    assert damaged
    for path in damaged:
        path.write_bytes(damage(path.read_bytes()))
    goes_on(script, TORCH_TPU_CACHE_DIR=tmp_path)
    count = "; print(torch.tpu.cache_stats()['compiles'])"
    done = script(USE.strip() + count, TORCH_TPU_CACHE_DIR=tmp_path)
    assert done.stdout.split("\n")[1] == "0"


MANY = """import torch
x = torch.ones(3, device="tpu")
for n in range(1, 40): assert (torch.ones(n, device="tpu") * 3).sum().item() == 3 * n
print(torch.tpu.cache_stats()["compiles"])"""


def start(code, folder):
    environment = {**os.environ, "TORCH_TPU_CACHE_DIR": str(folder)}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)


def test_two_processes_fill_one_cache(script, tmp_path):
    both = [start(MANY, tmp_path) for _ in range(2)]
    for process in both:
        process.communicate(timeout=300)
        assert process.returncode == 0
    done = script(MANY, TORCH_TPU_CACHE_DIR=tmp_path)
    assert done.returncode == 0 and done.stdout.strip() == "0", done.stderr


def test_a_process_killed_while_it_fills_the_cache(script, tmp_path):
    process = start(MANY, tmp_path)
    deadline = time.monotonic() + 120
    while len(programs(tmp_path)) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    done = script(MANY, TORCH_TPU_CACHE_DIR=tmp_path)
    assert done.returncode == 0, done.stderr
    assert script(MANY, TORCH_TPU_CACHE_DIR=tmp_path).stdout.strip() == "0"


def test_the_cache_keeps_to_its_size(script, tmp_path):
    assert script(MANY, TORCH_TPU_CACHE_DIR=tmp_path, TORCH_TPU_CACHE_SIZE="64K").returncode == 0
    assert script(USE, TORCH_TPU_CACHE_DIR=tmp_path, TORCH_TPU_CACHE_SIZE="64K").returncode == 0
    assert sum(path.stat().st_size for path in programs(tmp_path)) <= 2 * 65536


def test_a_process_that_ends_while_programs_compile():
    code = (
        "import torch\n"
        "x = torch.randn(4321, device='tpu')\n"
        "for i in range(30):\n"
        "    x = torch.nn.functional.gelu(x[: 4320 - i].softmax(0))\n"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "TORCH_TPU_CACHE_DIR": "off"},
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
