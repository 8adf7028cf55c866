"""What a cache's folder holds, and taking away what was not used for longest.

A tenant writes to it while we look, so the way down is by names within folders that are open and no links: a link would lead to
the machine's own files. What goes is moved out of the tenant's sight first, in one step, and deleted then.
"""

import contextlib
import os
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

from moorage.engines.cache_environment import COMPILED_FOLDERS, WEIGHTS
from moorage.engines.docker.folder_walk import entries_below

MOST_ENTRIES = 10_000
"""That are told apart; whoever makes more has a cache that is not taken apart, only thrown away."""
_GOING = "moor-going"
"""Beside the folder, where nobody inside a container gets."""
_HUB = "hub"
_LOCKS = ".locks"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_BLOCK_BYTES = 512
_LEAST_BYTES = 4096


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
    inodes: frozenset[Inode]

    @property
    def is_compiled(self) -> bool:
        return bool(self.parents) and self.parents[0] in COMPILED_FOLDERS


@dataclass(frozen=True)
class Held:
    size_bytes: int = 0
    compiled_bytes: int = 0

    def __add__(self, other: "Held") -> "Held":
        return Held(self.size_bytes + other.size_bytes, self.compiled_bytes + other.compiled_bytes)


def entries_of(folder: Path) -> list[Entry]:
    """`huggingface/hub/models--…` each, and everything else by the second name of its path."""
    found: list[Entry] = []
    counted = set[Inode]()
    with contextlib.ExitStack() as opened:
        top = _opened(opened, str(folder))
        for descriptor, parents in _shelves(opened, top):
            for name, seen in _listed(descriptor):
                if _is_shelf((*parents, name), seen) or len(found) >= MOST_ENTRIES:
                    continue
                found.append(_measured(descriptor, parents, name, seen, counted))
    return found


def held_by(entries: Collection[Entry]) -> Held:
    return Held(
        sum(entry.size_bytes for entry in entries),
        sum(entry.size_bytes for entry in entries if entry.is_compiled),
    )


def trim(folder: Path, to_bytes: int, busy: Collection[Inode], used_since: float | None) -> Held:
    """Nothing that is open (`busy`) or was used since then."""
    entries = entries_of(folder)
    left = held_by(entries)
    for entry in sorted(entries, key=lambda one: one.used_at):
        if left.size_bytes <= to_bytes:
            break
        in_use = used_since is not None and entry.used_at >= used_since
        if in_use or entry.name == _LOCKS or not entry.inodes.isdisjoint(busy):
            continue
        if _move_out(folder, entry):
            left += Held(-entry.size_bytes, -entry.size_bytes if entry.is_compiled else 0)
    delete_what_goes(folder)
    return left


def delete_what_goes(folder: Path) -> None:
    """Also what a process that died had moved out."""
    going = folder.parent / _GOING
    if going.exists():
        # However deep the tree is: Python's own way down is a recursion.
        subprocess.run(["rm", "-rf", "--", str(going)], check=True, timeout=600)


def _shelves(opened: contextlib.ExitStack, top: int | None) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Folders whose contents are entries, each with the names that lead to it."""
    if top is None:
        return
    yield top, ()
    for name, seen in _listed(top):
        if S_ISDIR(seen.st_mode) and (child := _opened(opened, name, top)) is not None:
            yield child, (name,)
            if name == WEIGHTS and (hub := _opened(opened, _HUB, child)) is not None:
                yield hub, (name, _HUB)


def _is_shelf(names: tuple[str, ...], seen: os.stat_result) -> bool:
    return S_ISDIR(seen.st_mode) and (len(names) == 1 or names == (WEIGHTS, _HUB))


def _opened(opened: contextlib.ExitStack, name: str, within: int | None = None) -> int | None:
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=within)
    except OSError:
        return None
    opened.callback(os.close, descriptor)
    return descriptor


def _listed(descriptor: int) -> Iterator[tuple[str, os.stat_result]]:
    with contextlib.suppress(OSError), os.scandir(descriptor) as entries:
        for number, entry in enumerate(entries):
            if number >= MOST_ENTRIES:
                return
            with contextlib.suppress(OSError):
                yield entry.name, entry.stat(follow_symlinks=False)


def _measured(
    descriptor: int, parents: tuple[str, ...], name: str, seen: os.stat_result, counted: set[Inode]
) -> Entry:
    size_bytes, used_at, inodes = 0, 0.0, set[Inode]()
    below = entries_below(Path(f"/proc/self/fd/{descriptor}/{name}")) if S_ISDIR(seen.st_mode) else ()
    for one in (seen, *below):
        inode = Inode(one.st_dev, one.st_ino)
        inodes.add(inode)
        used_at = max(used_at, one.st_mtime, one.st_atime if S_ISREG(one.st_mode) else 0.0)
        if inode not in counted:
            size_bytes += max(one.st_blocks * _BLOCK_BYTES, _LEAST_BYTES)
        if one.st_nlink > 1 and S_ISREG(one.st_mode):
            counted.add(inode)
    return Entry(parents, name, size_bytes, used_at, frozenset(inodes))


def _move_out(folder: Path, entry: Entry) -> bool:
    going = folder.parent / _GOING
    going.mkdir(mode=0o700, exist_ok=True)
    with contextlib.ExitStack() as opened:
        parent = _opened(opened, str(folder))
        for name in entry.parents:
            parent = _opened(opened, name, parent) if parent is not None else None
        if parent is None:
            return False
        try:
            os.rename(entry.name, going / f"{len(os.listdir(going))}", src_dir_fd=parent)
        except OSError:
            return False
    return True
