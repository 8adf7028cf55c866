"""What NVIDIA GPUs do just now, through NVML.

The library stays loaded between two readings, because loading it takes longer than all of them."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import pynvml

from moorage.engines.base import GpuUsage
from moorage.engines.nvidia import NO_DRIVER, nvml_thread
from moorage.kit.errors import EngineError

Figure = TypeVar("Figure")

_TIMEOUT_S = 2.0
_loaded = False
"""Only the thread of NVML reads and writes it."""


async def read_gpu_usage(device_ids: Collection[str]) -> Mapping[str, GpuUsage]:
    """Of those that are there; where nobody asks for one, NVML is not asked either."""
    if not device_ids:
        return {}
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await asyncio.get_running_loop().run_in_executor(nvml_thread, _read, tuple(device_ids))
    except TimeoutError as exc:
        raise EngineError(f"NVML did not answer within {_TIMEOUT_S:g} s") from exc


def _read(device_ids: tuple[str, ...]) -> dict[str, GpuUsage]:
    global _loaded
    try:
        if not _loaded:
            pynvml.nvmlInit()
            _loaded = True
        return {device_id: _usage(handle) for device_id in device_ids if (handle := _handle(device_id))}
    except pynvml.NVMLError as exc:
        # A driver that was exchanged or fell over is found again by loading the library anew.
        if _loaded:
            _loaded = False
            pynvml.nvmlShutdown()
        if exc.value in NO_DRIVER:
            return {}
        raise EngineError(f"ask NVML what the GPUs do: {exc}") from exc


def _handle(device_id: str) -> Any:
    try:
        return pynvml.nvmlDeviceGetHandleByUUID(device_id)
    except pynvml.NVMLError as exc:
        if exc.value in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT):
            return None
        raise


def _usage(handle: Any) -> GpuUsage:
    return GpuUsage(
        utilization_percent=_told(lambda: float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
        # The second version leaves out what the driver keeps for itself.
        memory_bytes=_told(
            lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used)
        ),
        temperature_celsius=_told(
            lambda: float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
        ),
        power_watts=_told(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000),
    )


def _told(question: Callable[[], Figure]) -> Figure | None:
    """A slice of a GPU, for example, has no temperature of its own."""
    try:
        return question()
    except pynvml.NVMLError as exc:
        if exc.value in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT):
            return None
        raise
