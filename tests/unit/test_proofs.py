"""What a machine proves: the numbers, what is asked and checked, and who is found out."""

import asyncio
import random
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_machine import PtxMachine

from moorage.engines.base import GpuDevice
from moorage.engines.remote.proofs import (
    GpuAnswer,
    GpuFilled,
    GpuOrder,
    ProofAnswer,
    ProofFilled,
    ProofOrder,
    ProofQuestion,
    SumsLeaf,
)
from moorage.kit.errors import EngineError
from moorage.machines.proof.commitment import leads_to, levels_of, root_of, way_of
from moorage.machines.proof.kernels import PTX
from moorage.machines.proof.memory import Memory
from moorage.machines.proof.models import bandwidth_of
from moorage.machines.proof.rules import (
    Claim,
    holders,
    question_for,
    tasks_for,
    twins,
    why_wrong,
)
from moorage.machines.proof.values import (
    GPU_ROW_NUMBERS,
    LEAF_SUMS,
    ROW_BYTES,
    gpu_number,
    gpu_numbers,
    gpu_row,
    gpu_sum,
    memory_row,
    row_digest,
    sum_factor,
    sums_leaves,
)
from moorage.node.proofs import Proofs

NONCE, SALT = "0123456789abcdef" * 2, "ff" * 16
SMALL_GPU = GpuOrder("GPU-1", 8192 * 4, 2, 5 * LEAF_SUMS - 7, 3)
"""More leaves than are asked for, the last of them shorter."""
CHANCE = random.Random(5)


def honest(order: ProofOrder, question: ProofQuestion) -> ProofAnswer:
    memory = Memory()
    memory.fill(order.nonce, order.memory_bytes, order.iterations)
    gpus = tuple(
        GpuAnswer(
            gpu.device_id,
            tuple(row_digest(question.salt, gpu_row(order.nonce, row, gpu.rounds)) for row in asked.rows),
            tuple(
                SumsLeaf(leaves_of(order, gpu)[one].hex(), way_of(levels_of(leaves_of(order, gpu)), one))
                for one in asked.leaves
            ),
        )
        for gpu, asked in zip(order.gpus, question.gpus, strict=True)
    )
    return ProofAnswer(memory.answer(question.salt, question.rows), gpus)


def leaves_of(order: ProofOrder, gpu: GpuOrder) -> list[bytes]:
    sums = [gpu_sum(order.nonce, thread, gpu) for thread in range(gpu.threads)]
    return sums_leaves(struct.pack(f"<{gpu.threads}I", *sums))


def root_said(gpu: GpuOrder, leaves: list[bytes]) -> ProofFilled:
    return ProofFilled((GpuFilled(gpu.device_id, root_of(levels_of(leaves))),))


ORDER = ProofOrder(NONCE, 4 * ROW_BYTES, 1, (SMALL_GPU,))
FILLED = root_said(SMALL_GPU, leaves_of(ORDER, SMALL_GPU))
QUESTION = question_for(ORDER, SALT, CHANCE)
ANSWER = honest(ORDER, QUESTION)


def test_who_has_it_is_believed() -> None:
    assert why_wrong(ORDER, FILLED, QUESTION, ANSWER, CHANCE) is None


def test_who_adds_up_only_what_is_asked_for_is_found_out() -> None:
    """Without a GPU: a processor has those few sums in time, and had nothing to say before it was asked."""
    asked = set(QUESTION.gpus[0].leaves)
    leaves = leaves_of(ORDER, SMALL_GPU)
    made_up = [leaf if at in asked else bytes(len(leaf)) for at, leaf in enumerate(leaves)]
    assert made_up != leaves
    before = root_said(SMALL_GPU, [bytes(len(leaf)) for leaf in leaves])
    for filled in (before, ProofFilled()):
        levels = levels_of(made_up)
        shown = tuple(SumsLeaf(made_up[at].hex(), way_of(levels, at)) for at in QUESTION.gpus[0].leaves)
        for gpu in (ANSWER.gpus[0], replace(ANSWER.gpus[0], leaves=shown)):
            assert "GPU-1" in (why_wrong(ORDER, filled, QUESTION, replace(ANSWER, gpus=(gpu,)), CHANCE) or "")
    # Whoever knew what would be asked would be believed: what counts is that nobody does.
    known = root_said(SMALL_GPU, made_up)
    gpu = replace(ANSWER.gpus[0], leaves=shown)
    assert why_wrong(ORDER, known, QUESTION, replace(ANSWER, gpus=(gpu,)), CHANCE) is None


@given(st.lists(st.binary(max_size=3), min_size=1, max_size=20), st.data())
@settings(max_examples=50)
def test_no_other_leaf_leads_to_what_was_said(leaves: list[bytes], data: st.DataObject) -> None:
    levels = levels_of(leaves)
    index = data.draw(st.integers(0, len(leaves) - 1))
    root, way, count = root_of(levels), way_of(levels, index), len(leaves)
    assert leads_to(root, leaves[index], index, count, way)
    assert not leads_to(root, leaves[index] + b"x", index, count, way)
    assert not leads_to(root, leaves[index], index, count, way + "00" * 32)
    assert not leads_to(root, leaves[index], index, count, "zz")
    other = data.draw(st.integers(0, len(leaves) - 1))
    if leaves[other] != leaves[index]:
        assert not leads_to(root, leaves[index], other, count, way_of(levels, other))


