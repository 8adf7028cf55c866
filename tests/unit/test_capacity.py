from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.catalog.capacity import InstanceType, Used, Warmth, best_machines, place, room_for
from moorage.catalog.shortage import why_unavailable, why_waiting
from moorage.engines.base import GpuDevice, MachineKey, NodeCapacity

GIB = 2**30
CPU = InstanceType("cpu-small", None, 0, 500, GIB, GIB, 1, "operator")
GPU = InstanceType("h100", "NVIDIA H100", 1, 1000, GIB, GIB, 1, "operator")


def node(
    name: str = "a", gpus: int = 0, memory_gib: int = 8, infrastructure: str = "operator"
) -> NodeCapacity:
    devices = tuple(GpuDevice(f"{name}-gpu-{index}", "NVIDIA H100", 80 * GIB) for index in range(gpus))
    return NodeCapacity(name, infrastructure, "amd64", 4000, memory_gib * GIB, devices)


def test_memory_is_promised_once_and_cpu_several_times() -> None:
    assert room_for(CPU, [node()], {}, 1.0) == 8
    assert room_for(CPU, [node(memory_gib=100)], {}, 1.0) == 8
    assert room_for(CPU, [node(memory_gib=100)], {}, 4.0) == 32


def test_a_gpu_belongs_to_one_replica() -> None:
    nodes = [node(gpus=2)]
    first = place(GPU, nodes, {}, 16.0)
    assert first is not None
    used = {MachineKey("local", "a"): Used(1000, GIB, frozenset(first.gpu_device_ids))}
    second = place(GPU, nodes, used, 16.0)
    assert second is not None
    assert set(first.gpu_device_ids).isdisjoint(second.gpu_device_ids)
    assert (
        place(GPU, nodes, {MachineKey("local", "a"): Used(0, 0, frozenset({"a-gpu-0", "a-gpu-1"}))}, 16.0)
        is None
    )


def test_community_machines_are_chosen_never_fallen_into() -> None:
    assert place(CPU, [node(infrastructure="community")], {}, 16.0) is None


def test_load_spreads() -> None:
    placed = place(CPU, [node("a"), node("b")], {MachineKey("local", "a"): Used(500, GIB)}, 1.0)
    assert placed is not None
    assert placed.node == "b"


def test_the_best_machines_come_in_the_order_in_which_they_would_be_chosen() -> None:
    nodes = [node("a"), node("b"), node("c"), node("full"), node("far", infrastructure="community")]
    used = {MachineKey("local", "b"): Used(500, GIB), MachineKey("local", "full"): Used(4000, 8 * GIB)}
    siblings = {MachineKey("local", "c"): 1}
    best = best_machines(CPU, nodes, used, 1.0, siblings, most=9)
    assert [one.name for one in best] == ["a", "b", "c"]
    assert [one.name for one in best_machines(CPU, nodes, used, 1.0, siblings, most=2)] == ["a", "b"]
    first = place(CPU, nodes, used, 1.0, siblings)
    assert first is not None
    assert first.node == "a"


def test_a_person_learns_whether_it_is_taken_or_not_there() -> None:
    taken = {MachineKey("local", "a"): Used(1000, GIB, frozenset({"a-gpu-0"}))}
    assert why_waiting(GPU, [node(gpus=1)], taken, 4.0) == (
        "Waits for NVIDIA H100: all of it is in use. It starts as soon as there is room."
    )
    assert "no machine" in why_waiting(GPU, [node()], {}, 4.0)


def test_a_person_learns_what_is_short_where_the_gpu_is_free() -> None:
    """Something else on that machine holds its memory, or its vCPUs."""
    memory = {MachineKey("local", "a"): Used(1000, 8 * GIB)}
    assert "the GPU is free, but too little is left of the memory of its" in why_waiting(
        GPU, [node(gpus=1)], memory, 4.0
    )
    assert "left of the vCPUs" in why_waiting(
        GPU, [node(gpus=1)], {MachineKey("local", "a"): Used(15_500, GIB)}, 4.0
    )
    assert "left of the memory and the vCPUs" in why_waiting(
        GPU, [node(gpus=1)], {MachineKey("local", "a"): Used(15_500, 8 * GIB)}, 4.0
    )
    pair = replace(GPU, gpu_count=2)
    one_taken = {MachineKey("local", "a"): Used(1000, GIB, frozenset({"a-gpu-0"}))}
    assert "needs 2 GPUs on one machine, and no machine has that many free" in why_waiting(
        pair, [node(gpus=2)], one_taken, 4.0
    )


