"""Fills main memory with rows that cost something to make, on all cores, and answers for some of them."""

import mmap
import os
from concurrent.futures import ThreadPoolExecutor

from moorage.machines.proof.values import ROW_BYTES, memory_row, row_digest


class Memory:
    def __init__(self) -> None:
        self._held: mmap.mmap | None = None

    def fill(self, nonce: str, memory_bytes: int, iterations: int) -> None:
        rows = memory_bytes // ROW_BYTES
        if rows == 0:
            return
        held = self._held = mmap.mmap(-1, rows * ROW_BYTES)

        def make(index: int) -> None:
            held[index * ROW_BYTES : (index + 1) * ROW_BYTES] = memory_row(nonce, index, iterations)

        with _all_cores() as cores:
            for _ in cores.map(make, range(rows)):
                pass

    def answer(self, salt: str, rows: tuple[int, ...]) -> tuple[str, ...]:
        held = self._held
        assert held is not None or not rows, "nothing was filled"

        def digest(index: int) -> str:
            assert held is not None
            return row_digest(salt, held[index * ROW_BYTES : (index + 1) * ROW_BYTES])

        with _all_cores() as cores:
            return tuple(cores.map(digest, rows))


def _all_cores() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)))