def test_who_has_not_is_found_out() -> None:
    (gpu,) = ANSWER.gpus
    lies = {
        "memory": [replace(ANSWER, rows=()), replace(ANSWER, rows=tuple("0" * 64 for _ in ANSWER.rows))],
        "GPU": [
            replace(ANSWER, gpus=()),
            replace(ANSWER, gpus=(replace(gpu, device_id="GPU-2"),)),
            replace(ANSWER, gpus=(replace(gpu, rows=tuple("0" * 64 for _ in gpu.rows)),)),
            replace(ANSWER, gpus=(replace(gpu, leaves=()),)),
            *(
                replace(ANSWER, gpus=(replace(gpu, leaves=tuple(replace(one, **lie) for one in gpu.leaves)),))
                for lie in ({"sums": "00"}, {"sums": "no"}, {"sums": "00" * 1024}, {"way": ""}, {"way": "no"})
            ),
        ],
    }
    for word, answers in lies.items():
        for answer in answers:
            assert word in (why_wrong(ORDER, FILLED, QUESTION, answer, CHANCE) or "")


def test_another_nonces_answer_is_worth_nothing() -> None:
    other = replace(ORDER, nonce="ab" * 16)
    assert why_wrong(other, FILLED, QUESTION, ANSWER, CHANCE) is not None
    assert why_wrong(ORDER, FILLED, replace(QUESTION, salt="00" * 16), ANSWER, CHANCE) is not None


def test_one_that_kept_a_quarter_less_is_found_out_nearly_always() -> None:
    """Of 16 rows that are looked at: 0.75 to the 16th is one in a hundred."""
    order = ProofOrder(NONCE, 4 * ROW_BYTES, 1)
    caught = 0
    for seed in range(3):
        chance = random.Random(seed)
        question = question_for(order, SALT, chance)
        answer = honest(order, question)
        rows = tuple(
            "0" * 64 if index == 3 else said for index, said in zip(question.rows, answer.rows, strict=True)
        )
        caught += why_wrong(order, ProofFilled(), question, replace(answer, rows=rows), chance) is not None
    assert caught == 3, "all four rows are looked at"


L4 = GpuDevice("GPU-1", "NVIDIA L4", 24 * 2**30, None)


def test_each_thing_is_proven_by_itself() -> None:
    memory, gpu = tasks_for(Claim(8 * 2**30, 4, (L4,)), NONCE, 0.02)
    assert (memory.order.memory_bytes, memory.order.gpus) == (6 * 2**30, ())
    assert gpu.order.memory_bytes == 0
    assert [one.memory_bytes for one in gpu.order.gpus] == [int(24 * 2**30 * 0.95)]
    (nothing,) = tasks_for(Claim(-5, 4), NONCE, 0.02)
    assert nothing.order.memory_bytes == 0, "replicas hold all of it"


def test_more_cores_have_less_time() -> None:
    few, many = (tasks_for(Claim(64 * 2**30, cores), NONCE, 0.02)[0].within_s for cores in (4, 16))
    assert few > many
    assert tasks_for(Claim(8192 * 2**30, 1), NONCE, 0.02)[0].within_s <= 6 * 3600


def test_one_slow_core_has_the_time_to_answer_that_it_needs() -> None:
    """Hashing a row takes about an eighth of making it; 2,048 of these rows cannot be hashed in 5 s."""
    slow_row_s = 0.04
    slow, quick = (tasks_for(Claim(4 * 2**30, cores), NONCE, slow_row_s)[0] for cores in (1, 32))
    hashed_s, made_again_s = 2048 * slow_row_s / 8, 2048 * slow_row_s
    assert quick.answer_within_s == 5 < hashed_s < slow.answer_within_s < made_again_s


