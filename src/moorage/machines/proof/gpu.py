"""Fills a GPU's memory and adds it up, through the driver's library alone (`libcuda.so.1`, by ctypes)."""

import ctypes
import struct
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from moorage.engines.remote.proofs import GpuAnswer, GpuFilled, GpuOrder, GpuQuestion, SumsLeaf
from moorage.machines.proof.commitment import Levels, levels_of, root_of, way_of
from moorage.machines.proof.kernels import PTX
from moorage.machines.proof.values import (
    GPU_ROW_NUMBERS,
    SUM_BYTES,
    gpu_numbers,
    row_digest,
    sum_factor,
    sums_leaves,
)

_BLOCK = 256


class GpuError(Exception):
    """What the driver said."""


class Gpu:
    """One device, for as long as its proof takes."""

    def __init__(self, device_id: str | None = None) -> None:
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as exc:
            raise GpuError(f"the driver's library cannot be loaded: {exc}") from exc
        self._call("cuInit", 0)
        self._device = self._find(device_id)
        self._context = ctypes.c_void_p()
        self._call("cuCtxCreate_v2", ctypes.byref(self._context), 0, self._device)
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX.encode()))
        self._fill, self._add_up = (self._function(module, name) for name in ("fill", "add_up"))
        self._memory = ctypes.c_uint64()
        self._leaves: Sequence[bytes] = ()
        self._levels: Levels = ()

    def fill(self, nonce: str, order: GpuOrder) -> GpuFilled:
        """And add up. Returns when the device is done."""
        numbers = gpu_numbers(order)
        if not numbers:
            raise GpuError(f"{order.memory_bytes} bytes are too few for {order.threads} threads")
        self._call("cuMemAlloc_v2", ctypes.byref(self._memory), ctypes.c_size_t(order.memory_bytes))
        low, high = struct.unpack("<II", bytes.fromhex(nonce)[:8])
        values = (ctypes.c_uint64(numbers), *map(ctypes.c_uint32, (low, high, order.rounds)))
        self._launch(self._fill, order, (self._memory, *values))
        sums = ctypes.c_uint64(self._memory.value + 4 * numbers)
        values = (
            ctypes.c_uint64(numbers // 4),
            sums,
            *map(ctypes.c_uint32, (sum_factor(nonce), order.passes)),
        )
        self._launch(self._add_up, order, (self._memory, *values))
        self._call("cuCtxSynchronize")
        self._leaves = sums_leaves(self._read(4 * numbers, SUM_BYTES * order.threads))
        self._levels = levels_of(self._leaves)
        return GpuFilled(order.device_id, root_of(self._levels))

    def answer(self, salt: str, question: GpuQuestion) -> GpuAnswer:
        row = GPU_ROW_NUMBERS * 4
        rows = tuple(row_digest(salt, self._read(index * row, row)) for index in question.rows)
        leaves = tuple(
            SumsLeaf(self._leaves[index].hex(), way_of(self._levels, index)) for index in question.leaves
        )
        return GpuAnswer(question.device_id, rows, leaves)

    def close(self) -> None:
        self._call("cuCtxDestroy_v2", self._context)

    def _find(self, device_id: str | None) -> ctypes.c_int:
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        for index in range(count.value):
            device = ctypes.c_int()
            self._call("cuDeviceGet", ctypes.byref(device), index)
            if device_id is None or self._uuid(device) == device_id:
                return device
        raise GpuError(f"there is no GPU {device_id or ''}".strip())

    def _uuid(self, device: ctypes.c_int) -> str:
        uuid = (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGetUuid", ctypes.byref(uuid), device)
        return f"GPU-{UUID(bytes=bytes(uuid))}"

    def _function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(found), module, ctypes.c_char_p(name.encode()))
        return found

    def _launch(self, function: ctypes.c_void_p, order: GpuOrder, values: Sequence[Any]) -> None:
        pointers = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in values)
        )
        blocks = order.threads // _BLOCK
        self._call("cuLaunchKernel", function, blocks, 1, 1, _BLOCK, 1, 1, 0, None, pointers, None)

    def _read(self, offset: int, count: int) -> bytes:
        buffer = ctypes.create_string_buffer(count)
        place = ctypes.c_uint64(self._memory.value + offset)
        self._call("cuMemcpyDtoH_v2", buffer, place, ctypes.c_size_t(count))
        return buffer.raw

    def _call(self, name: str, *arguments: object) -> None:
        result = getattr(self._cuda, name)(*arguments)
        if result != 0:
            words = ctypes.c_char_p()
            self._cuda.cuGetErrorString(result, ctypes.byref(words))
            raise GpuError(f"{name}: {(words.value or b'?').decode(errors='replace')}")
