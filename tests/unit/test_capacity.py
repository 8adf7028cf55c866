from hypothesis import given
from hypothesis import strategies as st

from moorage.catalog.capacity import InstanceType, Used, place, room_for, why_no_room
from moorage.engines.base import GpuDevice, NodeCapacity

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
    used = {"a": Used(1000, GIB, frozenset(first.gpu_device_ids))}
    second = place(GPU, nodes, used, 16.0)
    assert second is not None
    assert set(first.gpu_device_ids).isdisjoint(second.gpu_device_ids)
    assert place(GPU, nodes, {"a": Used(0, 0, frozenset({"a-gpu-0", "a-gpu-1"}))}, 16.0) is None


def test_community_machines_are_chosen_never_fallen_into() -> None:
    assert place(CPU, [node(infrastructure="community")], {}, 16.0) is None


def test_load_spreads() -> None:
    placed = place(CPU, [node("a"), node("b")], {"a": Used(500, GIB)}, 1.0)
    assert placed is not None
    assert placed.node == "b"


def test_a_person_learns_whether_it_is_taken_or_not_there() -> None:
    assert "in use" in why_no_room(GPU, [node(gpus=1)])
    assert "no machine" in why_no_room(GPU, [node()])


@given(st.integers(0, 6), st.integers(1, 20), st.floats(1.0, 16.0))
def test_as_many_can_be_placed_as_there_is_room_for(gpus: int, memory_gib: int, overcommit: float) -> None:
    nodes, used = [node(gpus=gpus, memory_gib=memory_gib)], dict[str, Used]()
    promised, placed = room_for(GPU, nodes, used, overcommit), 0
    while (placement := place(GPU, nodes, used, overcommit)) is not None:
        held = used.get("a", Used())
        used["a"] = Used(
            held.cpu_millis + 1000,
            held.memory_bytes + GIB,
            held.gpu_device_ids | set(placement.gpu_device_ids),
        )
        placed += 1
    assert placed == promised