def test_customers_read_no_name_of_a_machine_and_nobody_waits_in_a_catalogue() -> None:
    lost = "it cannot be handed over: the device node /dev/nvidia-uvm is missing"
    machines = {
        "broken": replace(
            node("rack-7", gpus=1),
            gpus=(GpuDevice("GPU-0", "NVIDIA H100", 80 * GIB, lost),),
        ),
        "closed": replace(node("rack-7", gpus=1), closed_because="iptables on rack-7 is not installed"),
        "small": node("rack-7", gpus=1, memory_gib=0),
        "few": node("rack-7", gpus=1),
        "full": node("rack-7", gpus=1),
    }
    for name, machine in machines.items():
        wanted = replace(GPU, gpu_count=2) if name == "few" else GPU
        used = {MachineKey("local", "rack-7"): Used(0, 8 * GIB)} if name == "full" else {}
        told = why_unavailable(wanted, [machine], used, 4.0)
        waiting = why_waiting(wanted, [machine], used, 4.0)
        operator = why_unavailable(wanted, [machine], used, 4.0, for_operator=True)
        for text in (told, waiting):
            assert "rack-7" not in text, name
            assert "/dev" not in text, name
            assert "iptables" not in text, name
        assert "Waits" not in told + operator
        assert operator.startswith(told)
        assert "rack-7" in operator, name
        assert told[0].isupper()


def test_a_machine_that_is_closed_beside_one_without_the_gpu() -> None:
    closed = replace(node("b", gpus=1), closed_because="iptables is not installed")
    assert "cannot keep containers apart" in why_waiting(GPU, [node("a"), closed], {}, 4.0)


@given(st.integers(0, 6), st.integers(1, 20), st.floats(1.0, 16.0))
def test_as_many_can_be_placed_as_there_is_room_for(gpus: int, memory_gib: int, overcommit: float) -> None:
    nodes, used = [node(gpus=gpus, memory_gib=memory_gib)], dict[MachineKey, Used]()
    promised, placed = room_for(GPU, nodes, used, overcommit), 0
    while (placement := place(GPU, nodes, used, overcommit)) is not None:
        held = used.get(MachineKey("local", "a"), Used())
        used[MachineKey("local", "a")] = Used(
            held.cpu_millis + 1000,
            held.memory_bytes + GIB,
            held.gpu_device_ids | set(placement.gpu_device_ids),
        )
        placed += 1
    assert placed == promised


def test_nothing_is_placed_where_nobody_answers_or_the_operator_or_the_engine_said_no() -> None:
    away = {
        "silent": replace(node("rack-7"), ready=False),
        "cordoned": replace(node("rack-7"), cordoned=True),
        "draining": replace(node("rack-7"), cordoned=True, draining=True),
        "unschedulable": replace(node("rack-7"), schedulable=False),
    }
    for name, machine in away.items():
        assert place(CPU, [machine], {}, 4.0) is None, name
        placed = place(CPU, [machine, node("small", memory_gib=1)], {}, 4.0)
        assert placed is not None
        assert placed.node == "small", name
        told = why_waiting(CPU, [machine], {}, 4.0)
        assert ("do not answer" in told) == (name == "silent"), told
        assert ("take no new replicas" in told) == (name != "silent"), told
        assert "rack-7" not in told
        assert "rack-7" in why_unavailable(CPU, [machine], {}, 4.0, for_operator=True)
    full = {MachineKey("local", "a"): Used(0, 8 * GIB)}
    assert "all of it is in use" in why_waiting(CPU, [node(), away["silent"]], full, 4.0)


