"""Saying what one has before one knows what will be asked of it. Pure.

The leaves are hashed in pairs until one hash is left, the root. Whoever has said the root can afterwards show any leaf with the hashes
beside its way up, and no other leaf in its place. So everything has to be there before the question comes, not what it asks for alone.
"""

import hashlib
from collections.abc import Sequence

_BYTES = 32
_LEAF, _PAIR = b"\0", b"\1"
"""Or a pair of hashes could be shown as a leaf."""
Levels = Sequence[Sequence[bytes]]


def levels_of(leaves: Sequence[bytes]) -> Levels:
    """The hashes, those of the leaves first and the root last. One without a neighbour goes up as it is."""
    level = [_hash(_LEAF + leaf) for leaf in leaves]
    levels = [level]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [_hash(_PAIR + pair[0] + pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
        levels.append(level)
    return levels


def root_of(levels: Levels) -> str:
    return levels[-1][0].hex()


def way_of(levels: Levels, index: int) -> str:
    """The hashes beside a leaf's way up."""
    beside = []
    for level in levels[:-1]:
        if index ^ 1 < len(level):
            beside.append(level[index ^ 1])
        index //= 2
    return b"".join(beside).hex()


def leads_to(root: str, leaf: bytes, index: int, count: int, way: str) -> bool:
    """Whether this is the leaf of `count` that was at the place when the root was said."""
    try:
        beside = bytes.fromhex(way)
    except ValueError:
        return False
    found = _hash(_LEAF + leaf)
    while count > 1:
        if index ^ 1 < count:
            other, beside = beside[:_BYTES], beside[_BYTES:]
            found = _hash(_PAIR + (other + found if index % 2 else found + other))
        index, count = index // 2, (count + 1) // 2
    return not beside and found.hex() == root


def _hash(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
