"""What a cache's folder holds, and taking away what was not used for longest.

A tenant writes to it while we look, so the way down is by names within folders that are open and no links: a link would lead to
the machine's own files. What goes is moved out of the tenant's sight first, in one step, and deleted then.
"""

import contextlib
import os
import secrets
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

from moorage.engines.cache_environment import COMPILED_FOLDERS, WEIGHTS
from moorage.engines.docker.folder_walk import entries_below

MOST_ENTRIES = 10_000
"""That are told apart. What somebody has beyond that counts like everything else, but is not taken apart, only thrown away."""
_MOST_LINKED = 100_000
"""Files with several names of which it is remembered that they were counted; beyond that each of their names counts."""
_GOING = "moor-going"
"""Beside the folder, where nobody inside a container gets."""
_HUB = "hub"
_LOCKS = ".locks"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_BLOCK_BYTES = 512
_LEAST_BYTES = 4096
_LONGEST_DELETION_S = 600
_DEEPEST = 256
"""No download and no compiler makes folders within folders as deep as that."""


class Inode(NamedTuple):
    device: int
    number: int


@dataclass(frozen=True)
class Entry:
    """What goes as a whole or not at all: a model, a compiler's graph."""

    parents: tuple[str, ...]
    name: str
    size_bytes: int
    used_at: float
    """When something of it was last read or written, as far as the file system notes it: many note one reading a day."""
    is_busy: bool
    """Something of it is open."""

    @property
    def held(self) -> "Held":
        is_compiled = bool(self.parents) and self.parents[0] in COMPILED_FOLDERS
        return Held(self.size_bytes, self.size_bytes if is_compiled else 0)


@dataclass(frozen=True)
class Held:
    size_bytes: int = 0
    compiled_bytes: int = 0

    def __add__(self, other: "Held") -> "Held":
        return Held(self.size_bytes + other.size_bytes, self.compiled_bytes + other.compiled_bytes)

    def __sub__(self, other: "Held") -> "Held":
        return Held(self.size_bytes - other.size_bytes, self.compiled_bytes - other.compiled_bytes)


@dataclass
class Contents:
    entries: list[Entry] = field(default_factory=list)
    held: Held = Held()
    """All of it, also what no entry was made of."""


def contents_of(folder: Path, busy: Collection[Inode] = frozenset()) -> Contents:
    """`huggingface/hub/models--…` each, and everything else by the second name of its path. However many files there are, they
    take no memory and a handful of descriptors: this runs where everybody else is served."""
    found = Contents()
    counted = set[Inode]()
    for descriptor, parents in _shelves(folder):
        for name, seen in _listed(descriptor):
            if _is_shelf((*parents, name), seen):
                continue
            entry = _measured(descriptor, parents, name, seen, counted, busy)
            found.held += entry.held
            if len(found.entries) < MOST_ENTRIES:
                found.entries.append(entry)
    # Whoever was inside when it was moved out can go on writing there.
    found.held += Held(sum(_size_of(one) for one in entries_below(folder.parent / _GOING)))
    return found


def trim(folder: Path, to_bytes: int, busy: Collection[Inode], used_since: float | None) -> Held:
    """Nothing that is open (`busy`) or was used since then."""
    delete_what_goes(folder)
    contents = contents_of(folder, busy)
    left = contents.held
    for entry in sorted(contents.entries, key=lambda one: one.used_at):
        if left.size_bytes <= to_bytes:
            break
        in_use = used_since is not None and entry.used_at >= used_since
        if in_use or entry.name == _LOCKS or entry.is_busy:
            continue
        if _move_out(folder, entry):
            left -= entry.held
    delete_what_goes(folder)
    return left


def delete_what_goes(folder: Path) -> None:
    """Also what a process that died had moved out. Of what somebody inside goes on writing to something may be left: it counts, and
    goes the next time."""
    going = folder.parent / _GOING
    if going.exists():
        # However deep the tree is: Python's own way down is a recursion.
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["rm", "-rf", "--", str(going)], capture_output=True, timeout=_LONGEST_DELETION_S)


def delete_what_is_deep(folder: Path) -> None:
    """Before the engine deletes the rest: it holds a descriptor for each level, and has to answer others meanwhile."""
    deep = ["find", str(folder.parent), "-xdev", "-mindepth", str(_DEEPEST), "-delete"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(deep, capture_output=True, timeout=_LONGEST_DELETION_S)


def _shelves(folder: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Folders whose contents are entries, each with the names that lead to it, open until the next one is asked for."""
    with _opened(str(folder)) as top:
        if top is None:
            return
        yield top, ()
        for name, seen in _listed(top):
            if not S_ISDIR(seen.st_mode):
                continue
            with _opened(name, top) as shelf:
                if shelf is None:
                    continue
                yield shelf, (name,)
                if name == WEIGHTS:
                    with _opened(_HUB, shelf) as hub:
                        if hub is not None:
                            yield hub, (name, _HUB)


def _is_shelf(names: tuple[str, ...], seen: os.stat_result) -> bool:
    return S_ISDIR(seen.st_mode) and (len(names) == 1 or names == (WEIGHTS, _HUB))


@contextlib.contextmanager
def _opened(name: str, within: int | None = None) -> Iterator[int | None]:
    """None where it is no folder, or none any more."""
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=within)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _listed(descriptor: int) -> Iterator[tuple[str, os.stat_result]]:
    with contextlib.suppress(OSError), os.scandir(descriptor) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                yield entry.name, entry.stat(follow_symlinks=False)


def _measured(
    descriptor: int,
    parents: tuple[str, ...],
    name: str,
    seen: os.stat_result,
    counted: set[Inode],
    busy: Collection[Inode],
) -> Entry:
    size_bytes, used_at, is_busy = 0, 0.0, False
    below = entries_below(Path(f"/proc/self/fd/{descriptor}/{name}")) if S_ISDIR(seen.st_mode) else ()
    for one in chain((seen,), below):
        inode = Inode(one.st_dev, one.st_ino)
        is_busy = is_busy or inode in busy
        used_at = max(used_at, one.st_mtime, one.st_atime if S_ISREG(one.st_mode) else 0.0)
        if inode not in counted:
            size_bytes += _size_of(one)
        if one.st_nlink > 1 and S_ISREG(one.st_mode) and len(counted) < _MOST_LINKED:
            counted.add(inode)
    return Entry(parents, name, size_bytes, used_at, is_busy)


def _size_of(one: os.stat_result) -> int:
    return max(one.st_blocks * _BLOCK_BYTES, _LEAST_BYTES)


def _move_out(folder: Path, entry: Entry) -> bool:
    going = folder.parent / _GOING
    going.mkdir(mode=0o700, exist_ok=True)
    with contextlib.ExitStack() as opened:
        parent = opened.enter_context(_opened(str(folder)))
        for name in entry.parents:
            parent = opened.enter_context(_opened(name, parent)) if parent is not None else None
        if parent is None:
            return False
        try:
            os.rename(entry.name, going / secrets.token_hex(8), src_dir_fd=parent)
        except OSError:
            return False
    return True
