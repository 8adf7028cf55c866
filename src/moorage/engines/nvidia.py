"""The NVIDIA GPUs of this machine, through NVML, and whether their driver is new enough for an image.

A GPU that hangs makes NVML hang. It is therefore asked on a thread of its own, one question at a time, and
whoever asks gives up after a while: capacity that is not known must not look like no capacity. One GPU that does not
answer is no reason to know nothing of the others.
"""

import asyncio
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import pynvml

from moorage.engines.nvml_thread import nvml_thread

Answer = TypeVar("Answer")
Version = tuple[int, ...]

_TIMEOUT_S = 20.0
"""Long, because a driver that is unloaded while nobody uses it is loaded first, for one GPU after the other."""
NO_DRIVER = (
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_UNINITIALIZED,
)
NOT_TOLD = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT)
"""How NVML says that a device, or a slice of one, has no such thing."""
GPU_VARIABLES = ("NVIDIA_REQUIRE_CUDA", "NVIDIA_DISABLE_REQUIRE", "CUDA_VERSION")
"""What an image's environment says about the driver that it needs."""


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML describes it; what it does not tell is None."""

    device_id: str
    model: str
    memory_bytes: int | None
    """None where it has none of its own: it computes in the machine's."""
    index: int = 0
    minor: int | None = None
    """Of its device node: /dev/nvidia<minor>."""
    bus_id: str | None = None
    uncorrected_errors: int | None = None
    """Of its memory, since its driver was loaded."""
    rows_pending: bool = False
    """Memory rows, or pages, are exchanged for spare ones at its next reset."""
    rows_failed: bool = False
    """There was no spare row left."""
    persistent: bool | None = None
    """Its driver stays loaded while nobody uses it."""
    prohibited: bool = False
    """Its compute mode lets nobody compute."""
    sliced: bool = False
    """In MIG mode: only slices of it compute."""
    fabric_pending: bool = False
    """It hangs on NVSwitches that nobody has set up yet."""


@dataclass(frozen=True)
class GpuMachine:
    driver: str
    cuda: Version
    """The newest CUDA that this driver runs."""
    gpus: tuple[Gpu, ...]
    lost: tuple[int, ...] = ()
    """Indexes of those that do not answer."""


class NvmlFailure(StrEnum):
    NO_LIBRARY = "no_library"
    NO_DRIVER = "no_driver"
    MISMATCH = "mismatch"
    """The library and the kernel's module are of different versions."""
    SILENT = "silent"
    OTHER = "other"


@dataclass(frozen=True)
class NvmlAnswer:
    machine: GpuMachine | None = None
    failure: NvmlFailure | None = None
    words: str = ""
    """NVML's own, of a failure."""


async def ask_nvml() -> NvmlAnswer:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await asyncio.get_running_loop().run_in_executor(nvml_thread, _read)
    except TimeoutError:
        return NvmlAnswer(failure=NvmlFailure.SILENT, words=f"NVML did not answer within {_TIMEOUT_S:g} s")


async def find_gpus() -> GpuMachine | None:
    """None where NVML tells of none, whatever the reason."""
    return (await ask_nvml()).machine


