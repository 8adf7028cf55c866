"""What is known of a GPU by its name: its memory and what it computes with. Pure.

A machine that has the GPU says how much memory it has, and that is what counts. The table is for a type of the catalogue that no
machine has yet. Sizes are what NVIDIA's driver reports as the total, with error correction on.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from moorage.engines.base import NodeCapacity

_MIB = 2**20
_GIB = 2**30


@dataclass(frozen=True)
class GpuFacts:
    memory_bytes: int | None
    """None: nobody says."""
    capability: tuple[int, int] | None
    """NVIDIA's compute capability."""


_KNOWN: tuple[tuple[str, int, tuple[int, int]], ...] = (
    # What its name holds, its memory in MiB, its compute capability. The first that matches counts.
    (r"\bB300\b", 275_040, (10, 3)),
    (r"\bB200\b", 183_359, (10, 0)),
    (r"\bGH200\b", 97_871, (9, 0)),
    (r"\bH200\b", 143_771, (9, 0)),
    (r"\bH100 NVL\b", 95_830, (9, 0)),
    (r"\bH(100|800)\b", 81_559, (9, 0)),
    (r"\bH20\b", 97_871, (9, 0)),
    (r"\bA(100|800)\b.*80GB", 81_920, (8, 0)),
    (r"\bA100\b", 40_960, (8, 0)),
    (r"\bA30\b", 24_576, (8, 0)),
    (r"\bL40S?\b", 46_068, (8, 9)),
    (r"\bL4\b", 23_034, (8, 9)),
    (r"\bA40\b", 46_068, (8, 6)),
    (r"\bA10G?\b", 23_028, (8, 6)),
    (r"\bA16\b|\bA2\b", 15_356, (8, 6)),
    (r"\bRTX PRO 6000\b", 97_887, (12, 0)),
    (r"\bRTX 6000 Ada\b", 49_140, (8, 9)),
    (r"\bRTX A6000\b", 49_140, (8, 6)),
    (r"\bRTX A5000\b", 24_564, (8, 6)),
    (r"\bRTX A4000\b", 16_376, (8, 6)),
    (r"\bRTX 5090\b", 32_607, (12, 0)),
    (r"\bRTX 5080\b", 16_303, (12, 0)),
    (r"\bRTX 4090\b", 24_564, (8, 9)),
    (r"\bRTX 4080\b", 16_376, (8, 9)),
    (r"\bRTX 3090\b", 24_576, (8, 6)),
    (r"\bV100\b.*32GB", 32_768, (7, 0)),
    (r"\bV100\b", 16_384, (7, 0)),
    (r"\bT4\b", 15_360, (7, 5)),
    (r"\bP100\b", 16_384, (6, 0)),
)


def gpu_facts(model: str, nodes: Sequence[NodeCapacity] = ()) -> GpuFacts:
    """Of several machines the one that has the least: a replica may get any."""
    known = next((one for one in _KNOWN if re.search(one[0], model)), None)
    capability = known[2] if known is not None else None
    told = [
        gpu.memory_bytes
        for node in nodes
        for gpu in node.gpus
        if gpu.model == model and gpu.memory_bytes is not None
    ]
    if told:
        return GpuFacts(min(told), capability)
    if known is not None:
        return GpuFacts(known[1] * _MIB, capability)
    named = re.search(r"\b([0-9]{1,3}) ?GB\b", model)
    return GpuFacts(int(named[1]) * _GIB if named is not None else None, None)
