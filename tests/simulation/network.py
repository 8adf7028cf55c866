"""Ports of replicas: whoever listens takes the connection, says nothing, and hears nothing. Others are somebody's who
receives (`receivers.py`)."""

import asyncio
from collections.abc import Callable
from typing import Any

from moorage.tunnel.addresses import NODE_PORT
from tests.simulation.loop import SimulationLoop
from tests.simulation.machine import Machine
from tests.simulation.receivers import HOOKS_PORT, SMTP_PORT, Receivers

_SILENCE_S = 130.0
"""For so long the kernel tries to reach a machine that says nothing."""


class _SilentTransport(asyncio.Transport):
    def __init__(self, loop: SimulationLoop, protocol: Any) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._closing = False

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: Any) -> None:
        pass

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def connector(
    loop: SimulationLoop, machines: Callable[[], list[Machine]], receivers: Receivers
) -> Callable[[Callable[[], asyncio.BaseProtocol], Any, Any], Any]:
    async def connect(
        protocol_factory: Callable[[], asyncio.BaseProtocol], host: Any, port: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if port in (SMTP_PORT, HOOKS_PORT):
            return receivers.connect(protocol_factory, port)  # type: ignore[no-any-return]
        machine = next((one for one in machines() if one.address == host), None)
        if machine is None or not machine.reachable:
            await asyncio.sleep(_SILENCE_S)
            raise TimeoutError(f"{host} is silent")
        if port != NODE_PORT and machine.answers_at(port) is None:
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        protocol = protocol_factory()
        transport = _SilentTransport(loop, protocol)
        protocol.connection_made(transport)
        return transport, protocol

    return connect
