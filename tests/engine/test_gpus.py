"""GPUs on this machine: with one, NVML and the device nodes agree; without, that is said and not failed over."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from moorage.engines.nvidia import count_gpus, driver_mismatch, find_gpus
from moorage.kit.errors import StartError
from tests.engine.conftest import DockerWorld
from tests.engine.contract import spec_of

HAS_GPU = os.path.exists("/dev/nvidia0")


async def test_what_nvml_says_of_this_machine() -> None:
    machine = await find_gpus()
    if not HAS_GPU:
        assert machine is None
        return
    assert machine is not None
    print(f"\ndriver {machine.driver}, CUDA {machine.cuda}: {machine.gpus}")
    assert machine.gpus
    for gpu in machine.gpus:
        assert gpu.device_id.startswith("GPU-")
        assert gpu.model
        assert gpu.memory_bytes > 2**30
    assert count_gpus(Path("/proc/self/root/dev")) >= 1
    assert driver_mismatch(machine, {"NVIDIA_REQUIRE_CUDA": "cuda>=99.0"}) == "cuda>=99.0"
    assert driver_mismatch(machine, {"NVIDIA_REQUIRE_CUDA": "cuda>=11.0"}) is None


@pytest.mark.skipif(HAS_GPU, reason="this machine has a GPU, and here one must be missing")
async def test_a_gpu_that_is_not_there(docker_world: DockerWorld) -> None:
    spec = replace(await spec_of(docker_world, "serves"), gpu_device_ids=("GPU-that-is-not-there",))
    with pytest.raises(StartError) as failed:
        await docker_world.engine.start(spec)
    assert failed.value.code == "gpu_not_detected"
    assert "no NVIDIA driver" in failed.value.message
    assert "the machine has none" in failed.value.message
    assert "moor doctor host" in failed.value.message
