"""Writes docs/environment.md and docs/coverage.md from what is built; --check only tells if they are up to date."""

import argparse
import pathlib
import sys

from torch_tpu import _C

ROOT = pathlib.Path(__file__).resolve().parent.parent

ENVIRONMENT = """# Environment variables

Made by `scripts/make_docs.py` from the table in `csrc/base/config.cpp`. All are read once, when they are first needed.
`torch-tpu info` shows those that differ from their default; a name with the prefix that is not in this table gives a
warning.

| variable | values | default | what it does |
|---|---|---|---|
"""

COVERAGE = """# Ops on the device

Made by `scripts/make_docs.py` from the kernels that are registered. A lowering serves the op it is named after and,
derived from the schema, the forms beside it (in place, `out=`). Native kernels are written by hand: they move or
describe data rather than compute. Ops that PyTorch composes of others need no kernel. What is not here runs on the CPU,
with one warning per op (`TORCH_TPU_FALLBACK`).

"""


def escaped(text):
    return text.replace("|", "\\|")


def environment():
    rows = [
        f"| `{name}` | {escaped(kind)} | {f'`{default}`' if default else 'empty'} | {escaped(sentence)} |"
        for name, kind, default, sentence, _ in _C.settings()
    ]
    return ENVIRONMENT + "\n".join(rows) + "\n"


def gaps():
    """Lines of tests/unsupported.txt without comments, as (entry, check, dtype)."""
    lines = (ROOT / "tests" / "unsupported.txt").read_text().splitlines()
    return [tuple(text.split()) for text in (line.split("#")[0].strip() for line in lines) if text]


def coverage():
    kernels = sorted(_C.coverage())
    serves = {}
    for op, row, kind in kernels:
        if kind != "native":
            serves.setdefault(row, []).extend([op] if op != row else [])
    native = [op for op, _, kind in kernels if kind == "native"]
    text = COVERAGE + f"{len(kernels)} kernels: {len(serves)} lowerings and what derives from them, "
    text += f"{len(native)} native.\n\n| lowering | serves too |\n|---|---|\n"
    text += "".join(f"| `{row}` | {' '.join(f'`{op}`' for op in ops)} |\n" for row, ops in sorted(serves.items()))
    text += "\n## Native\n\n" + "\n".join(f"`{op}`" for op in native) + "\n"
    text += (
        "\n## Known gaps\n\nEntries of PyTorch's op samples with a check that fails, from `tests/unsupported.txt`.\n\n"
    )
    by_entry = {}
    for entry, check, dtype in gaps():
        by_entry.setdefault(entry, []).append(f"{check} {dtype}")
    text += "| entry | checks that fail |\n|---|---|\n" if by_entry else "None.\n"
    text += "".join(f"| {entry} | {', '.join(checks)} |\n" for entry, checks in sorted(by_entry.items()))
    return text


PAGES = {"environment.md": environment, "coverage.md": coverage}


def outdated():
    """Names of the pages that are not what would be written now."""
    return [
        name
        for name, make in PAGES.items()
        if not (ROOT / "docs" / name).exists() or (ROOT / "docs" / name).read_text() != make()
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    if parser.parse_args().check:
        names = outdated()
        if names:
            sys.exit(f"out of date: {', '.join(names)}; run scripts/make_docs.py")
        return
    for name, make in PAGES.items():
        (ROOT / "docs" / name).write_text(make())


if __name__ == "__main__":
    main()
