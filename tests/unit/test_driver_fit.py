import pytest

from moorage.catalog.capacity import InstanceType
from moorage.catalog.driver_fit import too_old_for, why_no_driver
from moorage.engines.base import GpuDevice, NodeCapacity

H200 = InstanceType("h200", "NVIDIA H200", 1, 1000, 2**30, 2**30, 1, "operator")
NEEDS_13 = {"NVIDIA_REQUIRE_CUDA": "cuda>=13.0"}


def node(name: str, driver: str | None, cuda: str | None, model: str = "NVIDIA H200") -> NodeCapacity:
    return NodeCapacity(
        name, "operator", "amd64", 8000, 2**36, (GpuDevice(f"GPU-{name}", model, 2**36),), driver, cuda
    )


@pytest.mark.parametrize(
    ("driver", "cuda", "wanted"),
    [("580.82", "13.0", None), ("550.54", "12.4", "cuda>=13.0"), (None, None, None)],
)
def test_too_old(driver: str | None, cuda: str | None, wanted: str | None) -> None:
    assert too_old_for(node("a", driver, cuda), NEEDS_13) == wanted


def test_it_is_hopeless_only_where_every_machine_with_the_gpu_is_too_old() -> None:
    old, new = node("old", "550.54", "12.4"), node("new", "580.82", "13.0")
    assert why_no_driver(H200, [old, new], NEEDS_13) is None
    assert why_no_driver(H200, [], NEEDS_13) is None
    said = why_no_driver(H200, [old, node("other", "580.82", "13.0", "NVIDIA L4")], NEEDS_13)
    assert said is not None
    assert "asks for cuda>=13.0" in said
    assert "550.54, which runs CUDA 12.4 at most" in said
