"""Where a container's cache is inside, and the variables that make hubs and compilers look there. Pure.

A group of variables is set as a whole or not at all: whoever sets one of them has decided where that program keeps its files,
and another of the same group would overrule it.
"""

from collections.abc import Mapping

CACHE_FOLDER = "/var/cache/moorage"
WEIGHTS = "huggingface"
COMPILED_FOLDERS = ("vllm", "triton", "inductor", "cuda")
"""Of the folders below, those of compilers."""
_HUB = f"{CACHE_FOLDER}/{WEIGHTS}/hub"
_GROUPS: tuple[Mapping[str, str], ...] = (
    {
        "HF_HOME": f"{CACHE_FOLDER}/{WEIGHTS}",
        "HF_HUB_CACHE": _HUB,
        # What it was called before; images of model servers still set it to folders of their own.
        "HUGGINGFACE_HUB_CACHE": _HUB,
    },
    {"VLLM_CACHE_ROOT": f"{CACHE_FOLDER}/vllm"},
    {"TRITON_CACHE_DIR": f"{CACHE_FOLDER}/triton"},
    {"TORCHINDUCTOR_CACHE_DIR": f"{CACHE_FOLDER}/inductor"},
    {"CUDA_CACHE_PATH": f"{CACHE_FOLDER}/cuda"},
    {"TORCH_HOME": f"{CACHE_FOLDER}/torch"},
    {"LLAMA_CACHE": f"{CACHE_FOLDER}/llama.cpp"},
    {"OLLAMA_MODELS": f"{CACHE_FOLDER}/ollama"},
)


def cache_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Those that the user's own environment leaves to us."""
    return {
        name: value
        for group in _GROUPS
        if not group.keys() & environment.keys()
        for name, value in group.items()
    }
