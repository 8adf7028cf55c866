"""How much a machine has to prove, what is asked of it afterwards, and what its answers come to. Pure, but for `random`."""

import math
import random
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from moorage.engines.base import GpuDevice
from moorage.engines.remote.proofs import (
    GpuOrder,
    GpuQuestion,
    ProofAnswer,
    ProofFilled,
    ProofOrder,
    ProofQuestion,
    SumsLeaf,
)
from moorage.machines.proof.commitment import leads_to
from moorage.machines.proof.models import bandwidth_of
from moorage.machines.proof.values import (
    GPU_ROW_NUMBERS,
    LEAF_SUMS,
    ROW_BYTES,
    gpu_numbers,
    gpu_row,
    gpu_sum,
    memory_row,
    row_digest,
)

APART = timedelta(minutes=10)
"""However often a machine changes what it claims, and after one that failed."""
TOO_SLOW = "It did not answer in time. Other work on it, or its connection, may be the reason."
MEMORY_SHARE = 0.75
"""Of the memory that it claims and no replica holds; the rest is for its system and its owner."""
GPU_SHARE = 0.95
ITERATIONS = 1
ANSWER_WITHIN_S = 5.0
"""To read and hash; whoever has to make what was asked for again needs many times as long."""
OF_MAKING_IT_AGAIN = 0.5
"""Of the time that the cores which it claims would take for that, where this is more: hashing is an eighth of it, on slow cores too."""
_ROWS_ASKED = 2048
_ROWS_CHECKED = 16
_GPU_ROWS_ASKED = 1024
_GPU_CHECKED = 8
_LEAVES_ASKED = 4
"""Of sums; one of each is added up here."""
_ROUNDS = 8
_THREADS = 2**24
_SLACK = 4.0
"""So many times longer than the cores that it claims would take at our own speed."""
_AT_LEAST_S = 60.0
_AT_MOST_S = 6 * 3600.0
"""Of a machine that says it has much memory and hardly a core, nobody waits for days."""
_READ_FOR_S = 40.0
"""So long the memory of a GPU is read, at the speed that its maker says: long enough for what else takes time not to matter."""
_OF_ITS_SPEED = 0.75
"""Is enough. An H200 reads at 0.93 of what its maker says; the next faster model reads 1.5 times as fast or more."""
_GPU_BEGINS_WITHIN_S = 10.0
"""Until its driver is ready and its memory is filled: an H200 on a busy machine takes 3."""
_UNKNOWN_GPU_S = 300.0
"""Of a model whose speed is not known."""
_UNKNOWN_GPU_PASSES = 8
_GPU_BYTES = (2**30, 2**41)
"""The least and the most that is asked for, whatever a machine claims: what it adds up is added up again here."""


@dataclass(frozen=True)
class Claim:
    """What no replica holds, as the machine says."""

    memory_bytes: int
    cores: float
    gpus: tuple[GpuDevice, ...] = ()


@dataclass(frozen=True)
class Task:
    """One thing to prove at a time, so that the time of each is known."""

    order: ProofOrder
    within_s: float
    answer_within_s: float = ANSWER_WITHIN_S


def tasks_for(claim: Claim, nonce: str, row_s: float) -> list[Task]:
    """`row_s`: what a row of memory takes on a core of ours."""
    rows = int(max(claim.memory_bytes, 0) * MEMORY_SHARE) // ROW_BYTES
    each_s = row_s / max(claim.cores, 1.0)
    memory = Task(
        ProofOrder(nonce, rows * ROW_BYTES, ITERATIONS),
        min(_AT_LEAST_S + _SLACK * rows * each_s, _AT_MOST_S),
        max(ANSWER_WITHIN_S, OF_MAKING_IT_AGAIN * min(rows, _ROWS_ASKED) * each_s),
    )
    return [
        memory,
        *(_gpu_task(gpu, gpu.memory_bytes, nonce) for gpu in claim.gpus if gpu.memory_bytes is not None),
    ]


def _gpu_task(gpu: GpuDevice, claimed_bytes: int, nonce: str) -> Task:
    least, most = _GPU_BYTES
    memory_bytes = min(max(int(claimed_bytes * GPU_SHARE), least), most)
    bandwidth = bandwidth_of(gpu.model)
    passes, within_s = _UNKNOWN_GPU_PASSES, _UNKNOWN_GPU_S
    if bandwidth is not None:
        passes = math.ceil(_READ_FOR_S * bandwidth / memory_bytes)
        within_s = _GPU_BEGINS_WITHIN_S + passes * memory_bytes / (bandwidth * _OF_ITS_SPEED)
    order = GpuOrder(gpu.device_id, memory_bytes, _ROUNDS, _THREADS, passes)
    return Task(ProofOrder(nonce, 0, ITERATIONS, (order,)), within_s)


