"""What NVIDIA GPUs do just now, through NVML.

The library stays loaded between two readings, because loading it takes longer than all of them."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import pynvml

from moorage.engines.base import GpuUsage
from moorage.engines.nvidia import NO_DRIVER, told
from moorage.engines.nvml_thread import nvml_thread
from moorage.kit.errors import EngineError

Answer = TypeVar("Answer")

_TIMEOUT_S = 2.0
_loaded = False
"""Only the thread of NVML reads and writes it."""
_PROBLEMS = {
    pynvml.NVML_ERROR_GPU_IS_LOST: "it has fallen off the bus",
    pynvml.NVML_ERROR_NOT_FOUND: "the driver does not know it any more",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "the driver does not know it any more",
    pynvml.NVML_ERROR_RESET_REQUIRED: "it needs a reset",
    # What NVML has to say of most GPUs that are half gone.
    pynvml.NVML_ERROR_UNKNOWN: "NVML cannot talk to it",
}
"""Words about a GPU. All others (no permission, no memory, no library) are about NVML itself: nobody has to go for those."""


async def read_gpu_usage(device_ids: Collection[str]) -> Mapping[str, GpuUsage]:
    """Of those that are there; where nobody asks for one, NVML is not asked either."""
    return await _ask(_read_usage, tuple(device_ids)) if device_ids else {}


async def read_gpu_problems(device_ids: Collection[str]) -> Mapping[str, str]:
    """Of those that can compute nothing any more: why, as a clause."""
    return await _ask(_read_problems, tuple(device_ids)) if device_ids else {}


async def read_gpu_users(device_ids: Collection[str]) -> frozenset[int]:
    """Processes that compute on them; empty where NVML does not tell."""
    found = await _ask(_read_users, tuple(device_ids)) if device_ids else {}
    return frozenset(pid for pids in found.values() for pid in pids)


async def _ask(
    question: Callable[[tuple[str, ...]], dict[str, Answer]], device_ids: tuple[str, ...]
) -> Mapping[str, Answer]:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await asyncio.get_running_loop().run_in_executor(nvml_thread, question, device_ids)
    except TimeoutError as exc:
        raise EngineError(f"NVML did not answer within {_TIMEOUT_S:g} s") from exc


def _read_usage(device_ids: tuple[str, ...]) -> dict[str, GpuUsage]:
    found: dict[str, GpuUsage] = {}
    try:
        _load()
        for device_id in device_ids:
            usage = _usage_of(device_id)
            found |= {device_id: usage} if usage is not None else {}
    except pynvml.NVMLError as exc:
        _unload()
        if exc.value in NO_DRIVER:
            return {}
        raise EngineError(f"ask NVML what the GPUs do: {exc}") from exc
    return found


def _usage_of(device_id: str) -> GpuUsage | None:
    """None for one that is gone or broke (`_read_problems` says which): it hides no other."""
    try:
        handle = _handle(device_id)
        return _usage(handle) if handle else None
    except pynvml.NVMLError as exc:
        if exc.value in _PROBLEMS:
            return None
        raise


def _read_problems(device_ids: tuple[str, ...]) -> dict[str, str]:
    try:
        _load()
    except pynvml.NVMLError as exc:
        # The driver went away under the containers: what they had of it is gone.
        if exc.value == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
            return dict.fromkeys(device_ids, "the NVIDIA driver is not loaded any more")
        raise EngineError(f"ask NVML how the GPUs are: {exc}") from exc
    found: dict[str, str] = {}
    unknown: pynvml.NVMLError | None = None
    for device_id in device_ids:
        try:
            problem = _problem(device_id)
        except pynvml.NVMLError as exc:
            unknown = exc
        else:
            found |= {device_id: problem} if problem is not None else {}
    if found or unknown is not None:
        _unload()
    if unknown is not None and not found:
        raise EngineError(f"ask NVML how the GPUs are: {unknown}") from unknown
    return found


def _read_users(device_ids: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    try:
        _load()
        handles = {device_id: _handle(device_id) for device_id in device_ids}
        return {
            device_id: tuple(int(one.pid) for one in _processes(handle))
            for device_id, handle in handles.items()
            if handle
        }
    except pynvml.NVMLError as exc:
        _unload()
        if exc.value in NO_DRIVER:
            return {}
        raise EngineError(f"ask NVML who uses the GPUs: {exc}") from exc


def _processes(handle: Any) -> list[Any]:
    return told(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle)) or []


def _problem(device_id: str) -> str | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(device_id)
        pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError as exc:
        if exc.value in _PROBLEMS:
            return _PROBLEMS[exc.value]
        # One that computes in the machine's memory does not tell of any of its own, and is well.
        if exc.value != pynvml.NVML_ERROR_NOT_SUPPORTED:
            raise
    rows = told(lambda: pynvml.nvmlDeviceGetRemappedRows(handle))
    return "its memory is worn out: no spare row is left" if rows is not None and rows[3] else None


def _load() -> None:
    global _loaded
    if not _loaded:
        pynvml.nvmlInit()
        _loaded = True


def _unload() -> None:
    """A driver that was exchanged or fell over is found again by loading the library anew."""
    global _loaded
    if _loaded:
        _loaded = False
        pynvml.nvmlShutdown()


def _handle(device_id: str) -> Any:
    try:
        return pynvml.nvmlDeviceGetHandleByUUID(device_id)
    except pynvml.NVMLError as exc:
        if exc.value in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT):
            return None
        raise


def _usage(handle: Any) -> GpuUsage:
    return GpuUsage(
        utilization_percent=told(lambda: float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
        # The second version leaves out what the driver keeps for itself.
        memory_bytes=told(
            lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used)
        ),
        temperature_celsius=told(
            lambda: float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
        ),
        power_watts=told(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000),
    )
