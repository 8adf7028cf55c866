from pathlib import Path

import pytest

from moorage.engines.nvidia import GpuMachine, count_gpus, driver_mismatch
from moorage.engines.start_failures import is_about_gpus

OLD = GpuMachine("525.60.13", (12, 0), ())
NEW = GpuMachine("580.82.07", (13, 0), ())
NVIDIA_IMAGE = {
    "CUDA_VERSION": "12.4.1",
    "NVIDIA_REQUIRE_CUDA": "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=tesla,driver>=535,driver<536",
}


@pytest.mark.parametrize(
    ("machine", "environment", "asked_for"),
    [
        (NEW, {}, None),
        (NEW, NVIDIA_IMAGE, None),
        (OLD, NVIDIA_IMAGE, "cuda>=12.4"),
        (OLD, NVIDIA_IMAGE | {"NVIDIA_DISABLE_REQUIRE": "true"}, None),
        # A later branch of an old driver is an alternative that the image itself names.
        (GpuMachine("470.82.01", (11, 4), ()), NVIDIA_IMAGE, None),
        (GpuMachine("471.10", (11, 4), ()), NVIDIA_IMAGE, "cuda>=12.4"),
        (OLD, {"NVIDIA_REQUIRE_CUDA": "cuda>12.0"}, "cuda>12.0"),
        (OLD, {"NVIDIA_REQUIRE_CUDA": "cuda=12.0"}, None),
        (OLD, {"NVIDIA_REQUIRE_CUDA": "cuda!=12.0"}, "cuda!=12.0"),
        (OLD, {"NVIDIA_REQUIRE_CUDA": "driver<=525.50"}, "driver<=525.50"),
        # What is not understood is no reason to refuse.
        (OLD, {"NVIDIA_REQUIRE_CUDA": "arch>=9.0"}, None),
        (OLD, {"NVIDIA_REQUIRE_CUDA": "cuda>=twelve"}, None),
        # A driver runs every CUDA of its own major version.
        (OLD, {"CUDA_VERSION": "12.9.0"}, None),
        (OLD, {"CUDA_VERSION": "13.0.0"}, "CUDA 13.0.0"),
        (OLD, {"CUDA_VERSION": "latest"}, None),
    ],
)
def test_driver_mismatch(machine: GpuMachine, environment: dict[str, str], asked_for: str | None) -> None:
    assert driver_mismatch(machine, environment) == asked_for


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (("null", "zero"), 0),
        # The control nodes are there also for a container that was given no GPU.
        (("nvidiactl", "nvidia-uvm", "nvidia-modeset"), 0),
        (("nvidiactl", "nvidia0"), 1),
        (("nvidia12",), 1),
        # Of several that were granted, one that is missing is missing.
        (("nvidia0", "nvidia3", "nvidia-uvm"), 2),
    ],
)
def test_count_gpus(tmp_path: Path, nodes: tuple[str, ...], expected: int) -> None:
    for name in nodes:
        (tmp_path / name).touch()
    assert count_gpus(tmp_path) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('could not select device driver "nvidia" with capabilities: [[gpu]]', True),
        ("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=0", True),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded", True),
        ("nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.9", False),
        ("exec: no such file or directory", False),
    ],
)
def test_is_about_gpus(message: str, expected: bool) -> None:
    assert is_about_gpus(message) is expected