def question_for(order: ProofOrder, salt: str, chance: random.Random) -> ProofQuestion:
    return ProofQuestion(
        salt,
        _some(chance, order.memory_bytes // ROW_BYTES, _ROWS_ASKED),
        tuple(
            GpuQuestion(
                gpu.device_id,
                _some(chance, gpu_numbers(gpu) // GPU_ROW_NUMBERS, _GPU_ROWS_ASKED),
                _some(chance, _leaves(gpu), _LEAVES_ASKED),
            )
            for gpu in order.gpus
        ),
    )


def why_wrong(
    order: ProofOrder,
    filled: ProofFilled,
    question: ProofQuestion,
    answer: ProofAnswer,
    chance: random.Random,
) -> str | None:
    """A sentence, or None where a few of the answers, which nobody knows beforehand, are right."""
    if len(answer.rows) != len(question.rows):
        return "It did not answer for its memory."
    for place in _some(chance, len(question.rows), _ROWS_CHECKED):
        row = memory_row(order.nonce, question.rows[place], order.iterations)
        if row_digest(question.salt, row) != answer.rows[place]:
            return "Its memory did not hold what it was filled with."
    said = {one.device_id: one for one in answer.gpus}
    roots = {one.device_id: one.sums_root for one in filled.gpus}
    for gpu, asked in zip(order.gpus, question.gpus, strict=True):
        its, root = said.get(gpu.device_id), roots.get(gpu.device_id)
        if its is None or root is None or len(its.rows) != len(asked.rows):
            return f"It did not answer for its GPU {gpu.device_id}."
        for place in _some(chance, len(asked.rows), _GPU_CHECKED):
            row = gpu_row(order.nonce, asked.rows[place], gpu.rounds)
            if row_digest(question.salt, row) != its.rows[place]:
                return f"The memory of its GPU {gpu.device_id} did not hold what it was filled with."
        if not _added_up(order.nonce, gpu, root, asked.leaves, its.leaves, chance):
            return f"Its GPU {gpu.device_id} computed wrongly or not at all."
    return None


def _added_up(
    nonce: str,
    gpu: GpuOrder,
    root: str,
    asked: Sequence[int],
    said: Sequence[SumsLeaf],
    chance: random.Random,
) -> bool:
    """What it shows is what it had before it was asked, and one of each is right."""
    if len(asked) != len(said):
        return False
    for index, leaf in zip(asked, said, strict=True):
        first = index * LEAF_SUMS
        count = min(LEAF_SUMS, gpu.threads - first)
        try:
            sums = struct.unpack(f"<{count}I", bytes.fromhex(leaf.sums))
        except (ValueError, struct.error):
            return False
        if not leads_to(root, bytes.fromhex(leaf.sums), index, _leaves(gpu), leaf.way):
            return False
        place = chance.randrange(count)
        if gpu_sum(nonce, first + place, gpu) != sums[place]:
            return False
    return True


def _leaves(gpu: GpuOrder) -> int:
    return -(-gpu.threads // LEAF_SUMS)


def holders(
    devices: Mapping[str, Collection[str]],
    before: Mapping[str, str],
    trust: Mapping[str, int],
) -> dict[str, str]:
    """By device: the machine that was the first to have it, for as long as it says so. Whoever else names the device may have read
    it there, as any tenant can. Of several that came at once, the one that is trusted most; none where no one is.
    `devices`: by machine, what it said last, also where it is silent now."""
    kept = {
        device_id: machine for device_id, machine in before.items() if device_id in devices.get(machine, ())
    }
    first = {
        device_id: most[0]
        for device_id, machines in _named(devices).items()
        if len(most := _trusted_most(machines, trust)) == 1
    }
    return first | kept


def twins(devices: Mapping[str, Collection[str]], known: Mapping[str, str]) -> dict[str, str]:
    """By machine: a device that another says it has, too, and was not known to have it before (`known`, by device)."""
    return {
        machine: device_id
        for device_id, machines in sorted(_named(devices).items())
        if len({*machines, known.get(device_id, machines[0])}) > 1
        for machine in machines
        if machine != known.get(device_id)
    }


def _named(devices: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Who names each."""
    found: dict[str, list[str]] = {}
    for machine, ids in sorted(devices.items()):
        for device_id in set(ids):
            found.setdefault(device_id, []).append(machine)
    return found


def _trusted_most(machines: Sequence[str], trust: Mapping[str, int]) -> list[str]:
    most = max(trust.get(one, 0) for one in machines)
    return [one for one in machines if trust.get(one, 0) == most]


def _some(chance: random.Random, count: int, most: int) -> tuple[int, ...]:
    return tuple(chance.sample(range(count), min(count, most)))
