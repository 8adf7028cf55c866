"""Everything below a folder that somebody else writes to, with three descriptors however the tree is made.

The way down is by names within the folder that is open, and the way back by `..`: the kernel takes no path of more than
4096 characters, but a tree may be deeper, and a descriptor kept for each of its folders would be as many as a tenant likes.
Each folder must be the one that was seen, on the way down and back: a container could put a link to the machine's own
files in its place.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR

MOST_TIMES_LOST = 1000
"""A folder that was moved while it was looked at takes the way back with it. Whoever keeps doing that is counted so far."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass
class _Folder:
    name: str
    seen: os.stat_result
    inside: list[tuple[str, os.stat_result]] = field(default_factory=list)
    """Folders that were not looked at yet."""


def entries_below(path: Path) -> Iterator[os.stat_result]:
    """What goes away meanwhile is left out."""
    with contextlib.suppress(OSError):
        way = [_Folder(str(path), path.stat())]
        here = _opened(way[0])
        if here is None:
            return
        times_lost = 0
        try:
            yield from _listed(here, way[-1])
            while way:
                if way[-1].inside:
                    folder = _Folder(*way[-1].inside.pop())
                    there = _opened(folder, here)
                    if there is None:
                        continue
                    way.append(folder)
                else:
                    way.pop()
                    if not way:
                        return
                    there = _opened(_Folder("..", way[-1].seen), here)
                    if there is None:
                        times_lost += 1
                        there = _reached(way) if times_lost < MOST_TIMES_LOST else None
                        if there is None:
                            return
                    folder = None
                os.close(here)
                here = there
                if folder is not None:
                    yield from _listed(here, folder)
        finally:
            os.close(here)


def _listed(descriptor: int, folder: _Folder) -> Iterator[os.stat_result]:
    with contextlib.suppress(OSError), os.scandir(descriptor) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                yield found
                if S_ISDIR(found.st_mode):
                    folder.inside.append((entry.name, found))


def _opened(folder: _Folder, within: int | None = None) -> int | None:
    """None where it is another one by now."""
    try:
        descriptor = os.open(folder.name, _FOLDER, dir_fd=within)
    except OSError:
        return None
    if os.path.samestat(os.fstat(descriptor), folder.seen):
        return descriptor
    os.close(descriptor)
    return None


def _reached(way: list[_Folder]) -> int | None:
    """The way down once more, as far as it still leads; the rest of it is forgotten."""
    here = _opened(way[0])
    for depth, folder in enumerate(way[1:], 1):
        if here is None:
            break
        there = _opened(folder, here)
        if there is None:
            del way[depth:]
            return here
        os.close(here)
        here = there
    return here
