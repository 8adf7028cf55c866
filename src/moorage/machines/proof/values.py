"""The numbers that memory is filled with, by their place: whoever knows the nonce can make any of them again, at a price. Pure.

A row of main memory costs tens of milliseconds of a core to make, and nothing to read. So whoever has not kept the rows that are asked for, and
has to make them again, answers too late. A number in a GPU's memory is cheap to make again, for a GPU above all: what it shows is
that this much memory was there to be filled, and how fast it is read. Each thread adds up its share of it many times over,
which can be checked here for that thread by itself. What all threads came to is said before it is known which will be checked
(`commitment.py`): a processor makes a thousand of those sums in two seconds, and all sixteen million in hours.
"""

import hashlib
import struct

from moorage.engines.remote.proofs import GpuOrder

ROW_BYTES = 2**20
GPU_ROW_NUMBERS = 64
LEAF_SUMS = 256
"""A kilobyte: as text, what an answer of a machine may hold at a stretch."""
SUM_BYTES = 4
_MASK = 0xFFFFFFFF
_STEP = 0x9E3779B9


def memory_row(nonce: str, index: int, iterations: int) -> bytes:
    """PBKDF2, because it can be made to cost what it should, is in every Python, and lets other threads run meanwhile."""
    seed = bytes.fromhex(nonce) + struct.pack("<Q", index)
    return hashlib.pbkdf2_hmac("sha256", seed, b"moorage proof", iterations, ROW_BYTES)


def row_digest(salt: str, row: bytes) -> str:
    return hashlib.sha256(bytes.fromhex(salt) + row).hexdigest()


def gpu_number(nonce: str, place: int, rounds: int) -> int:
    """As the kernel in `kernels.py` makes it: 32 bits, from the first 64 of the nonce."""
    low, high = struct.unpack("<II", bytes.fromhex(nonce)[:8])
    value = _mix(((place & _MASK) ^ low) + _mix((place >> 32) ^ high))
    for _ in range(rounds):
        value = _mix(value + _STEP)
    return value


def gpu_row(nonce: str, index: int, rounds: int) -> bytes:
    first = index * GPU_ROW_NUMBERS
    numbers = [gpu_number(nonce, first + place, rounds) for place in range(GPU_ROW_NUMBERS)]
    return struct.pack(f"<{GPU_ROW_NUMBERS}I", *numbers)


def gpu_numbers(order: GpuOrder) -> int:
    """How many are filled in, in whole rows; the sums lie behind them."""
    return max(order.memory_bytes // 4 - order.threads, 0) // GPU_ROW_NUMBERS * GPU_ROW_NUMBERS


def sums_leaves(sums: bytes) -> list[bytes]:
    size = LEAF_SUMS * SUM_BYTES
    return [sums[at : at + size] for at in range(0, len(sums), size)]


def gpu_sum(nonce: str, thread: int, order: GpuOrder) -> int:
    """What one thread makes of its share, four numbers in a row of each so many, with another factor in each pass."""
    quads = range(thread, gpu_numbers(order) // 4, order.threads)
    share = [gpu_number(nonce, 4 * quad + place, order.rounds) for quad in quads for place in range(4)]
    total, factor = 0, sum_factor(nonce)
    for _ in range(order.passes):
        for number in share:
            total = (total * factor + number) & _MASK
        factor = (factor + 2) & _MASK
    return total


def sum_factor(nonce: str) -> int:
    """Odd, so that no number is lost."""
    return int.from_bytes(bytes.fromhex(nonce)[8:12], "little") | 1


def _mix(value: int) -> int:
    value &= _MASK
    value ^= value >> 16
    value = (value * 0x7FEB352D) & _MASK
    value ^= value >> 15
    value = (value * 0x846CA68B) & _MASK
    return value ^ (value >> 16)
