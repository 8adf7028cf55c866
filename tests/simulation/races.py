"""What several people do at once, or one of them and the installation: for most bugs two things have to meet.

Everything is drawn before the first question is asked, so that an event stays the same whatever is answered."""

import asyncio
from dataclasses import dataclass

from tests.simulation.actors import Act, Users

_LOOKS, _BETWEEN_LOOKS_S = 200, 0.1
_MOMENTS_S = (0.0, 0.004, 0.02, 0.1, 0.4, 2.0, 12.0)


@dataclass
class Races:
    users: Users

    def acts(self) -> list[tuple[int, str, Act]]:
        return [
            (4, "change of mind", self.change_of_mind),
            (2, "two at once", self.two_at_once),
            (1, "what was deleted is touched", self.touch_deleted),
            (1, "a name that is taken", self.take_a_name),
            (2, "scaling meets a draft", self.scale_during_a_draft),
            (2, "a leader stops at work", self.stop_a_leader_at_work),
            (2, "a gateway misses a change", self.gateway_misses_a_change),
        ]

    async def change_of_mind(self) -> None:
        """The opposite, a moment later."""
        users, chance = self.users, self.users.world.acting
        container_id, moment_s = users.some(), chance.choice(_MOMENTS_S)
        kind = chance.choice(("state", "state", "scale", "scale", "suspend"))
        if container_id is None:
            return
        organization = users.containers[container_id]
        if kind == "suspend":
            await users.suspend_one(organization)
            await asyncio.sleep(moment_s)
            await users.resume_one(organization)
        elif kind == "scale":
            await users.scale_one(container_id, 3, 3)
            await asyncio.sleep(chance.choice((5.0, 60.0)))
            await users.scale_one(container_id, 1, 2)
            await asyncio.sleep(moment_s)
            await users.scale_one(container_id, 3, 3)
        else:
            for verb, wish in (("start", "running"), ("stop", "stopped"), ("start", "running")):
                await users.change_one(container_id, verb, wish)
                await asyncio.sleep(moment_s)

    async def two_at_once(self) -> None:
        """Of the same container; nobody knows whose word was the last."""
        users, chance = self.users, self.users.world.acting
        wishes = {"stop": "stopped", "start": "running", "restart": "running"}
        verbs = [chance.choice([*wishes]) for _ in range(2)]
        container_id = users.some()
        if container_id is not None:
            await asyncio.gather(*(users.change_one(container_id, verb, wishes[verb]) for verb in verbs))

    async def touch_deleted(self) -> None:
        """Somebody else's page still shows it; or a start of it is under way."""
        users, chance = self.users, self.users.world.acting
        container_id, moment_s = users.some(), chance.choice(_MOMENTS_S)
        verb = chance.choice(("start", "restart", "stop", "draft/apply"))
        if container_id is None:
            return
        organization = users.containers[container_id]
        if chance.random() < 0.5:
            users.world.faults.slow_starts = 2
            await users.change_one(container_id, "restart", "running")
            await asyncio.sleep(2.0)
        await users.delete_one(container_id)
        await asyncio.sleep(moment_s)
        path = f"/containers/{container_id}/{verb}"
        await users.ask_for(organization, f"{verb} {container_id}, which is deleted", "POST", path, None)

    async def take_a_name(self) -> None:
        """Of a container that is there."""
        users = self.users
        container_id = users.some()
        if container_id is not None and container_id in users.world.story.names:
            await users.create_one(users.containers[container_id], users.world.story.names[container_id])

    async def scale_during_a_draft(self) -> None:
        users, chance = self.users, self.users.world.acting
        container_id, least = users.some(), chance.choice((1, 2, 3))
        moment_s, env = chance.choice(_MOMENTS_S), {"env": {"X": str(chance.randrange(100))}}
        if container_id is None:
            return
        organization = users.containers[container_id]
        await users.ask_for(
            organization, f"draft for {container_id}", "PUT", f"/containers/{container_id}/draft", env
        )
        await users.change_one(container_id, "draft/apply", "running")
        users.world.scales.pop(container_id, None)
        await asyncio.sleep(moment_s)
        await users.scale_one(container_id, least, least + 1)

    async def stop_a_leader_at_work(self) -> None:
        """For longer than its lease, in the middle of a pass: it has written what it is about to do; or it has sent off a
        start, which takes effect when another one leads."""
        users, world = self.users, self.users.world
        container_id, commits = users.some(), world.acting.choice((1, 1, 2, 3))
        verb, wish = world.acting.choice(
            (("stop", "stopped"), ("restart", "running"), ("restart", "running"))
        )
        seconds = world.acting.uniform(100, 200)
        during_a_start = world.acting.random() < 0.5
        leaders = world.query("SELECT holder FROM leases WHERE name = 'containers'")
        if container_id is None or not leaders:
            return
        leader = leaders[0][0] or ""
        if during_a_start:
            world.faults.slow_starts = 1
            await users.change_one(container_id, "restart", "running")
            await self._until_something_is_started()
            world.stall(leader, seconds)
            return
        world.faults.stop = lambda process: world.stall(process.name, seconds)
        world.faults.stops_after = leader, commits
        await users.change_one(container_id, verb, wish)

    async def _until_something_is_started(self) -> None:
        """Or nothing is, for a while: there may be neither credit nor room."""
        faults = self.users.world.faults
        for _ in range(_LOOKS):
            if not faults.slow_starts:
                return
            await asyncio.sleep(_BETWEEN_LOOKS_S)

    async def gateway_misses_a_change(self) -> None:
        """One container goes and another comes while it is stopped: what is given away meanwhile, it still has."""
        users, world = self.users, self.users.world
        leaving, coming = users.some(), users.some()
        moment_s = world.acting.choice((1.0, 160.0, 220.0))
        if leaving is None or coming is None:
            return
        world.stall("gateway", 350)
        await users.change_one(leaving, "stop", "stopped")
        await asyncio.sleep(moment_s)
        if coming != leaving:
            await users.change_one(coming, "restart", "running")
        else:
            await users.create()
