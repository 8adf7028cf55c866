"""How often a replica is asked at whose port nobody listens yet."""

import asyncio

import pytest

from moorage.containers.reconciler.probe import pause_after_refusal_s
from moorage.containers.reconciler.prober import ASK_THE_YOUNG_FOR_S, YOUNG, Prober, probe_replica
from moorage.containers.verdict import ProbeFailure

BEFORE = 0.005
"""Seconds between two questions, however old it was."""


def questions_until(age_s: float) -> list[float]:
    asked_at_s = [0.0]
    while asked_at_s[-1] < age_s:
        asked_at_s.append(asked_at_s[-1] + pause_after_refusal_s(asked_at_s[-1]))
    return asked_at_s


def test_the_older_it_is_the_more_seldom_it_is_asked() -> None:
    young_s = YOUNG.total_seconds()
    assert len(questions_until(young_s)) < 0.15 * young_s / BEFORE


@pytest.mark.parametrize("up_after_s", [0.05, 0.1, 0.2, 0.4, 0.8])
def test_a_server_that_is_up_is_found_in_a_moment(up_after_s: float) -> None:
    """On average half a pause later, which is a thirty-second of the time that it took by itself."""
    found_at_s = next(at_s for at_s in questions_until(2 * up_after_s) if at_s >= up_after_s)
    assert found_at_s - up_after_s <= max(BEFORE, up_after_s / 15)


@pytest.mark.parametrize(("age_s", "most"), [(0.0, 45), (2.0, 3)])
async def test_one_pass_asks_so_often_and_no_longer(age_s: float, most: int) -> None:
    """What accepts and closes at once is nobody either: Docker's own proxy does so."""
    asked = 0

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    prober = Prober(lambda _: None)
    try:
        async with server:
            port = server.sockets[0].getsockname()[1]
            probe = await probe_replica(
                prober._http_session(), "127.0.0.1", port, None, patience_s=ASK_THE_YOUNG_FOR_S, age_s=age_s
            )
    finally:
        await prober.close()
    assert probe.failure is ProbeFailure.REFUSED
    assert 1 <= asked <= most


async def test_a_server_that_begins_to_listen_is_found_within_the_same_pass() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    first = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = first.sockets[0].getsockname()[1]
    first.close()
    await first.wait_closed()
    prober = Prober(lambda _: None)
    try:
        probing = asyncio.create_task(
            probe_replica(prober._http_session(), "127.0.0.1", port, "/health", patience_s=20.0)
        )
        await asyncio.sleep(0)
        async with await asyncio.start_server(answer, "127.0.0.1", port):
            probe = await probing
    finally:
        await prober.close()
    assert (probe.failure, probe.status) == (None, 200)
