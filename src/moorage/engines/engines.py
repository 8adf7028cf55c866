"""The engines of an installation, by name: machines join and leave while the controller runs.

A replica's row says which engine has it. What one engine does not answer concerns its own replicas only: whoever asks
several asks each by itself (`each.py`).
"""

import asyncio
import math
import zlib
from collections.abc import Collection, Mapping

from moorage.engines.base import Engine
from moorage.engines.doors import Doors
from moorage.kit.errors import EngineError

ENGINE_UNKNOWN = "engine_unknown"
"""The code of the `EngineError` about a name that no engine has, or has yet."""


_FEW = 8
_PAUSE_S = 0.25
_LOOKS_PER_S = 100
_EARLY_SHARE = 0.01
"""Of the time between two looks: a timer may end so much too early, and the look after it is not made twice."""
_LONGEST_BETWEEN_LOOKS_S = 10


class Engines:
    def __init__(
        self, engines: Mapping[str, Engine], clusters: Collection[str] = (), doors: Doors | None = None
    ) -> None:
        """`clusters` are those that choose machines and give addresses by themselves. `doors` know whom to believe that a replica is
        behind its address, where it has a door."""
        self.doors = doors
        self._engines = dict(engines)
        self._clusters = frozenset(clusters)
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._engines)

    def only(self, name: str) -> bool:
        """There is no other: what it does not answer nobody does, and nothing could be elsewhere."""
        return self._engines.keys() == {name}

    def places(self, name: str) -> bool:
        """It chooses the machine: what is decided here is that there is room, and the row's machine is a guess until it is seen."""
        return name in self._clusters

    def pause_s(self) -> float:
        """How long those who ask the database about one engine each wait for each other: nobody, where there are few."""
        return 0.0 if len(self._engines) <= _FEW else _PAUSE_S

    def look_every_s(self) -> int:
        """How often to look at each, where fewer looks do no harm: every second, and less often where there are so many that
        nothing else would be done."""
        return max(1, min(math.ceil(len(self._engines) / _LOOKS_PER_S), _LONGEST_BETWEEN_LOOKS_S))

    def turn_in_s(self, name: str, every_s: float, now_s: float) -> float:
        """How long whoever does something to it again and again waits: so long where there are few. Of many each has moments of its own,
        all over that time, by the monotonic clock: what is done to each would be done to all at once otherwise, and whatever else
        there is to do would wait for it."""
        if len(self._engines) <= _FEW:
            return every_s
        left_s = every_s - (now_s - zlib.crc32(name.encode()) / 1000) % every_s
        return left_s if left_s > every_s * _EARLY_SHARE else left_s + every_s

    def of(self, name: str) -> Engine:
        try:
            return self._engines[name]
        except KeyError:
            raise EngineError(f"There is no engine {name}.", code=ENGINE_UNKNOWN) from None

    def by_name(self) -> Mapping[str, Engine]:
        return dict(self._engines)

    def add(self, name: str, engine: Engine) -> None:
        """From now on it is watched and may be given replicas. Another of the same name is replaced and not closed."""
        self._engines[name] = engine
        self._announce()

    def remove(self, name: str) -> Engine | None:
        """Nobody asks it for anything new; what is under way is for the caller to close."""
        removed = self._engines.pop(name, None)
        self._announce()
        return removed

    def next_change(self) -> asyncio.Event:
        """Set once one was added or removed after this call."""
        return self._changed

    async def close(self) -> None:
        await asyncio.gather(*(engine.close() for engine in self._engines.values()))

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
