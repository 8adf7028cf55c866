"""The NVIDIA GPUs of this machine, through NVML, and whether their driver is new enough for an image.

A GPU that hangs makes NVML hang. It is therefore asked on a thread of its own, one question at a time, and
whoever asks gives up after a while: capacity that is not known must not look like no capacity.
"""

import asyncio
import operator
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pynvml

from moorage.engines.base import GpuDevice
from moorage.kit.errors import EngineError

_TIMEOUT_S = 20.0
NO_DRIVER = (
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_UNINITIALIZED,
)
nvml_thread = ThreadPoolExecutor(1, thread_name_prefix="nvml")

Version = tuple[int, ...]


@dataclass(frozen=True)
class GpuMachine:
    driver: str
    cuda: Version
    """The newest CUDA that this driver runs."""
    gpus: tuple[GpuDevice, ...]


async def find_gpus() -> GpuMachine | None:
    """None where no driver is loaded."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await asyncio.get_running_loop().run_in_executor(nvml_thread, _read)
    except TimeoutError as exc:
        raise EngineError(f"NVML did not answer within {_TIMEOUT_S:g} s") from exc


def _read() -> GpuMachine | None:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as exc:
        if exc.value in NO_DRIVER:
            return None
        raise EngineError(f"ask NVML for the GPUs: {exc}") from exc
    try:
        cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return GpuMachine(
            driver=str(pynvml.nvmlSystemGetDriverVersion()),
            cuda=(cuda // 1000, cuda % 1000 // 10),
            gpus=tuple(
                GpuDevice(
                    device_id=str(pynvml.nvmlDeviceGetUUID(handle)),
                    model=str(pynvml.nvmlDeviceGetName(handle)),
                    memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
                )
                for handle in handles
            ),
        )
    except pynvml.NVMLError as exc:
        raise EngineError(f"ask NVML for the GPUs: {exc}") from exc
    finally:
        pynvml.nvmlShutdown()


def driver_mismatch(machine: GpuMachine, image_environment: Mapping[str, str]) -> str | None:
    """What the image asks for, if the driver certainly does not have it.

    NVIDIA's images say so in NVIDIA_REQUIRE_CUDA: alternatives between spaces, conditions between commas, such as
    `cuda>=12.4 brand=tesla,driver>=525,driver<526`. A condition that is not understood is taken as met: to refuse
    what would have run is worse than to let the container say it. Images of others name at least the CUDA that is
    in them, and a driver runs every CUDA of its own major version."""
    if image_environment.get("NVIDIA_DISABLE_REQUIRE", "").lower() in ("1", "true"):
        return None
    required = image_environment.get("NVIDIA_REQUIRE_CUDA", "").split()
    if required:
        met = any(
            all(_is_met(condition, machine) for condition in alternative.split(","))
            for alternative in required
        )
        return None if met else required[0]
    contained = _version(image_environment.get("CUDA_VERSION", ""))
    if contained is not None and contained[0] > machine.cuda[0]:
        return f"CUDA {image_environment['CUDA_VERSION']}"
    return None


def sees_a_gpu(device_folder: Path) -> bool:
    """Whether this /dev has a GPU in it; a container's own is below /proc/<pid>/root."""
    return any(re.fullmatch(r"nvidia\d+", node.name) for node in device_folder.iterdir())


_COMPARISONS: Mapping[str, Callable[[Version, Version], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_CONDITION = re.compile(r"(cuda|driver)(>=|<=|!=|>|<|=)([\d.]+)")


def _is_met(condition: str, machine: GpuMachine) -> bool:
    parsed = _CONDITION.fullmatch(condition)
    if parsed is None:
        return True
    subject, comparison, text = parsed.groups()
    wanted = _version(text)
    have = machine.cuda if subject == "cuda" else _version(machine.driver)
    if wanted is None or have is None:
        return True
    # `driver>=525` speaks of the major version alone, and 525.60 is not above it.
    length = min(len(wanted), len(have))
    return _COMPARISONS[comparison](have[:length], wanted[:length])


def _version(text: str) -> Version | None:
    return tuple(int(part) for part in text.split(".")) if re.fullmatch(r"\d+(\.\d+)*", text) else None