def _read() -> NvmlAnswer:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as exc:
        return NvmlAnswer(failure=_failure(exc), words=str(exc))
    try:
        cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
        found = [_gpu(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return NvmlAnswer(
            GpuMachine(
                driver=str(pynvml.nvmlSystemGetDriverVersion()),
                cuda=(cuda // 1000, cuda % 1000 // 10),
                gpus=tuple(gpu for gpu in found if gpu is not None),
                lost=tuple(index for index, gpu in enumerate(found) if gpu is None),
            )
        )
    except pynvml.NVMLError as exc:
        return NvmlAnswer(failure=_failure(exc), words=str(exc))
    finally:
        pynvml.nvmlShutdown()


def _failure(error: Any) -> NvmlFailure:
    match error.value:
        case pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            return NvmlFailure.NO_LIBRARY
        case pynvml.NVML_ERROR_DRIVER_NOT_LOADED | pynvml.NVML_ERROR_UNINITIALIZED:
            return NvmlFailure.NO_DRIVER
        case pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            return NvmlFailure.MISMATCH
    return NvmlFailure.OTHER


def _gpu(index: int) -> Gpu | None:
    """None for one that does not answer."""
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        rows = told(lambda: pynvml.nvmlDeviceGetRemappedRows(handle))
        return Gpu(
            device_id=str(pynvml.nvmlDeviceGetUUID(handle)),
            model=str(pynvml.nvmlDeviceGetName(handle)),
            memory_bytes=told(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)),
            index=index,
            minor=told(lambda: int(pynvml.nvmlDeviceGetMinorNumber(handle))),
            bus_id=told(lambda: str(pynvml.nvmlDeviceGetPciInfo(handle).busId)),
            uncorrected_errors=told(
                lambda: int(
                    pynvml.nvmlDeviceGetTotalEccErrors(
                        handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
                    )
                )
            ),
            rows_pending=bool(rows and rows[2])
            or bool(told(lambda: pynvml.nvmlDeviceGetRetiredPagesPendingStatus(handle))),
            rows_failed=bool(rows and rows[3]),
            persistent=told(lambda: bool(pynvml.nvmlDeviceGetPersistenceMode(handle))),
            prohibited=told(lambda: pynvml.nvmlDeviceGetComputeMode(handle))
            == pynvml.NVML_COMPUTEMODE_PROHIBITED,
            sliced=bool((told(lambda: pynvml.nvmlDeviceGetMigMode(handle)) or (0, 0))[0]),
            fabric_pending=bool(told(lambda: _fabric_pending(handle))),
        )
    except (pynvml.NVMLError, ValueError):  # also a name that is no text
        return None


def _fabric_pending(handle: Any) -> bool:
    information = pynvml.c_nvmlGpuFabricInfo_t()
    pynvml.nvmlDeviceGetGpuFabricInfo(handle, pynvml.byref(information))
    return information.state in (
        pynvml.NVML_GPU_FABRIC_STATE_NOT_STARTED,
        pynvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS,
    )


def told(question: Callable[[], Answer]) -> Answer | None:
    """A slice of a GPU, for example, has no temperature of its own, and an older driver knows fewer questions."""
    try:
        return question()
    except pynvml.NVMLError as exc:
        if exc.value in (*NOT_TOLD, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_NO_PERMISSION):
            return None
        raise


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
    contained = parsed_version(image_environment.get("CUDA_VERSION", ""))
    if contained is not None and contained[0] > machine.cuda[0]:
        return f"CUDA {image_environment['CUDA_VERSION']}"
    return None


def environment_of(entries: Sequence[str] | None) -> dict[str, str]:
    """From the form that images keep it in."""
    return dict(entry.split("=", 1) for entry in entries or () if "=" in entry)


def gpu_environment(entries: Sequence[str] | None) -> dict[str, str]:
    """Of an image's environment, what it says about the driver that it needs."""
    return {name: value for name, value in environment_of(entries).items() if name in GPU_VARIABLES}


def count_gpus(device_folder: Path) -> int:
    """How many GPUs this /dev has; a container's own is below /proc/<pid>/root."""
    return sum(re.fullmatch(r"nvidia\d+", node.name) is not None for node in device_folder.iterdir())


def parsed_version(text: str) -> Version | None:
    return tuple(int(part) for part in text.split(".")) if re.fullmatch(r"\d+(\.\d+)*", text) else None


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
    wanted = parsed_version(text)
    have = machine.cuda if subject == "cuda" else parsed_version(machine.driver)
    if wanted is None or have is None:
        return True
    # `driver>=525` speaks of the major version alone, and 525.60 is not above it.
    length = min(len(wanted), len(have))
    return _COMPARISONS[comparison](have[:length], wanted[:length])
