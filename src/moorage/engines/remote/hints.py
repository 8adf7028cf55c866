"""Hints from another machine that something changed, over as many connections as it takes.

The machine counts its hints. After a break we name the last one that we have; it goes on behind it, or says that it cannot:
then every container that has something there is to be looked at again, and is named. So nothing is missed that the list of
replicas would not show. It hints at no container but those, and at so many in a second.
"""

import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from moorage.engines.remote.codec import ANSWERS, WireError, decode, parse, to_bytes
from moorage.engines.remote.connection import MachineConnection
from moorage.engines.remote.frames import Frame, FrameKind
from moorage.engines.remote.known import KnownReplicas
from moorage.engines.remote.messages import Hint, HintPosition
from moorage.engines.remote.pace import Pace
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError
from moorage.kit.ids import ContainerId

log = structlog.get_logger()

PATIENCE_S = 20.0
"""A machine that said nothing for so long is away, and whoever listens should know."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_HINTS_PER_S, _HINTS_AT_ONCE = 20.0, 400.0
"""Each is a pass over a container."""


@dataclass
class Hints:
    machine: str
    connection: MachineConnection
    clock: Clock
    known: KnownReplicas
    position: HintPosition | None
    """Behind which to begin; None where the machine was never asked anything."""

    async def follow(self) -> AsyncIterator[ContainerId]:
        pace, pause_s = Pace(self.clock, _HINTS_PER_S, _HINTS_AT_ONCE), _FIRST_PAUSE_S
        heard_at_s = -math.inf
        begun_at_s = self.clock.monotonic()
        while True:
            try:
                async with aclosing(self._once()) as bundles:
                    async for container_ids in bundles:
                        heard_at_s, pause_s = self.clock.monotonic(), _FIRST_PAUSE_S
                        await pace.take()
                        for container_id in container_ids:
                            await pace.take()
                            yield container_id
            except EngineError as exc:
                if self.clock.monotonic() - max(heard_at_s, begun_at_s) > PATIENCE_S:
                    raise
                log.info("hints_interrupted", machine=self.machine, error=str(exc))
            await self.clock.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _once(self) -> AsyncGenerator[list[ContainerId], None]:
        body = to_bytes({"position": self.position})
        async with aclosing(self.connection.frames("watch", body)) as bundles:
            async for frames in bundles:
                for frame in frames:
                    with self.connection.failing_in_words("watch"):
                        container_ids = self._containers_of(frame)
                    yield container_ids

    def _containers_of(self, frame: Frame) -> list[ContainerId]:
        if frame.kind is FrameKind.LOOK_AGAIN:
            self.position = decode(HintPosition, parse(frame.payload), ANSWERS)
            return sorted(self.known.containers)
        if frame.kind is not FrameKind.HINT:
            return []
        hint: Hint = decode(Hint, parse(frame.payload), ANSWERS)
        if self.position is None or hint.sequence != self.position.sequence + 1:
            raise WireError("its hints are not counted one by one")
        self.position = HintPosition(self.position.epoch, hint.sequence)
        return [hint.container_id] if hint.container_id in self.known.containers else []