@pytest.mark.parametrize(
    ("own", "claimed"),
    [
        ("NVIDIA H200", "NVIDIA B200"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA L4", "NVIDIA L40S"),
    ],
)
def test_a_gpu_has_the_time_of_its_own_model_and_not_of_a_slower_one(own: str, claimed: str) -> None:
    """At nine tenths of what its maker says: what an H200 was measured at."""

    def took_s(order: GpuOrder) -> float:
        bandwidth = bandwidth_of(own)
        assert bandwidth is not None
        return 3 + order.memory_bytes * order.passes / (0.9 * bandwidth)

    for model, in_time in ((own, True), (claimed, False)):
        _, task = tasks_for(Claim(0, 1, (replace(L4, model=model),)), NONCE, 0.02)
        (order,) = task.order.gpus
        assert (took_s(order) < task.within_s) == in_time


@pytest.mark.parametrize("claimed", [0, 1, 2**60])
def test_whatever_a_gpu_claims_its_sums_are_soon_checked(claimed: int) -> None:
    """Whoever checks them is the installation."""
    _, task = tasks_for(Claim(0, 1, (replace(L4, model="NVIDIA B200", memory_bytes=claimed),)), NONCE, 0.02)
    (order,) = task.order.gpus
    assert gpu_numbers(order) // order.threads * order.passes < 10_000_000


def test_of_an_unknown_model_the_memory_alone_is_proven() -> None:
    for model in ("NVIDIA Z9", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"):
        _, task = tasks_for(Claim(0, 1, (replace(L4, model=model),)), NONCE, 0.02)
        assert [one.memory_bytes for one in task.order.gpus] == [int(24 * 2**30 * 0.95)]
        assert task.within_s == 300


def test_a_device_that_two_machines_have() -> None:
    found = twins({"a": ["GPU-1", "GPU-2"], "b": ["GPU-3"], "c": ["GPU-2"], "d": []}, {})
    assert found == {"a": "GPU-2", "c": "GPU-2"}, "nobody can tell which of them has it"


def test_who_had_a_device_first_keeps_it() -> None:
    known = holders({"a": ["GPU-1"], "b": ["GPU-2"]}, {}, {})
    assert known == {"GPU-1": "a", "GPU-2": "b"}
    assert twins({"a": ["GPU-1"], "b": ["GPU-2", "GPU-1"]}, known) == {"b": "GPU-1"}
    # While it does not answer, nobody takes it over; nor does its silence hurt who named it by chance.
    known = holders({"a": ["GPU-1"], "b": ["GPU-2", "GPU-1"]}, known, {})
    assert known["GPU-1"] == "a"
    assert twins({"b": ["GPU-2", "GPU-1"]}, known) == {"b": "GPU-1"}
    # It was moved to another machine, or its machine left.
    assert holders({"a": [], "b": ["GPU-1"]}, known, {}) == {"GPU-1": "b"}
    assert holders({"b": ["GPU-1"]}, known, {}) == {"GPU-1": "b"}
    # Of two that come at once, whoever is trusted more.
    both = {"a": ["GPU-1"], "b": ["GPU-1"]}
    assert holders(both, {}, {"a": 1, "b": 2}) == {"GPU-1": "b"}
    assert holders(both, {}, {"a": 1, "b": 1}) == {}


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**40), st.integers(0, 4))
@settings(max_examples=30)
def test_numbers_follow_from_nonce_and_place(nonce: bytes, place: int, rounds: int) -> None:
    number = gpu_number(nonce.hex(), place, rounds)
    assert 0 <= number < 2**32
    row = gpu_row(nonce.hex(), place // GPU_ROW_NUMBERS, rounds)
    assert struct.unpack_from("<I", row, place % GPU_ROW_NUMBERS * 4)[0] == number


def test_the_kernels_compute_what_is_checked() -> None:
    """Both as they are sent to the driver, a thread at a time; some threads have one read more than others."""
    order = GpuOrder("GPU-1", 4 * (48 + 5 * GPU_ROW_NUMBERS + 7), 3, 48, 3)
    numbers = gpu_numbers(order)
    assert numbers == 5 * GPU_ROW_NUMBERS
    machine = PtxMachine(PTX, order.memory_bytes)
    low, high = struct.unpack("<II", bytes.fromhex(NONCE)[:8])
    machine.launch("fill", (3, 1), (16, 1), 0, numbers, low, high, order.rounds)
    filled = struct.unpack_from(f"<{numbers}I", machine.memory)
    assert list(filled) == [gpu_number(NONCE, place, order.rounds) for place in range(numbers)]
    machine.launch("add_up", (3, 1), (16, 1), 0, numbers // 4, 4 * numbers, sum_factor(NONCE), order.passes)
    sums = struct.unpack_from(f"<{order.threads}I", machine.memory, 4 * numbers)
    assert list(sums) == [gpu_sum(NONCE, thread, order) for thread in range(order.threads)]
    assert len(set(sums)) == order.threads


async def test_a_proof_runs_in_a_process_of_its_own() -> None:
    proofs = Proofs()
    order = ProofOrder(NONCE, 3 * ROW_BYTES, 1)
    await proofs.begin(order)
    answer = await proofs.answer(ProofQuestion(SALT, (2, 0)))
    assert answer.rows == tuple(row_digest(SALT, memory_row(NONCE, row, 1)) for row in (2, 0))
    with pytest.raises(EngineError, match="nothing was filled"):
        await proofs.answer(ProofQuestion(SALT, (0,)))


async def test_what_cannot_be_proven_is_said() -> None:
    proofs = Proofs()
    with pytest.raises(EngineError, match="prove: "):
        await proofs.begin(ProofOrder(NONCE, 0, 1, (replace(SMALL_GPU, device_id="GPU-absent"),)))
    with pytest.raises(EngineError, match="prove: "):
        await asyncio.wait_for(proofs.begin(ProofOrder(NONCE, 2**60, 1)), 60)
    await proofs.close()
