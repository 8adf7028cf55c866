from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from moorage.catalog.capacity import InstanceType, Used, place, room_for
from moorage.catalog.defaults import default_catalogue
from moorage.catalog.proposals import Proposal, propose
from moorage.catalog.shortage import why_unavailable
from moorage.engines.base import GpuDevice, NodeCapacity

GIB = 2**30
H200 = 143771 * 2**20


def node(
    gpus: int = 1, memory_gib: int = 126, model: str = "NVIDIA H200", because: str | None = None
) -> NodeCapacity:
    devices = tuple(GpuDevice(f"GPU-{index}", model, H200, because) for index in range(gpus))
    return NodeCapacity("here", "operator", "amd64", 16000, memory_gib * GIB, devices)


def added(proposal: Proposal) -> InstanceType:
    sizes = {name: value for name, value in vars(proposal).items() if name != "because"}
    return InstanceType(**{**sizes, "price_per_hour_microusd": proposal.price_per_hour_microusd or 1})


def test_a_type_that_is_larger_than_every_machine_gets_one_that_fits() -> None:
    (proposal,) = propose(default_catalogue(), [node()], 4.0)
    assert (proposal.name, proposal.gpu_count) == ("h200-141gb-small", 1)
    assert (proposal.memory_bytes, proposal.vcpu_millis) == (113 * GIB, 16000)
    assert proposal.price_per_hour_microusd == 4_990_000
    assert proposal.because == "here has NVIDIA H200, but is smaller than what h200-141gb promises."


def test_a_gpu_that_no_type_names_gets_one_without_a_price() -> None:
    (proposal,) = propose(default_catalogue(), [node(model="NVIDIA RTX PRO 6000")], 4.0)
    assert (proposal.name, proposal.price_per_hour_microusd) == ("rtx-pro-6000-141gb", None)
    assert proposal.because == "here has NVIDIA RTX PRO 6000, but no instance type offers it."


def test_a_gpu_that_computes_in_the_machines_memory_gets_one_too() -> None:
    unified = GpuDevice("GPU-0", "NVIDIA GB10", None)
    (proposal,) = propose(default_catalogue(), [replace(node(), gpus=(unified,))], 4.0)
    assert (proposal.name, proposal.memory_bytes) == ("gb10", 113 * GIB)


def test_a_machine_with_several_gets_types_of_several() -> None:
    proposals = propose(default_catalogue(), [node(gpus=4, memory_gib=400)], 4.0)
    assert [(one.name, one.gpu_count) for one in proposals] == [
        ("h200-141gb-small", 1),
        ("h200-141gb-x2", 2),
        ("h200-141gb-x4", 4),
    ]
    assert proposals[2].price_per_hour_microusd == 4 * 4_990_000


def test_types_for_two_models_on_one_machine_find_room_together() -> None:
    """Each was given all of the machine's memory, so the second waited for ever beside a GPU that was free."""
    machine = NodeCapacity(
        "here", "operator", "amd64", 16000, 128 * GIB,
        (GpuDevice("GPU-0", "NVIDIA T4", 16 * GIB), GpuDevice("GPU-1", "NVIDIA L4", 24 * GIB)),
    )  # fmt: skip
    used = Used()
    proposals = propose([], [machine], 1.0)
    assert {one.gpu_model for one in proposals} == {"NVIDIA T4", "NVIDIA L4"}
    for one in proposals:
        placement = place(added(one), [machine], {machine.key: used}, 1.0)
        assert placement is not None, one
        used = Used(
            used.cpu_millis + one.vcpu_millis,
            used.memory_bytes + one.memory_bytes,
            used.gpu_device_ids | set(placement.gpu_device_ids),
        )


def test_a_machine_that_is_closed_for_now_gets_its_type_too() -> None:
    """A type is for longer than that, and to say that each GPU has its type would be wrong."""
    closed = replace(node(), closed_because="iptables is not installed")
    assert propose(default_catalogue(), [closed], 4.0) == propose(default_catalogue(), [node()], 4.0)


