"""Machines that are lost together: one mail, once the minute after the first loss is over."""

import asyncio
from dataclasses import dataclass, field

import pytest
from api_support import KEYRING, Api
from api_support import api_fixture as api_fixture

from moorage.kit.clock import SystemClock, system_clock
from moorage.machines.reconciler import LOOK_EVERY_S, LOST_AFTER_S, MachinesReconciler
from moorage.reconcile.lease import Lease, LeaseKeeper
from tests.ports import free_port


class LaterClock(SystemClock):
    later_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later_s


@dataclass
class Watch:
    """The reconciler, driven by hand on a clock that the test moves."""

    api: Api
    lease: Lease
    clock: LaterClock = field(default_factory=LaterClock)

    def __post_init__(self) -> None:
        self.reconciler = self._new()

    def _new(self) -> MachinesReconciler:
        return MachinesReconciler(self.api.database, KEYRING, self.api.settings, self.clock)

    def start_again(self) -> None:
        self.reconciler = self._new()

    async def look(self) -> list[str]:
        keys = (await self.reconciler.due(100)).keys
        for key in keys:
            await self.reconciler.reconcile(key, self.lease)
        return list(keys)

    async def look_until_lost(self) -> None:
        await self.look()
        self.clock.later_s += LOST_AFTER_S + LOOK_EVERY_S
        await self.look()

    async def subjects(self) -> list[str]:
        return [mail["subject"] for mail in await self.api.mails()]

    async def minute_passes(self) -> None:
        await self.api.execute("UPDATE machines SET untold_since = untold_since - interval '60 seconds'")
        self.clock.later_s += LOOK_EVERY_S

    async def states(self) -> set[str]:
        return {row[0] for row in await self.api.rows("SELECT state FROM machines")}


@pytest.fixture
async def watch(api: Api) -> Watch:
    await api.new_hub()
    lease = await LeaseKeeper(api.database, "machines", "test", system_clock).acquire()
    assert lease is not None
    return Watch(api, lease)


async def machines(api: Api, count: int, port: int) -> None:
    """Nobody listens at that port."""
    for number in range(count):
        await api.new_machine(name=f"rack-{number}", address=f"127.0.9.{number + 1}", port=port)


async def test_one_that_comes_and_goes_is_told_of_once_an_hour(watch: Watch) -> None:
    port = free_port()
    await machines(watch.api, 1, port)
    for _ in range(6):
        await watch.look_until_lost()
        await watch.minute_passes()
        await watch.look()
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.9.1", port)
        watch.clock.later_s += LOOK_EVERY_S
        await watch.look()
        assert await watch.states() == {"active"}
        await watch.minute_passes()
        await watch.look()
        server.close()
        await server.wait_closed()
        watch.clock.later_s += LOOK_EVERY_S
    assert len(await watch.subjects()) == 6, "of three losses and three returns"
    await watch.api.execute("UPDATE machines SET untold_since = untold_since - interval '1 hour'")
    watch.clock.later_s += LOOK_EVERY_S
    await watch.look()
    assert len(await watch.subjects()) == 7
    # Another's loss is told of at once, and this one with it.
    await watch.look_until_lost()
    await watch.api.new_machine(name="rack-9", address="127.0.9.9", port=port)
    await watch.look_until_lost()
    await watch.minute_passes()
    await watch.look()
    assert (await watch.subjects())[0] == "2 machines do not answer"


async def test_ten_that_are_lost_together_are_one_mail(watch: Watch) -> None:
    await machines(watch.api, 10, free_port())
    await watch.look_until_lost()
    assert await watch.states() == {"lost"}
    assert await watch.subjects() == [], "there may be more of them within the minute"
    watch.clock.later_s += LOOK_EVERY_S
    assert len(await watch.look()) == 10, "each machine is looked at, and nobody is told yet"
    await watch.minute_passes()
    # Another controller takes over: what is untold is in the rows.
    watch.start_again()
    await watch.look()
    assert await watch.subjects() == ["10 machines do not answer"]
    [mail] = await watch.api.mails()
    assert all(f"    rack-{number}, since " in mail["text"] for number in range(10))
    assert mail["to"] == watch.api.settings.operator_email
    await watch.minute_passes()
    await watch.look()
    assert len(await watch.subjects()) == 1, "said once"


async def test_a_mail_that_could_not_be_written_waits_for_the_next_look(watch: Watch) -> None:
    await machines(watch.api, 1, free_port())
    await watch.look_until_lost()
    await watch.minute_passes()
    [tell] = set((await watch.reconciler.due(100)).keys) - {
        row[0] for row in await watch.api.rows("SELECT id FROM machines")
    }
    await watch.reconciler.postpone(tell, RuntimeError("no key"), watch.lease)
    assert tell not in (await watch.reconciler.due(100)).keys
    watch.clock.later_s += LOOK_EVERY_S
    await watch.look()
    assert await watch.subjects() == ["The machine rack-0 does not answer"]


async def test_one_that_was_lost_for_a_moment_is_told_of_too(watch: Watch) -> None:
    await machines(watch.api, 1, free_port())
    await watch.look_until_lost()
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.9.1", 0) as node_role:
        port = node_role.sockets[0].getsockname()[1]
        await watch.api.execute("UPDATE machines SET port = :port", port=port)
        watch.clock.later_s += LOOK_EVERY_S
        await watch.look()
    assert await watch.states() == {"active"}
    assert await watch.subjects() == []
    await watch.minute_passes()
    await watch.look()
    assert await watch.subjects() == ["The machine rack-0 answers again"]


async def test_what_the_operator_does_is_told_at_once_and_the_loss_after_it(watch: Watch) -> None:
    await machines(watch.api, 2, free_port())
    await watch.look_until_lost()
    [(removed,), (paused,)] = await watch.api.rows("SELECT id FROM machines ORDER BY name")
    removal = await watch.api.ask(watch.api.operator, "DELETE", f"/api/v1/machines/{removed}")
    assert removal.status_code == 204
    answer = await watch.api.post(watch.api.operator, f"/machines/{paused}/pause")
    assert (answer.json()["state"], answer.json()["returns_as"]) == ("lost", "paused")
    assert await watch.subjects() == ["The machine rack-0 was removed"]
    await watch.minute_passes()
    await watch.look()
    assert sorted(await watch.subjects()) == [
        "The machine rack-0 was removed",
        "The machine rack-1 does not answer",
    ], "of the one that was removed nothing more is said"
