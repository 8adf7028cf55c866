"""Machines that join, are cut off, lose their power, come back, are drained, and leave; and what the operator says about them."""

import asyncio
import base64
from dataclasses import dataclass, field
from typing import Any

from moorage.identity.tokens import new_token
from moorage.machines.tokens import CREDENTIAL_PREFIX, MACHINE_PREFIX
from tests.simulation.actors import Act
from tests.simulation.invariants import Invariants
from tests.simulation.machine import Machine
from tests.simulation.passing import LOOK_EVERY_S
from tests.simulation.world import GATEWAY, Answer, ProcessClock, World

_MOST = 3
"""At once, besides Moorage's own."""
_GIB = 2**30
_COMES_BACK_FOR_S = 240.0
"""So long what a machine brings back may run there beside what took its place."""
_NOTICED_AFTER_S = 90.0
_HUB = f"""
INSERT INTO tunnel_hubs (id, address, public_key, endpoint, seen_at)
VALUES ('{GATEWAY}', '10.99.0.1', 'k', '192.0.2.1:51820', '9000-01-01') ON CONFLICT DO NOTHING
"""


@dataclass
class Member:
    """A machine that joined, and what it and the operator know."""

    id: str
    secret: str
    machine: Machine
    said: str | None = "active"
    """What the operator said last and was acknowledged; None: nobody knows whether it was heard."""


