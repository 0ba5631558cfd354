"""The pages that are made by a script are up to date, and the others name only what there is."""

import importlib.util
import pathlib
import re

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


def test_made_pages_are_up_to_date():
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "scripts" / "make_docs.py")
    make_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_docs)
    assert make_docs.outdated() == [], "run `make docs`"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#]+)", text):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_names_of_torch_tpu_exist(page):
    for name in set(re.findall(r"torch\.tpu\.(\w+)", (ROOT / page).read_text())):
        assert hasattr(torch.tpu, name), name


@pytest.mark.parametrize("page", PAGES)
def test_variables_are_in_the_table(page):
    from torch_tpu import _C

    known = {row[0] for row in _C.settings()}
    assert set(re.findall(r"TORCH_TPU_[A-Z_]+[A-Z]", (ROOT / page).read_text())) <= known


def test_public_names_are_listed_and_there():
    for name in torch.tpu.__all__:
        assert hasattr(torch.tpu, name), name
