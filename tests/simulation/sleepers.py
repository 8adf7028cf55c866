"""Containers that sleep while nobody asks anything of them, and everybody who does: clients with a key and without, alone and in
crowds, at the moment in which it falls asleep or wakes, while something dies or somebody stops, changes or deletes it."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from moorage.containers.doubt import SUSPICIOUS_FROM
from tests.simulation.actors import Act, BadDay, Users
from tests.simulation.endpoint import Asked, Endpoint
from tests.simulation.fleet import FleetActs
from tests.simulation.machine import IMAGES
from tests.simulation.parts import SLEEP_DUE
from tests.simulation.team import Key
from tests.simulation.world import Organization, World

_TYPE = "cpu-nano"
_PRICE, _TOO_DEAR = 5_000, 200_000_000
_CREDIT_MICROUSD = 60_000_000
_MOST = 3
_IDLE_S = (60, 60, 120)
_IMAGES = (*("local/chat:latest",) * 5, "local/slow:latest", "local/stubborn:latest")
_MOMENTS_S = (0.0, 0.01, 0.1, 0.5, 2.0, 8.0)
_DOUBTED = SUSPICIOUS_FROM
_LOOKS, _BETWEEN_LOOKS_S = 20, 2.0
_PATIENCE_S = (0.05, 1.0, 5.0, 20.0)
_WHILE_LOOKED_AT_S = (0.0, 0.002, 0.005, 0.01, 0.02, 0.04, 0.1, 0.3)
_NO_KEY = "mrg_" + "x" * 40
_ASLEEP = "SELECT id FROM containers WHERE asleep_since IS NOT NULL AND deleted_at IS NULL ORDER BY id"
_WELL = """SELECT c.id FROM containers c WHERE c.desired_state = 'running' AND c.state = 'RUNNING' AND c.deleted_at IS NULL
AND c.failed_generation <> c.generation AND c.reason IS NULL ORDER BY c.id"""


@dataclass
class Sleepers:
    world: World
    users: Users
    endpoint: Endpoint
    fleet: FleetActs | None = None
    keys: dict[str, Key] = field(default_factory=dict)
    """By organization: one that is good."""
    revoked: list[Key] = field(default_factory=list)
    """Whose revocation was answered."""
    all_keys: dict[str, Key] = field(default_factory=dict)
    wrong: list[Asked] = field(default_factory=list)
    """Asked with a key that opens nothing here."""
    unanswered: list[str] = field(default_factory=list)
    """What was asked of those that were well, when nothing was wrong any more, and not answered by them."""
    under_way: list[asyncio.Task[Any]] = field(default_factory=list)
    made: int = 0

    def acts(self) -> list[tuple[int, str, Act]]:
        return [
            (3, "deploy a sleeper", self.deploy),
            (5, "ask", self.ask),
            (4, "a crowd asks", self.crowd),
            (2, "a wrong key asks", self.ask_with_a_wrong_key),
            (4, "ask at the last moment", self.ask_at_the_last_moment),
            (3, "keep it in use", self.keep_in_use),
            (1, "wake by hand", self.wake_by_hand),
            (3, "a client leaves", self.leave),
            (6, "disturb a wake", self.disturb_a_wake),
            (5, "touch a sleeper", self.touch),
            (2, "a machine loses most at once", self.lose_most),
            (2, "what it starts breaks", self.break_images),
            (1, "what it starts is repaired", self.repair_images),
            (1, "a key is revoked", self.revoke),
            (1, "an hour gets dear", self.make_dear),
            (2, "an hour gets cheap", self.make_cheap),
        ]

    async def gather(self) -> None:
        await self.make_cheap()
        for organization in self.world.organizations:
            credit = {
                "organization_id": organization.id,
                "amount_microusd": _CREDIT_MICROUSD,
                "reason": "test",
            }
            await self.world.ask(self.world.operator, "POST", "/operator/credits", credit)
            limits = f"/organizations/{organization.id}/billing/limits"
            await self.world.ask(organization.headers, "PUT", limits, {"limit_microusd": None})
            await self._make_key(organization)

    async def deploy(self) -> None:
        world, users = self.world, self.users
        organization = world.acting.choice(world.organizations)
        least, most = world.acting.choice(((1, 1), (1, 1), (1, 2), (2, 2)))
        image, idle_s = world.acting.choice(_IMAGES), world.acting.choice(_IDLE_S)
        if len(users.containers) >= _MOST:
            return
        self.made += 1
        name = f"s{self.made}"
        body = {
            "name": name,
            "image": image,
            "registry": {"provider": "local"},
            "resources": {
                "mode": "autoscaling",
                "instance_type": _TYPE,
                "min_replicas": least,
                "max_replicas": most,
            },
            "health_check": {"timeout_s": 60},
            "sleep_after_s": idle_s,
        }
        path = f"/projects/{organization.project_id}/containers"
        answer = await users.ask_for(
            organization, f"deploy {name} of {image}, idle for {idle_s} s", "POST", path, body
        )
        if answer.status == 201:
            world.story.names[answer.body["id"]] = name
            users.containers[answer.body["id"]] = organization
            world.wishes[answer.body["id"]] = ("running", "created")

    # Asking.

    async def ask(self) -> None:
        if (container_id := self.users.some()) is not None:
            await self._send(container_id, 1)

    async def crowd(self) -> None:
        many, container_id = self.world.acting.randrange(3, 9), self._one_asleep()
        if container_id is not None:
            await self._send(container_id, many)

    async def ask_with_a_wrong_key(self) -> None:
        container_id, number = self._one_asleep(), self.world.acting.randrange(3)
        if container_id is None:
            return
        organization = self.users.containers[container_id]
        others = [key for name, key in self.keys.items() if name != organization.name]
        key = [_NO_KEY, *(one.text for one in (*others, *self.revoked))][number % (1 + len(others))]
        asked = await self._ask(container_id, key, streams=False)
        self.wrong.append(asked)

    async def ask_at_the_last_moment(self) -> None:
        """When it has been idle for as long as it takes, and nobody has told it so."""
        later_s, container_id = self.world.acting.uniform(-1.0, 12.0), self.users.some()
        if container_id is None:
            return
        query = (
            f"SELECT extract(epoch FROM ({SLEEP_DUE} AND c.id = '{container_id}') - sim.clock_timestamp())"
        )
        ((due_s,),) = self.world.query(query)
        if due_s is not None and -20 < float(due_s) < 130:
            await asyncio.sleep(max(float(due_s) + later_s, 0.0))
            await self._send(container_id, 1)

    async def keep_in_use(self) -> None:
        """By requests further apart than one takes, and closer than its idleness."""
        container_id, pauses = (
            self.users.some(),
            [self.world.acting.choice((15.0, 30.0, 45.0)) for _ in range(4)],
        )
        for pause_s in pauses:
            if container_id in self.users.containers:
                await self._send(container_id, 1)
                await asyncio.sleep(pause_s)

    async def leave(self) -> None:
        patience_s, container_id = self.world.acting.choice(_PATIENCE_S), self._one_asleep()
        if container_id is not None:
            self.world.story.count("client left")
            await self._send(container_id, 1, patience_s)

    async def wake_by_hand(self) -> None:
        if (container_id := self._one_asleep()) is not None:
            path = f"/containers/{container_id}/wake"
            organization = self.users.containers[container_id]
            answer = await self.users.ask_for(organization, f"wake {container_id}", "POST", path, None)
            if answer.status == 202:
                self.world.story.count("woken by hand")

    # What meets a wake.

    async def disturb_a_wake(self) -> None:
        world, chance = self.world, self.world.acting
        many, moment_s = chance.choice((1, 1, 3)), chance.choice(_MOMENTS_S)
        container_id, day = self._one_asleep(), BadDay(world)
        disturbances: list[tuple[str, Act]] = [
            ("a controller is killed", day.kill_controller),
            ("no controller for a while", self._no_controller),
            ("the gateway is killed", day.kill_gateway),
            ("the gateway is stopped", self._stop_gateway),
            ("Postgres fails over", day.fail_over),
            ("the engine is wiped", day.wipe),
            ("a replica dies", day.die),
        ]
        if self.fleet is not None:
            disturbances += [("a machine loses its power", self.fleet.lose_power)] * 2
            disturbances += [("a machine is cut off", self.fleet.cut_off)]
        words, disturb = disturbances[chance.randrange(1000) % len(disturbances)]
        if container_id is None:
            return
        await self._send(container_id, many)
        await asyncio.sleep(moment_s)
        world.story.tell("night", f"{words} as {container_id} wakes")
        world.story.count(f"{words} during a wake")
        await disturb()

    async def touch(self) -> None:
        """Stopped, changed, deleted, with somebody waiting for it or not."""
        chance, container_id = self.world.acting, self._one_asleep()
        many, moment_s = chance.choice((0, 1, 2)), chance.choice(_MOMENTS_S)
        what = chance.choice(("stop", "stop", "start", "restart", "delete", "scale", "update", "canary"))
        if container_id is None:
            return
        self.world.story.count(f"{what} of what sleeps")
        await self._send(container_id, many)
        await asyncio.sleep(moment_s)
        users = self.users
        does: dict[str, Coroutine[Any, Any, Any]] = {
            "stop": users.change_one(container_id, "stop", "stopped"),
            "start": users.change_one(container_id, "start", "running"),
            "restart": users.change_one(container_id, "restart", "running"),
            "delete": users.delete_one(container_id),
            "scale": users.scale_one(container_id, 2, 2),
            "update": users.update_one(container_id),
            "canary": users.try_one(container_id),
        }
        chosen = does.pop(what)
        for other in does.values():
            other.close()
        await chosen

    async def lose_most(self) -> None:
        """So many that its engine is doubted: they may be there all the same (decision 22)."""
        if (container_id := self.users.some()) is None:
            return
        await self.users.scale_one(container_id, _DOUBTED, _DOUBTED)
        for _ in range(_LOOKS):
            if len(self.world.machine.running()) >= _DOUBTED:
                self.world.story.count("a machine lost most")
                self.world.story.tell("machine", "loses all that it has at once")
                self.world.machine.wipe()
                return
            await asyncio.sleep(_BETWEEN_LOOKS_S)

    async def break_images(self) -> None:
        """What served yesterday ends at once today."""
        self.world.story.tell("night", "what is started ends at once from now on")
        self.world.story.count("images broken")
        for machine in self.world.machines():
            machine.images = {
                name: replace(image, exits_after_s=1.0, exit_code=3) for name, image in IMAGES.items()
            }

    async def repair_images(self) -> None:
        self.world.story.tell("night", "what is started serves again")
        for machine in self.world.machines():
            machine.images = dict(IMAGES)

    async def make_dear(self) -> None:
        await self._price(_TOO_DEAR)

    async def make_cheap(self) -> None:
        await self._price(_PRICE)

    async def revoke(self) -> None:
        """And another is made for whom it was."""
        organization = self.world.acting.choice(self.world.organizations)
        key = self.keys.get(organization.name)
        if key is None:
            return
        path = f"/api-keys/{key.id}"
        answer = await self.users.ask_for(organization, f"revoke {key.id}", "DELETE", path, None)
        del self.keys[organization.name]
        if answer.status == 204:
            self.world.story.count("key revoked in the night")
            self.revoked.append(key)
        await self._make_key(organization)

    # The end.

    async def wait_for_all(self) -> None:
        for task in self.under_way:
            await task
        self.under_way.clear()

    async def come_to_rest(self) -> None:
        """Nothing is wrong any more: what is well answers whoever asks, asleep or not."""
        await self.repair_images()
        await self.make_cheap()
        for organization in self.world.organizations:
            await self.users.resume_one(organization)
            if organization.name not in self.keys:
                await self._make_key(organization)

    async def ask_all(self) -> None:
        well = {row[0] for row in self.world.query(_WELL)}
        for container_id in sorted(well & self.users.containers.keys()):
            assert container_id is not None, "never empty"
            asked = await self._ask(
                container_id, self.keys[self.users.containers[container_id].name].text, streams=False
            )
            still = {row[0] for row in self.world.query(_WELL)}
            if asked.status != 200 and container_id in still:
                self.unanswered.append(
                    f"{container_id} is well, and a request was answered with {asked.status} {asked.code}"
                )

    async def change_minds(self) -> None:
        """Of some of them, for the last time: the second wish comes while the first is looked at, and after it nothing happens that
        would make anybody look again."""
        chance = self.world.acting
        for container_id in sorted(self.users.containers):
            most, moment_s = chance.choice((0, 2, 3)), chance.choice(_WHILE_LOOKED_AT_S)
            if not most:
                continue
            # Wants a single pass, and nothing of the machine.
            await self.users.scale_one(container_id, 1, most)
            await asyncio.sleep(moment_s)
            self.world.story.count("a mind changed at last")
            await self.users.change_one(container_id, "stop", "stopped")

    async def part(self) -> None:
        for organization in self.world.organizations:
            path = f"/projects/{organization.project_id}/api-keys"
            for one in (await self.users.ask_for(organization, "look for keys", "GET", path, None)).body[
                "items"
            ]:
                await self.users.ask_for(
                    organization, f"revoke {one['id']}", "DELETE", f"/api-keys/{one['id']}", None
                )

    # How.

    async def _send(self, container_id: str, many: int, patience_s: float | None = None) -> None:
        """Without waiting for the answers."""
        key = self.keys.get(self.users.containers[container_id].name)
        if key is None:
            return
        for _ in range(many):
            streams = self.world.acting.random() < 0.3
            asking = self._ask(container_id, key.text, streams=streams, patience_s=patience_s)
            self.under_way.append(asyncio.create_task(asking))

    async def _ask(
        self, container_id: str, key: str, *, streams: bool, patience_s: float | None = None
    ) -> Asked:
        asked = await self.endpoint.ask(container_id, key, streams=streams, patience_s=patience_s)
        how = f"held for {(asked.ended_s or 0.0) - asked.began_s:.3f} s, " if asked.holder else ""
        answer = "client left" if asked.left else f"{asked.status} {asked.code or ''}".strip()
        self.world.story.tell("client", f"asks {container_id}: {how}{answer}")
        return asked

    async def _make_key(self, organization: Organization) -> None:
        path = f"/projects/{organization.project_id}/api-keys"
        answer = await self.users.ask_for(
            organization, "make a key", "POST", path, {"name": "night", "scope": "inference"}
        )
        if answer.status == 201:
            body = answer.body
            key = Key(body["id"], body["key"], "inference", organization.project_id)
            self.keys[organization.name] = self.all_keys[key.id] = key

    def _one_asleep(self) -> str | None:
        """Drawn also where none is, so that an event stays the same."""
        number = self.world.acting.randrange(1000)
        asleep = [row[0] for row in self.world.query(_ASLEEP) if row[0] in self.users.containers]
        return asleep[number % len(asleep)] if asleep else None

    async def _no_controller(self) -> None:
        """For longer than anybody is held."""
        for name in ("controller1", "controller2"):
            self.world.take_down(name, 150)

    async def _stop_gateway(self) -> None:
        self.world.stall("gateway", self.world.acting.uniform(5, 60))

    async def _price(self, price_microusd: int) -> None:
        self.world.story.tell("operator", f"{_TYPE} costs {price_microusd} from now on")
        path = f"/operator/instance-types/{_TYPE}"
        await self.world.ask(self.world.operator, "PATCH", path, {"price_per_hour_microusd": price_microusd})
