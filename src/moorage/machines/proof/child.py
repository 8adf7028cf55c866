"""A process of its own for a proof: its memory ends with it, and where there is too little, it is what the kernel ends.

It reads an order and then a question, a line of JSON each, and writes a line for each: `python -m moorage.machines.proof.child`.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from moorage.engines.remote.codec import REQUESTS, decode, encode
from moorage.engines.remote.proofs import GpuFilled, ProofAnswer, ProofFilled, ProofOrder, ProofQuestion
from moorage.machines.proof.gpu import Gpu, GpuError
from moorage.machines.proof.memory import Memory


def main() -> None:
    os.nice(19)  # What tenants run comes first.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    memory, gpus = Memory(), dict[str, Gpu]()
    try:
        order: ProofOrder = decode(ProofOrder, _read(), REQUESTS)
        filled = list[GpuFilled]()
        for wanted in order.gpus:
            gpus[wanted.device_id] = gpu = Gpu(wanted.device_id)
            filled.append(gpu.fill(order.nonce, wanted))
        memory.fill(order.nonce, order.memory_bytes, order.iterations)
        _write({"filled": encode(ProofFilled(tuple(filled)))})
        question: ProofQuestion = decode(ProofQuestion, _read(), REQUESTS)
        answer = ProofAnswer(
            memory.answer(question.salt, question.rows),
            tuple(gpus[one.device_id].answer(question.salt, one) for one in question.gpus),
        )
        _write({"answer": encode(answer)})
    except (GpuError, MemoryError, OSError, ValueError) as exc:
        _write({"failed": str(exc) or type(exc).__name__})


def _read() -> Any:
    return json.loads(sys.stdin.readline())


def _write(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