@dataclass
class FleetActs:
    world: World
    invariants: Invariants
    members: list[Member] = field(default_factory=list)
    made: int = 0

    def acts(self) -> list[tuple[int, str, Act]]:
        return [
            (3, "a machine joins", self.join),
            (5, "a machine loses its power", self.lose_power),
            (3, "a machine is cut off", self.cut_off),
            (3, "a machine is cut off from the controller", self.cut_off_from_the_controller),
            (7, "a machine comes back", self.come_back),
            (2, "a machine flickers", self.flicker),
            (3, "drain a machine", self.drain),
            (2, "pause a machine", self.pause),
            (4, "resume a machine", self.resume),
            (2, "remove a machine", self.remove),
            (1, "a machine leaves", self.leave),
            (1, "a machine renews its key", self.renew_key),
        ]

    async def gather(self) -> None:
        """Two machines beside our own, which has no room for all."""
        self.world.machine.gpus = ()
        for _ in range(2):
            await self.join_first()

    async def join_first(self) -> None:
        """Where nobody has joined before."""
        self.world.query(_HUB)
        await self.join()

    async def join(self) -> None:
        world = self.world
        if len(self.members) >= _MOST:
            return
        self.made += 1
        name = f"rack-{self.made}"
        added = await self._say("POST", "/operator/machines", {"name": name})
        if added.status != 201:
            return
        secret = new_token(MACHINE_PREFIX)
        wish = {
            "token": added.body["token"],
            "hostname": name,
            "public_key": _public_key(self.made),
            "credential": new_token(CREDENTIAL_PREFIX),
            "secret": secret,
            "facts": _FACTS,
        }
        for _ in range(10):  # The script tries again.
            answer = await world.ask({}, "POST", "/machines/join", wish)
            if answer.status == 200:
                break
            await asyncio.sleep(5)
        else:
            return
        machine = Machine(ProcessClock(world.loop), name, answer.body["address"])
        machine.cpu_millis, machine.memory_bytes = 16_000, 64 * _GIB
        former = {one.address for one in world.former}
        assert machine.address not in former, "an address is given again before it has rested for days"
        world.joined[machine.address] = machine
        self.members.append(Member(added.body["id"], secret, machine))
        world.story.tell("machine", f"{name} joins at {machine.address}")
        world.story.count("machine joined")

    async def lose_power(self) -> None:
        if (member := self._some(lambda one: not one.machine.is_off)) is not None:
            self._tell(member, "loses its power")
            self.world.story.count("machine lost its power")
            member.machine.power_off()
            await self._wait_until_seen()

    async def cut_off(self) -> None:
        """Nobody reaches it, and what it has runs on."""
        if (member := self._some(lambda one: one.machine.reachable)) is not None:
            self._tell(member, "is cut off")
            self.world.story.count("machine cut off")
            member.machine.is_dark = True
            member.machine.cut_off()
            await self._wait_until_seen()

    async def cut_off_from_the_controller(self) -> None:
        """Gateways reach it: what it has serves on."""
        if (member := self._some(lambda one: one.machine.reachable)) is not None:
            self._tell(member, "is cut off from the controller")
            self.world.story.count("machine cut off from the controller")
            member.machine.cut_off()
            await self._wait_until_seen()

    async def come_back(self) -> None:
        if (member := self._some(lambda one: not one.machine.reachable)) is not None:
            self._come_back(member)

    async def flicker(self) -> None:
        """Away for less than it takes to be lost, or for a little more."""
        if (member := self._some(lambda one: one.machine.reachable)) is not None:
            away_s = self.world.acting.choice((3.0, 15.0, 19.0, 22.0, 40.0))
            self._tell(member, f"is away for {away_s:.0f} s")
            member.machine.is_dark = self.world.acting.random() < 0.7
            member.machine.cut_off()
            await asyncio.sleep(away_s)
            if not member.machine.is_off:
                self._come_back(member)

    async def drain(self) -> None:
        await self._wish("drain", "draining")

    async def pause(self) -> None:
        await self._wish("pause", "paused")

    async def resume(self) -> None:
        await self._wish("resume", "active")

    async def remove(self) -> None:
        """By force where it has to be, sometimes."""
        forced, member = self.world.acting.random() < 0.5, self._some()
        if member is not None:
            answer = await self._say("DELETE", f"/machines/{member.id}?force={str(forced).lower()}")
            self._perhaps_gone(member, answer, "machine removed")

    async def leave(self) -> None:
        if (member := self._some(lambda one: one.machine.reachable)) is not None:
            answer = await self._as_machine(member, "POST", "leave")
            self._perhaps_gone(member, answer, "machine left")

    async def renew_key(self) -> None:
        if (member := self._some(lambda one: one.machine.reachable)) is not None:
            self.made += 1
            await self._as_machine(member, "PUT", "key", {"public_key": _public_key(self.made)})

    async def all_come_back(self) -> None:
        """Nobody doubts any longer what was heard, and every machine that there is answers."""
        for member in list(self.members):
            if not member.machine.reachable:
                self._come_back(member)
            answer = await self._say("GET", f"/machines/{member.id}")
            assert answer.status == 200, "no faults any more"
            if answer.body["state"] == "removed":
                self._give_up(member)

    async def part(self) -> None:
        """All is deleted: nothing keeps them here."""
        for member in list(self.members):
            answer = await self._say("DELETE", f"/machines/{member.id}?force=true")
            assert answer.status == 204, f"a machine that nobody uses cannot be removed: {answer}"
            self._give_up(member)
        for one in (await self._say("GET", "/operator/machines?limit=100")).body["items"]:
            if one["state"] != "removed":
                await self._say("DELETE", f"/machines/{one['id']}")

    async def _wish(self, verb: str, wish: str) -> None:
        if (member := self._some()) is not None:
            answer = await self._say("POST", f"/machines/{member.id}/{verb}")
            if answer.status == 200:
                member.said = wish if answer.alone else None
                self.world.story.count(f"machine {wish}")
            elif answer.status is None or answer.status >= 500:
                member.said = None

    def _come_back(self, member: Member) -> None:
        self._tell(member, "comes back")
        self.world.story.count("machine came back")
        for one in member.machine.replicas.values():
            self.invariants.late[one.spec.replica_id] = _COMES_BACK_FOR_S
        member.machine.power_on()

    def _perhaps_gone(self, member: Member, answer: Answer, count: str) -> None:
        if answer.status == 204:
            self.world.story.count(count)
            self._give_up(member)
        elif answer.status is None or answer.status >= 500:
            member.said = None

    def _give_up(self, member: Member) -> None:
        """The node role there hears of it, and ends what it has."""
        if member in self.members:
            self._tell(member, "is none of ours any more")
            self.members.remove(member)
            del self.world.joined[member.machine.address]
            member.machine.given_up_at_s = self.world.now_s()
            self.world.former.append(member.machine)
            member.machine.wipe()

    def _some(self, which: Any = lambda member: True) -> Member | None:
        """Drawn also where nobody is there, so that an event stays the same."""
        number, there = self.world.acting.randrange(1000), [one for one in self.members if which(one)]
        return there[number % len(there)] if there else None

    async def _say(self, method: str, path: str, body: Any = None) -> Answer:
        answer = await self.world.ask(self.world.operator, method, path, body)
        self.world.story.tell("operator", f"{method} {path} -> {answer.status}")
        self._note_crash(answer, f"{method} {path}")
        return answer

    async def _as_machine(self, member: Member, method: str, verb: str, body: Any = None) -> Answer:
        path = f"/machines/{member.id}/{verb}"
        answer = await self.world.ask({"Authorization": f"Bearer {member.secret}"}, method, path, body)
        self.world.story.tell(member.machine.name, f"{method} {verb} -> {answer.status}")
        self._note_crash(answer, f"{method} {path}")
        return answer

    def _note_crash(self, answer: Answer, what: str) -> None:
        if answer.status == 500:
            self.world.crashes.append(f"{what}: {answer.body}")

    async def _wait_until_seen(self) -> None:
        """No time is skipped meanwhile, because somebody has to look."""
        until_s = self.world.now_s() + _NOTICED_AFTER_S
        while self.world.now_s() < until_s:
            await asyncio.sleep(LOOK_EVERY_S)
            self.world.collect_logs()

    def _tell(self, member: Member, what: str) -> None:
        self.world.story.tell("machine", f"{member.machine.name} {what}")


def _public_key(number: int) -> str:
    return base64.b64encode(number.to_bytes(32, "big")).decode()


_FACTS = {
    "architecture": "x86_64",
    "kernel": "6.1",
    "system": "Debian 12",
    "cpus": 16,
    "memory_bytes": 64 * _GIB,
    "disk_free_bytes": 100 * _GIB,
}
