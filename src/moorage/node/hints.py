"""The engine's hints, counted and kept for a while, so that whoever lost the connection goes on where it was.

When the engine's own watch breaks, what happens until the next one begins is heard by nobody: counting starts anew then, under
another name, and everybody is told to look at everything again.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator

import structlog

from moorage.engines.base import Engine
from moorage.engines.remote.messages import Hint, HintPosition
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError
from moorage.kit.ids import ContainerId

log = structlog.get_logger()

MOST_KEPT = 1024
_PAUSE_S = 1.0


class KeptHints:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = asyncio.Event()
        self._begin()

    @property
    def position(self) -> HintPosition:
        return HintPosition(self._epoch, self._sequence)

    async def keep(self, engine: Engine) -> None:
        """For good."""
        while True:
            try:
                async for container_id in engine.watch():
                    self.add(container_id)
            except EngineError as exc:
                log.warning("watch_broken", error=str(exc))
            self._begin()
            self._announce()
            await self._clock.sleep(_PAUSE_S)

    def add(self, container_id: ContainerId) -> None:
        self._sequence += 1
        self._kept.append(Hint(self._sequence, container_id))
        self._announce()

    async def since(self, position: HintPosition | None) -> AsyncGenerator[Hint | HintPosition, None]:
        """Every hint behind it, for good; a position where those before it cannot be told any more."""
        while True:
            changed = self._changed
            if position is None or not self._can_tell(position):
                position = self.position
                yield position
            for hint in tuple(self._kept):
                if hint.sequence > position.sequence:
                    position = HintPosition(position.epoch, hint.sequence)
                    yield hint
            if changed is self._changed:
                await changed.wait()

    def _can_tell(self, position: HintPosition) -> bool:
        oldest = self._sequence - len(self._kept)
        return position.epoch == self._epoch and oldest <= position.sequence <= self._sequence

    def _begin(self) -> None:
        self._epoch, self._sequence = secrets.token_hex(8), 0
        self._kept: deque[Hint] = deque(maxlen=MOST_KEPT)

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
