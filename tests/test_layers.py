"""Which folder of the core may include which, and the few other rules a compiler does not hold."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A folder's own headers, and these. "torch" stands for PyTorch's, pybind11's and Python's headers.
MAY_INCLUDE = {
    "base": set(),
    "pjrt": {"base"},
    "hlo": {"base"},
    "ops": {"hlo", "base"},
    "graph": {"ops", "hlo", "pjrt", "base"},
    "device": {"graph", "pjrt", "base", "torch"},
    "distributed": {"device", "graph", "base", "torch"},
    "dispatch": {"device", "graph", "ops", "base", "torch"},
    "bindings": {"base", "pjrt", "hlo", "ops", "graph", "device", "distributed", "dispatch", "torch"},
}
TORCH = ("ATen/", "c10/", "torch/", "caffe2/", "pybind11/", "Python.h")
FORBIDDEN = {"torch/extension.h", "torch/torch.h", "torch/all.h", "ATen/ATen.h"}
# Read nowhere else: settings by config, and what tells where the user's directories are.
READS_ENVIRONMENT = {"csrc/base/config.cpp"}

SOURCES = sorted(
    path
    for folder in ("csrc", "torch_tpu/bindings")
    for pattern in ("*.h", "*.cpp")
    for path in (ROOT / folder).rglob(pattern)
)


def folder_of(path: str) -> str:
    parts = Path(path).parts
    return parts[1]


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def faults(path: str, text: str) -> list[str]:
    """What a file (its path seen from the root) breaks."""
    found = []
    folder = folder_of(path)
    if folder not in MAY_INCLUDE:
        return [f"{path}: no folder is called {folder}"]
    allowed = MAY_INCLUDE[folder] | {folder}
    for header in re.findall(r'^\s*#\s*include\s*[<"]([^">]+)[">]', text, flags=re.MULTILINE):
        if header in FORBIDDEN:
            found.append(f"{path}: {header} is too large to include")
        if header.startswith(TORCH):
            target = "torch"
        elif header == "pjrt_c_api.h":
            target = "pjrt"
        elif "/" in header and header.split("/")[0] in MAY_INCLUDE:
            target = header.split("/")[0]
        else:
            continue
        if target not in allowed:
            found.append(f"{path}: {folder} may not include {header}")
    if not re.match(r"// \S", text):
        found.append(f"{path}: the first line says what the file is for")
    if path.endswith(".h") and "#pragma once" not in text.splitlines():
        found.append(f"{path}: no #pragma once")
    if path.endswith(".h") and re.search(r"^\s*using namespace", text, flags=re.MULTILINE):
        found.append(f"{path}: using namespace in a header")
    if "getenv" in without_comments(text) and path not in READS_ENVIRONMENT:
        found.append(f"{path}: the environment is read by base/config.cpp only")
    if folder == "ops" and text.count("\n") >= 900:
        found.append(f"{path}: 900 lines or more; split the family")
    return found


def test_there_is_something_to_check():
    folders = {folder_of(str(path.relative_to(ROOT))) for path in SOURCES}
    assert {"base", "pjrt", "hlo", "ops", "graph"} <= folders


@pytest.mark.parametrize("path", [str(path.relative_to(ROOT)) for path in SOURCES])
def test_file_keeps_the_rules(path):
    assert faults(path, (ROOT / path).read_text()) == []


@pytest.mark.parametrize(
    ("path", "text", "fault"),
    [
        ("csrc/base/x.h", '#include "pjrt/client.h"', "base may not include pjrt/client.h"),
        ("csrc/ops/x.cpp", '#  include "graph/graph.h"', "ops may not include graph/graph.h"),
        ("csrc/dispatch/x.cpp", '#include "hlo/hlo.h"', "dispatch may not include hlo/hlo.h"),
        ("csrc/graph/x.cpp", "#include <ATen/core/Tensor.h>", "graph may not include ATen/core/Tensor.h"),
        ("csrc/hlo/x.cpp", "#include <pjrt_c_api.h>", "hlo may not include pjrt_c_api.h"),
        ("csrc/device/x.cpp", "#include <torch/extension.h>", "torch/extension.h is too large"),
        ("csrc/graph/x.cpp", 'std::getenv("HOME")', "read by base/config.cpp only"),
        ("csrc/ops/x.h", "using namespace tpu;", "using namespace in a header"),
        ("csrc/ops/x.cpp", "\n" * 900, "split the family"),
        ("csrc/utils/x.cpp", "", "no folder is called utils"),
    ],
)
def test_a_breach_is_found(path, text, fault):
    assert any(fault in found for found in faults(path, f"// A file.\n#pragma once\n{text}\n"))


def test_a_file_without_a_first_sentence_is_found():
    assert faults("csrc/base/x.cpp", "#include <string>\n") == [
        "csrc/base/x.cpp: the first line says what the file is for"
    ]


def test_a_good_file_has_no_faults():
    text = '// A file.\n#include "graph/disk.h"\n\n#include <string>\n\n#include "base/log.h"\n// no getenv\n'
    assert faults("csrc/graph/disk.cpp", text) == []
