"""Programs are compiled once: what varies at run time shares them, and a second process finds them on disk."""

import pytest
import torch

MODEL = """import torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=2, vocab_size=100, eos_token_id=None, pad_token_id=0)
model = LlamaForCausalLM(config).eval().to("tpu")
with torch.no_grad():
    out = model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=6, do_sample=False{options})
stats = torch.tpu.cache_stats()
print(out.tolist(), stats["compiles"], stats["disk_hits"] > 0)"""


@pytest.mark.parametrize("options", ["", ", cache_implementation='static', disable_compile=True"])
def test_a_second_process_compiles_nothing(prints, tmp_path, options):
    code = MODEL.replace("{options}", options)
    first, second = prints(code, TORCH_TPU_CACHE_DIR=tmp_path), prints(code, TORCH_TPU_CACHE_DIR=tmp_path)
    text, compiles, _ = first.rsplit(" ", 2)
    assert int(compiles) > 0
    assert second == f"{text} 0 True"


def test_the_cache_can_be_off(prints):
    code = "import torch, torch_tpu._C as c; torch.ones(2, device='tpu') * 2; print(c.cache_directory())"
    assert prints(code, TORCH_TPU_CACHE_DIR="off") == "None"


def programs_added(work):
    torch.tpu.synchronize()
    before = torch.tpu.cache_stats()["programs"]
    work()
    torch.tpu.synchronize()
    return torch.tpu.cache_stats()["programs"] - before


def test_values_of_scalars_compile_nothing():
    x = torch.ones(7, device="tpu")
    x * 0.5
    x.add_(x, alpha=0.1)
    x.fill_(1.0)
    torch.clamp(x, 0.1, 0.2)

    def work():
        for i in range(5):
            x * (i + 0.25)
            x.add_(x, alpha=i / 10)
            x.fill_(i / 3)
            torch.clamp(x, i / 10, i / 2)

    assert programs_added(work) == 0


def test_chips_share_compiled_programs():
    torch.tpu.synchronize()
    (torch.ones(9, device="tpu:0") * 2.5).cpu()
    before = torch.tpu.cache_stats()
    for i in range(1, 4):
        assert (torch.ones(9, device=f"tpu:{i}") * 2.5).tolist() == [2.5] * 9
    after = torch.tpu.cache_stats()
    # Loaded or shared for the other chips, never compiled by another text.
    assert after["compiles"] - before["compiles"] <= 3


def test_a_log_line_for_each_compile(script, tmp_path):
    code = "import torch; (torch.ones(11, device='tpu') * 2).cpu()"
    done = script(code, TORCH_TPU_CACHE_DIR=tmp_path, TORCH_TPU_LOG="compile")
    assert done.returncode == 0 and "compile" in done.stderr
    assert script(code, TORCH_TPU_CACHE_DIR=tmp_path).stderr == ""


def test_programs_can_be_read(script, tmp_path):
    done = script(
        "import torch; (torch.ones(11, device='tpu') * 2).cpu()",
        TORCH_TPU_DUMP_DIR=tmp_path / "dump",
        TORCH_TPU_CACHE_DIR=tmp_path / "cache",
    )
    assert done.returncode == 0, done.stderr
    texts = [path.read_text() for path in (tmp_path / "dump").iterdir()]
    assert any("stablehlo.multiply" in text for text in texts)