def test_memory_is_in_the_name_only_where_two_would_be_named_alike() -> None:
    models = ("Tesla V100", "NVIDIA V100")
    nodes = [replace(node(1, 60, model), name=f"box-{index}") for index, model in enumerate(models)]
    assert [one.name for one in propose([], nodes, 4.0)] == ["v100-141gb", "v100-141gb-54g"]


def test_what_is_offered_and_fits_needs_no_proposal() -> None:
    assert propose(default_catalogue(), [node(memory_gib=256)], 4.0) == []
    assert propose(default_catalogue(), [node(gpus=0)], 4.0) == []


def test_a_small_machine_beside_a_large_one_gets_its_own() -> None:
    eight = InstanceType("h200-x8", "NVIDIA H200", 8, 16000, 512 * GIB, GIB, 1, "operator")
    large, small = replace(node(gpus=8, memory_gib=1024), name="large"), replace(node(), name="small")
    assert propose([eight], [large], 4.0) == []
    (proposal,) = propose([eight], [large, small], 4.0)
    assert proposal.gpu_count == 1
    assert proposal.because == "small has NVIDIA H200, but is smaller than what h200-x8 promises."
    both = propose([], [large, small], 4.0)
    assert both[0].because == "large, small have NVIDIA H200, but no instance type offers it."


@given(
    st.integers(1, 16), st.integers(8, 2048), st.sampled_from(["NVIDIA H200", "NVIDIA A100-SXM4-80GB", "Odd"])
)
def test_each_proposal_fits_where_it_came_from(gpus: int, memory_gib: int, model: str) -> None:
    nodes = [node(gpus, memory_gib, model)]
    proposals = propose(default_catalogue(), nodes, 1.0)
    names = [one.name for one in proposals]
    assert len(set(names)) == len(names)
    for one in proposals:
        assert room_for(added(one), nodes, {}, 1.0)
        assert one.name not in {known.name for known in default_catalogue()}


def test_what_the_operator_does_not_offer_any_more_is_not_proposed_again() -> None:
    catalogue, nodes = list(default_catalogue()), [node()]
    (proposed,) = propose(catalogue, nodes, 4.0)
    assert propose([*catalogue, added(proposed)], nodes, 4.0) == []
    assert propose([*catalogue, replace(added(proposed), enabled=False)], nodes, 4.0) == []


def test_no_two_types_have_one_name() -> None:
    """The driver's names differ in what a type's name leaves out."""
    models = ("Tesla V100", "NVIDIA V100", "Quadro V100", "GeForce V100", "!!!", "???", "***")
    nodes = [replace(node(2, 60, model), name=f"box-{index}") for index, model in enumerate(models)]
    names = [one.name for one in propose([], nodes, 4.0)]
    assert len(names) == len(set(names)) == 2 * len(models)


@given(
    st.lists(st.tuples(st.integers(1, 16), st.integers(0, 64), st.integers(0, 32)), min_size=1, max_size=3),
    st.sampled_from([1.0, 4.0]),
)
def test_each_proposal_fits_and_once_added_is_not_made_again(
    sizes: list[tuple[int, int, int]], overcommit: float
) -> None:
    nodes = [
        replace(node(gpus, memory_gib, "NVIDIA T4"), name=f"box-{index}", cpu_millis=cpus * 1000)
        for index, (gpus, memory_gib, cpus) in enumerate(sizes)
    ]
    catalogue: list[InstanceType] = []
    for _ in range(10):
        proposals = propose(catalogue, nodes, overcommit)
        assert {one.name for one in proposals}.isdisjoint(one.name for one in catalogue)
        assert all(room_for(added(one), nodes, {}, overcommit) for one in proposals)
        catalogue += map(added, proposals)
    assert proposals == []


def test_a_person_learns_why_a_gpu_that_is_there_does_not_help() -> None:
    h200 = next(one for one in default_catalogue() if one.name == "h200-141gb")
    too_small = why_unavailable(h200, [node()], {}, 4.0, for_operator=True)
    assert "needs 180 GiB of memory and 16 vCPUs, and here, which has the GPU, has 126 GiB" in too_small
    broken = node(memory_gib=256, because="it has fallen off the bus")
    lost = why_unavailable(h200, [broken], {}, 4.0, for_operator=True)
    assert "here has it, but it has fallen off the bus" in lost
