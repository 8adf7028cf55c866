"""Whether this machine keeps containers apart: looked at often, told to whoever asks, and in the way of new starts."""

import asyncio
import math
from dataclasses import replace

from moorage.engines.docker.connection import DockerConnection
from moorage.engines.docker.firewall import LocalUse
from moorage.engines.docker.network import BridgeNetwork, NetworkIsolation
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError
from moorage.outbound.pulls.proxy import PullProxy

_LONGEST_UNPREPARED_S = 60.0
"""The controller prepares every 15 s; what is older than this is no news of the network."""


class Isolation:
    def __init__(
        self,
        network: BridgeNetwork,
        clock: Clock,
        local_use: LocalUse | None,
        pulls: PullProxy | None,
        *,
        required: bool,
        mail_closed: bool = False,
    ) -> None:
        self.found = NetworkIsolation(isolated=False, reason="the network has not been prepared yet")
        self._network = network
        self._clock = clock
        self._local_use = local_use
        self._pulls = pulls
        self._required = required
        self._mail_closed = mail_closed
        self._prepared_at_s = -math.inf
        self._one_at_a_time = asyncio.Lock()

    async def prepare(self, connection: DockerConnection) -> None:
        try:
            self.found = await self._network.prepare(
                connection, self._present_use(), mail_closed=self._mail_closed
            )
        except EngineError as exc:
            self.found = NetworkIsolation(isolated=False, reason=exc.message)
            raise
        self._prepared_at_s = self._clock.monotonic()

    async def is_closed(self, connection: DockerConnection) -> bool:
        """Whether nothing new may start, by what is known or, where that is old, by another look."""
        async with self._one_at_a_time:
            if self._clock.monotonic() - self._prepared_at_s > _LONGEST_UNPREPARED_S:
                await self.prepare(connection)
        return self.closed_because is not None

    def _present_use(self) -> LocalUse | None:
        """With the port that the proxy for pulls was given when it began to listen."""
        if self._local_use is None or self._pulls is None:
            return self._local_use
        return replace(self._local_use, pulls_port=self._pulls.port)

    @property
    def closed_because(self) -> str | None:
        return self.found.reason if self._required else None

    @property
    def weaknesses(self) -> tuple[str, ...]:
        waived = self.found.reason if not self._required else None
        accepted = (f"not from each other's network ({waived})",) if waived is not None else ()
        return (*accepted, *self.found.weaknesses)
