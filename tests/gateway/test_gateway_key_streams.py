"""A key that is revoked or expires ends what runs with it, and nothing else."""

import asyncio
from contextlib import AsyncExitStack
from datetime import datetime, timedelta

import aiohttp
import pytest
from gateway_support import Container, Key, Place, eventually, new_key, table

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import Route, TrafficLimits
from moorage.kit import ids
from moorage.kit.clock import SystemClock

PROJECT = ids.new_project_id()
CONTAINER = ids.new_container_id()
_FIRST = b"data: first\n\n"


def patient_route(container: Container) -> Route:
    """With a time limit that no stream of these tests comes near: what ends, ends because of its key."""
    return Route(CONTAINER, PROJECT, (container.server(),), limits=TrafficLimits(request_timeout_s=300))


class Stream:
    """One that has begun."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def rest(self) -> bytes | None:
        """None where it was cut off."""
        try:
            async with asyncio.timeout(10):
                return await self._response.content.read()
        except aiohttp.ClientPayloadError:
            return None


async def opened(stack: AsyncExitStack, client: aiohttp.ClientSession, key: Key) -> Stream:
    response = await stack.enter_async_context(
        client.get(f"/c/{CONTAINER}/stream", headers=key.headers, timeout=aiohttp.ClientTimeout(total=60))
    )
    assert response.status == 200
    assert await response.content.readexactly(len(_FIRST)) == _FIRST
    return Stream(response)


async def test_revoking_a_key_ends_its_streams_alone(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    revoked, kept = new_key(PROJECT), new_key(PROJECT)
    routes = [patient_route(container)]
    await gateway.apply(table(routes, [revoked, kept]))
    async with AsyncExitStack() as stack:
        theirs = [await opened(stack, client, revoked) for _ in range(5)]
        others = [await opened(stack, client, kept) for _ in range(5)]
        # A keep-alive connection that carried the one key's requests before carries the other's now.
        async with client.get(f"/c/{CONTAINER}/v1", headers=revoked.headers) as answer:
            await answer.read()
        others.append(await opened(stack, client, kept))
        await gateway.apply(table(routes, [kept]))
        assert [await stream.rest() for stream in theirs] == [None] * 5
        await eventually(lambda: container.waiting == 6)
        container.release.set()
        assert [await stream.rest() for stream in others] == [b"data: second\n\n"] * 6
        async with client.get(f"/c/{CONTAINER}/v1", headers=revoked.headers) as answer:
            assert answer.status == 401


async def test_in_a_worker_that_a_reload_replaced_too(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    revoked, kept = new_key(PROJECT), new_key(PROJECT)
    routes = [patient_route(container)]
    await gateway.apply(table(routes, [revoked, kept]))
    async with AsyncExitStack() as stack:
        theirs, others = await opened(stack, client, revoked), await opened(stack, client, kept)
        await gateway.process.reload()
        await gateway.apply(table(routes, [revoked, kept]))
        assert (await gateway.process.master.workers()).old_pids
        await gateway.apply(table(routes, [kept]))
        assert await theirs.rest() is None
        container.release.set()
        assert await others.rest() == b"data: second\n\n"


class SkippingClock(SystemClock):
    skipped_s = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.skipped_s)

    def monotonic(self) -> float:
        return super().monotonic() + self.skipped_s


async def test_an_expired_key_and_one_that_went_while_the_agent_was_away(
    gateway: DataPlane, place: Place, container: Container, client: aiohttp.ClientSession
) -> None:
    clock = SkippingClock()
    expiring = new_key(PROJECT, expires_at_epoch_s=int(clock.now().timestamp()) + 600)
    gone, kept = new_key(PROJECT), new_key(PROJECT)
    routes = [patient_route(container)]
    await gateway.apply(table(routes, [expiring, gone, kept]))
    async with AsyncExitStack() as stack:
        first, second = await opened(stack, client, expiring), await opened(stack, client, gone)
        third = await opened(stack, client, kept)
        successor = DataPlane(place.config, place.home, place.run_dir, initial_slots=8, clock=clock)
        await successor.start()
        wanted = table(routes, [expiring, kept])
        await successor.apply(wanted)
        assert await second.rest() is None
        await eventually(lambda: container.waiting == 2)
        clock.skipped_s = 601.0
        await successor.apply(wanted)
        assert await first.rest() is None
        container.release.set()
        assert await third.rest() == b"data: second\n\n"


@pytest.mark.long
async def test_one_after_the_other(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    """To end requests makes HAProxy tell of all its sessions, so it is done now and then, and nobody is forgotten."""
    keys = [new_key(PROJECT) for _ in range(3)]
    routes = [patient_route(container)]
    await gateway.apply(table(routes, keys))
    async with AsyncExitStack() as stack:
        first, second, third = [await opened(stack, client, key) for key in keys]
        await gateway.apply(table(routes, keys[1:]))
        assert await first.rest() is None
        await eventually(lambda: container.waiting == 2)
        wanted = table(routes, keys[2:])

        async def ended() -> bool:
            await gateway.apply(wanted)
            return container.waiting == 1

        await eventually(ended)
        assert await second.rest() is None
        container.release.set()
        assert await third.rest() == b"data: second\n\n"
