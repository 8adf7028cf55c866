"""The proof that a lent machine gives of its GPU, on a real one: what it is, and what it is not.

    python3 bench/gpu_proof.py

On a machine with an NVIDIA driver; nothing else is needed there. Each claim is proven as a lent machine proves it: in a process of
its own, in the time that its claim allows, with answers that are checked as the installation checks them.
"""

import asyncio
import random
import secrets
import sys
import time
from dataclasses import dataclass, replace

from moorage.engines.base import GpuDevice
from moorage.engines.nvidia import find_gpus
from moorage.kit.errors import EngineError
from moorage.machines.proof.models import bandwidth_of
from moorage.machines.proof.rules import Claim, Task, question_for, tasks_for, why_wrong
from moorage.node.proofs import Proofs

FASTER = 1.5
"""A claim of a model whose memory is so many times as fast has to fail."""
LINE = "{:<44} {:>8} {:>8} {:>8} {:>8}  {}"


@dataclass(frozen=True)
class Outcome:
    took_s: float
    answered_s: float
    failure: str | None


async def main() -> int:
    machine = await find_gpus()
    if machine is None or not machine.gpus:
        print("There is no NVIDIA GPU here.", file=sys.stderr)
        return 2
    first = machine.gpus[0]
    own, memory = bandwidth_of(first.model), first.memory_bytes
    if own is None or memory is None:
        print(f"The speed of {first.model} is not known: moorage.machines.proof.models", file=sys.stderr)
        return 2
    gpu = GpuDevice(first.device_id, first.model, memory)
    claims = [
        (f"what it is: {gpu.model}, {memory / 2**30:.0f} GiB", gpu, True),
        ("a tenth more memory", replace(gpu, memory_bytes=int(memory * 1.1)), False),
        ("twice the memory", replace(gpu, memory_bytes=2 * memory), False),
        *((f"a {model}", replace(gpu, model=model), False) for model in faster_than(own)),
        *(
            (f"a {model}", replace(gpu, model=model), True)
            for model in ("NVIDIA L40S", "NVIDIA H100 80GB HBM3")
        ),
    ]
    print(LINE.format("it claims", "took", "allowed", "TB/s", "answer", "and that"))
    wrong = 0
    for words, claim, passes in claims:
        _, task = tasks_for(Claim(0, 1.0, (claim,)), secrets.token_hex(16), 0.0)
        outcome = await tried(task)
        (order,) = task.order.gpus
        rate = order.memory_bytes * order.passes / outcome.took_s / 1e12
        wrong += (outcome.failure is None) != passes
        said = "passes" if outcome.failure is None else f"fails: {outcome.failure}"
        print(
            LINE.format(
                words,
                f"{outcome.took_s:.1f} s",
                f"{task.within_s:.1f} s",
                f"{rate:.2f}",
                f"{outcome.answered_s:.2f} s",
                said,
            ),
            flush=True,
        )
    return 1 if wrong else 0


def faster_than(bandwidth: int) -> list[str]:
    return [one for one in ("NVIDIA B200",) if (bandwidth_of(one) or 0) >= FASTER * bandwidth]


async def tried(task: Task) -> Outcome:
    """It is let go on beyond its time, so that there is a figure for how long it takes."""
    proofs, chance = Proofs(), random.SystemRandom()
    began_s = time.perf_counter()
    try:
        filled = await proofs.begin(task.order)
    except EngineError as exc:
        return Outcome(time.perf_counter() - began_s, 0.0, exc.message)
    took_s = time.perf_counter() - began_s
    question = question_for(task.order, secrets.token_hex(16), chance)
    began_s = time.perf_counter()
    answer = await proofs.answer(question)
    answered_s = time.perf_counter() - began_s
    if took_s > task.within_s or answered_s > task.answer_within_s:
        return Outcome(took_s, answered_s, "it took too long")
    return Outcome(took_s, answered_s, why_wrong(task.order, filled, question, answer, chance))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
