"""One health check of one replica, from where the gateway will reach it."""

import asyncio

import aiohttp

from moorage.containers.verdict import Probe, ProbeFailure

PROBE_TIMEOUT_S = 5.0
_CLOSED_AT_ONCE_S = 0.1
_REFUSED_PAUSE_S = 0.005


async def probe_replica(
    session: aiohttp.ClientSession,
    host: str,
    port: int,
    path: str | None,
    *,
    patience_s: float = 0.0,
    timeout_s: float = PROBE_TIMEOUT_S,
) -> Probe:
    """Ready when the health path answers 200; without a path, when the port accepts a connection. With
    patience, a port at which nobody listens yet is asked again."""
    for _ in range(int(patience_s / _REFUSED_PAUSE_S)):
        probe = await _probe_once(session, host, port, path, timeout_s)
        if probe.failure is not ProbeFailure.REFUSED:
            return probe
        await asyncio.sleep(_REFUSED_PAUSE_S)
    return await _probe_once(session, host, port, path, timeout_s)


async def _probe_once(
    session: aiohttp.ClientSession, host: str, port: int, path: str | None, timeout_s: float
) -> Probe:
    try:
        async with asyncio.timeout(timeout_s):
            if path is None:
                return await _accepts_connection(host, port)
            async with session.get(f"http://{host}:{port}{path}", allow_redirects=False) as response:
                passed = response.status == 200
                return Probe(None if passed else ProbeFailure.STATUS, response.status)
    except TimeoutError:
        return Probe(ProbeFailure.TIMEOUT, waited_s=timeout_s)
    except (OSError, aiohttp.ClientError):
        return Probe(ProbeFailure.REFUSED)


async def _accepts_connection(host: str, port: int) -> Probe:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        # Docker's port proxy accepts for a container that does not listen, and then closes at once.
        async with asyncio.timeout(_CLOSED_AT_ONCE_S):
            await reader.read(1)
        return Probe(ProbeFailure.REFUSED) if reader.at_eof() else Probe(None)
    except TimeoutError:
        return Probe(None)
    finally:
        writer.close()
