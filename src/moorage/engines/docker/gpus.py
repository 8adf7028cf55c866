"""The GPUs of this machine, where the engine can hand them to a container."""

import asyncio
import shutil
from collections.abc import Mapping
from typing import Any

from moorage.engines.base import GpuDevice
from moorage.kit.errors import EngineError

_TIMEOUT_S = 20.0
_MEBIBYTE = 1024 * 1024


def engine_has_gpu_support(information: Mapping[str, Any]) -> bool:
    """By NVIDIA's runtime or by CDI, which newer engines report as discovered devices."""
    runtimes = information.get("Runtimes") or {}
    discovered = information.get("DiscoveredDevices") or []
    return "nvidia" in runtimes or any(
        str(device.get("ID", "")).startswith("nvidia.com/gpu") for device in discovered
    )


async def find_gpus() -> tuple[GpuDevice, ...]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    process = await asyncio.create_subprocess_exec(
        program,
        "--query-gpu=uuid,name,memory.total",
        "--format=csv,noheader,nounits",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            output, errors = await process.communicate()
    except TimeoutError as exc:
        # A GPU that hangs hangs this too; capacity that is not known must not look like no capacity.
        process.kill()
        raise EngineError(f"nvidia-smi did not answer within {_TIMEOUT_S:g} s") from exc
    if process.returncode != 0:
        raise EngineError(f"nvidia-smi failed: {(output + errors).decode(errors='replace').strip()[:200]}")
    return parse_gpus(output.decode())


def parse_gpus(output: str) -> tuple[GpuDevice, ...]:
    """Lines such as `GPU-5f2e…, NVIDIA H200, 143771`."""
    devices = []
    for line in output.splitlines():
        if line.strip():
            device_id, model, memory_mebibytes = (part.strip() for part in line.split(","))
            devices.append(GpuDevice(device_id, model, int(memory_mebibytes) * _MEBIBYTE))
    return tuple(devices)
