"""Rounds of stopped leaders: a seed chooses the moment, what users do meanwhile, and whether Postgres restarts as well."""

import asyncio
import os
import random
import signal
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import asyncpg
from leaders_engine import Call, When
from leaders_support import LEASES, Cluster, Controller, eventually

from moorage.containers.channels import CONTAINERS
from moorage.kit.clock import system_clock
from moorage.kit.postgres import EmbeddedPostgres

TAKEOVER_S = 20.0
"""What is promised."""
RECOVERY_S = 30.0
MOMENTS: tuple[str, ...] = (
    "in a transaction",
    "look after",
    "create after",
    "at any time",
    "stop before",
    "look before",
    "remove after",
    "create before",
    "in a transaction",
    "start after",
    "stop after",
    "at any time",
    "start before",
    "remove before",
)
How = Literal["stopped", "killed"]


@dataclass
class Rounds:
    cluster: Cluster
    chance: random.Random
    server: EmbeddedPostgres

    async def play(self, count: int) -> None:
        for number in range(count):
            how: How = "killed" if number % 4 == 3 else "stopped"
            # The first rounds meet every kind; which moment comes with which restart is the seed's choice.
            restart = (None, signal.SIGQUIT, None, signal.SIGINT)[(number + self.chance.randrange(2)) % 4]
            await self.round(MOMENTS[number % len(MOMENTS)], how, restart)

    async def round(self, moment: str, how: How, restart: signal.Signals | None) -> None:
        cluster = self.cluster
        leader = await self._only_leader()
        container_id = await self._something_to_do(moment)
        since = await self._strike(leader, moment, how)
        cluster.figures.happened.update([f"{how} {moment}"])
        if self.chance.random() < 0.7:
            await self._change_mind(container_id)
        if restart is not None and self.chance.random() < 0.5:
            await self._restart(restart)
            restart = None
        new = await cluster.until_taken_over(leader, since, TAKEOVER_S)
        if how == "killed":
            await cluster.start_controller(leader.role)
        await cluster.until_as_wanted()
        if how == "stopped":
            await self._let_go_on(leader)
        if restart is not None:
            await self._restart(restart)
        assert await cluster.leader() in (new, None) or restart is not None, "whoever came back leads nothing"
        await self._tidy_up()
        assert await cluster.troubles() == []

    async def _only_leader(self) -> Controller:
        """With everything that is asked for done, and all leases in one hand."""
        cluster = self.cluster
        await cluster.until_as_wanted()
        leader = await eventually(cluster.leader, "somebody leads", system_clock.monotonic() + TAKEOVER_S)
        assert leader is not None
        for other in cluster.controllers:
            if other is not leader and not await cluster.leads_everything(leader):
                # Both began at the same time, and each got some.
                other.kill()
                await eventually(
                    lambda: cluster.leads_everything(leader),
                    "one leads",
                    system_clock.monotonic() + TAKEOVER_S,
                )
                await cluster.start_controller(other.role)
        return leader

    async def _something_to_do(self, moment: str) -> str:
        """So that the moment comes."""
        cluster = self.cluster
        if moment.startswith(("stop", "remove")):
            container_id = await cluster.deploy()
            await cluster.until_as_wanted()
            await cluster.change(container_id, "STOPPED")
        else:
            container_id = await cluster.deploy(replicas=self.chance.choice((1, 2)))
        return container_id

    async def _strike(self, leader: Controller, moment: str, how: How) -> datetime:
        strike = leader.stop if how == "stopped" else leader.kill
        if moment == "at any time":
            await asyncio.sleep(self.chance.uniform(0, 1.0))
            strike()
        elif moment == "in a transaction":
            await self._strike_in_a_transaction(leader, how)
        else:
            what, when = moment.split()
            await self._strike_at_call(leader, what, when, how)
        return system_clock.now()

    async def _strike_in_a_transaction(self, leader: Controller, how: How) -> None:
        """A pass has its guard and waits for the row of its container, which is ours; it gets the row once it stands."""
        cluster = self.cluster
        container_id = next(one for one, wanted in reversed(cluster.wanted.items()) if wanted == "RUNNING")
        mine = await asyncpg.connect(cluster.dsn)
        try:
            async with mine.transaction():
                await mine.execute("SELECT FROM containers WHERE id = $1 FOR UPDATE", container_id)
                await cluster.ask("SELECT pg_notify($1, $2)", CONTAINERS, container_id)
                await self._until_seen(leader, "wait_event_type = 'Lock'")
                leader.stop()
        finally:
            await mine.close()
        await self._until_seen(leader, "state = 'idle in transaction'")
        if how == "killed":
            leader.kill()

    async def _until_seen(self, leader: Controller, condition: str) -> None:
        sql = f"SELECT 1 FROM pg_stat_activity WHERE usename = $1 AND {condition}"
        deadline_s = system_clock.monotonic() + 20
        await eventually(lambda: self.cluster.ask(sql, leader.role), condition, deadline_s)

    async def _strike_at_call(self, leader: Controller, what: str, when: str, how: How) -> None:
        engine, struck = self.cluster.engine, asyncio.Event()
        usual = engine.on_call

        async def strike(call: Call, now: When) -> None:
            await usual(call, now)
            if not struck.is_set() and (call.pid, call.what, now) == (leader.pid, what, when):
                leader.stop()  # In any case: from here on it does nothing more.
                if how == "killed":
                    leader.kill()
                struck.set()

        engine.on_call = strike
        try:
            async with asyncio.timeout(30):
                await struck.wait()
        finally:
            engine.on_call = usual

    async def _change_mind(self, container_id: str) -> None:
        await self.cluster.change(container_id, self.chance.choice(("gone", "STOPPED")))
        await self.cluster.deploy()

    async def _let_go_on(self, old: Controller) -> None:
        """It finds out by itself that it was overtaken, and until then does nothing."""
        lost, calls = old.leases_lost(), len(self.cluster.engine.calls)
        old.go_on()

        async def knows() -> bool:
            return old.leases_lost() - lost >= LEASES

        deadline_s = system_clock.monotonic() + TAKEOVER_S
        await eventually(knows, f"{old.role} knows that it leads nothing", deadline_s, old.last_words)
        by_it = [call for call in self.cluster.engine.calls[calls:] if call.pid == old.pid]
        assert by_it == [], "a former leader called the engine"

    async def _restart(self, how: signal.Signals) -> None:
        """As `pg_ctl restart` does it: `fast` by SIGINT, `immediate` by SIGQUIT, in the middle of something."""
        cluster, began_s = self.cluster, system_clock.monotonic()
        container_id = await cluster.deploy()
        await asyncio.sleep(self.chance.uniform(0, 0.3))
        pid = self.server.running_pid()
        assert pid is not None
        os.kill(pid, how)
        await eventually(self._is_down, "Postgres is down", began_s + 20)
        await self.server.start()
        cluster.figures.happened.update(
            [f"Postgres restarted ({'fast' if how is signal.SIGINT else 'immediate'})"]
        )
        if not any(one.stopped for one in cluster.controllers):
            await eventually(
                lambda: self._runs(container_id), "a deployment after the restart", began_s + RECOVERY_S
            )
            cluster.figures.recoveries_s.append(system_clock.monotonic() - began_s)

    async def _is_down(self) -> bool:
        return self.server.running_pid() is None

    async def _runs(self, container_id: str) -> bool:
        return (await self.cluster.world.container(container_id)).state == "RUNNING"

    async def _tidy_up(self) -> None:
        cluster = self.cluster
        await cluster.until_as_wanted()
        kept = 2
        cluster.wanted = {one: wanted for one, wanted in cluster.wanted.items() if wanted != "gone"}
        for container_id in list(cluster.wanted)[:-kept]:
            await cluster.change(container_id, "gone")
