"""Builds every configuration of this folder with `transformers` on its meta device and writes down how many parameters it has.

Run by `make prove-models`, in an environment of its own with `torch` and `transformers`: they are far too large for the tests, which
hold Moorage's own count to the table that this writes. It imports nothing of Moorage.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSpeechSeq2Seq

FOLDER = Path(__file__).parent


def main() -> None:
    counted = {}
    for file in sorted((FOLDER / "configurations").glob("*.json")):
        facts = json.loads(file.read_text())
        counted[facts["model"]] = count(facts["config"])
        print(f"{facts['model']:45} {counted[facts['model']]:>16,}", flush=True)
    table = {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "parameters": counted,
    }
    (FOLDER / "counted.json").write_text(json.dumps(table, indent=1) + "\n")


def count(values: dict[str, object]) -> int:
    # How the numbers are packed is no part of the architecture.
    plain = {
        name: value for name, value in values.items() if name not in ("quantization_config", "architectures")
    }
    config = AutoConfig.for_model(**plain)
    with torch.device("meta"):
        model = kind_of(values).from_config(config)
    model.tie_weights()
    # `parameters()` names a tensor that two modules share once.
    return sum(parameter.numel() for parameter in model.parameters())


def kind_of(values: dict[str, object]) -> type:
    (architecture,) = values["architectures"]
    if architecture.startswith("Whisper"):
        return AutoModelForSpeechSeq2Seq
    if architecture.endswith(("ForCausalLM", "LMHeadModel")):
        return AutoModelForCausalLM
    return AutoModel


if __name__ == "__main__":
    sys.exit(main())