def test_a_machine_that_says_it_is_huge_does_not_have_everything() -> None:
    huge = replace(node("huge", memory_gib=10**9), cpu_millis=10**12)
    nodes = [huge, *(replace(node(name, memory_gib=64), cpu_millis=64_000) for name in ("a", "b"))]
    used: dict[MachineKey, Used] = {}
    for _ in range(30):
        placed = place(CPU, nodes, used, 16.0)
        assert placed is not None
        held = used.get(placed.machine, Used())
        used[placed.machine] = Used(held.cpu_millis + CPU.vcpu_millis, held.memory_bytes + CPU.memory_bytes)
    assert {machine.node: held.memory_bytes // CPU.memory_bytes for machine, held in used.items()} == {
        "huge": 10,
        "a": 10,
        "b": 10,
    }


def test_siblings_spread_before_load_does() -> None:
    nodes = [node("large", memory_gib=100), node("small")]
    large, small = (one.key for one in nodes)
    placed = place(CPU, nodes, {}, 1.0, {large: 1})
    assert placed is not None
    assert placed.machine == small
    level = place(CPU, nodes, {small: Used(500, GIB)}, 1.0, {large: 1, small: 1})
    assert level is not None
    assert level.machine == large
    # Better beside a sibling than not at all.
    crowded = place(CPU, nodes, {small: Used(0, 8 * GIB)}, 1.0, {large: 5})
    assert crowded is not None
    assert crowded.machine == large


def test_machines_of_two_engines_may_have_one_name() -> None:
    nodes = [replace(node("box", memory_gib=1), engine=engine) for engine in ("local", "mch_1")]
    used = {nodes[0].key: Used(0, GIB)}
    assert room_for(CPU, nodes, used, 4.0) == 1
    placed = place(CPU, nodes, used, 4.0)
    assert placed is not None
    assert placed.machine == ("mch_1", "box")


@pytest.mark.parametrize(
    ("kept", "taken_gib", "beside", "goes_to"),
    [
        ({}, {}, {}, "large"),
        ({"small": Warmth.SOME}, {}, {}, "small"),
        ({"small": Warmth.WHOLE, "large": Warmth.SOME}, {}, {}, "small"),
        ({"small": Warmth.SOME, "large": Warmth.WHOLE}, {"large": 92}, {}, "large"),
        ({"small": Warmth.WHOLE, "large": Warmth.WHOLE}, {}, {}, "large"),
        ({"small": Warmth.WHOLE}, {"small": 8}, {}, "large"),
        ({"small": Warmth.WHOLE}, {}, {"small": 1}, "large"),
        ({"small": Warmth.WHOLE}, {}, {"small": 1, "large": 1}, "small"),
        # It moves away from the one that has most of it.
        ({"drained": Warmth.WHOLE, "small": Warmth.SOME}, {}, {}, "small"),
    ],
    ids=[
        "no cache: the most room",
        "some of it is better than nothing",
        "what came up with it is better than a part",
        "better than room",
        "both: the most room",
        "full: better to download than not to start",
        "a sibling there counts more: one machine must not take both",
        "a sibling on each",
        "drained",
    ],
)
def test_a_replica_goes_where_its_cache_spares_it_most(
    kept: dict[str, Warmth], taken_gib: dict[str, int], beside: dict[str, int], goes_to: str
) -> None:
    drained = replace(node("drained", memory_gib=500), cordoned=True, draining=True)
    nodes = [node("small"), replace(node("large", memory_gib=100), cpu_millis=50_000), drained]
    used = {MachineKey("local", name): Used(0, gib * GIB) for name, gib in taken_gib.items()}
    siblings, warmth = (
        {MachineKey("local", name): value for name, value in said.items()} for said in (beside, kept)
    )
    placed = place(CPU, nodes, used, 4.0, siblings, warmth)
    assert placed is not None
    assert placed.node == goes_to


def test_an_owners_machines_are_not_all_taken_where_another_has_room() -> None:
    one, two, theirs = (
        replace(node(name), owner=owner) for name, owner in (("a", "org_a"), ("b", "org_a"), ("c", "org_b"))
    )
    nodes = [one, two, theirs]
    beside = {one.key: 1}
    chosen = place(CPU, nodes, {}, 1.0, beside, of_owners={"org_a": 1})
    assert chosen is not None
    assert chosen.node == "c"
    full = [one, two]
    fallback = place(CPU, full, {}, 1.0, beside, of_owners={"org_a": 1})
    assert fallback is not None
    assert fallback.node == "b", "rather another machine of theirs than the same"
