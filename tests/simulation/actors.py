"""Who does what: users and the operator through the API, and the bad day itself. To add an act: a method, listed below."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.faults import CALM
from tests.simulation.world import Answer, Organization, World

Act = Callable[[], Awaitable[None]]

_IMAGES = (
    *("local/chat:latest",) * 6,
    "local/slow:latest",
    "local/stubborn:latest",
    "local/mortal:latest",
    "local/crash:latest",
    "local/deaf:latest",
    "local/missing:latest",
)
_TYPES = ("cpu-nano", "cpu-nano", "cpu-small", "cpu-medium")


@dataclass
class Users:
    world: World
    containers: dict[str, Organization] = field(default_factory=dict)
    made: int = 0

    def acts(self) -> list[tuple[int, str, Act]]:
        """With how often, relative to each other."""
        return [
            (4, "create", self.create),
            (4, "stop", self.stop),
            (5, "start", self.start),
            (4, "restart", self.restart),
            (4, "scale", self.scale),
            (3, "edit", self.edit),
            (3, "save a draft", self.draft),
            (3, "apply a draft", self.apply_draft),
            (4, "update beside", self.update_beside),
            (2, "roll back", self.roll_back),
            (4, "begin a canary", self.begin_canary),
            (4, "decide about a canary", self.decide_about_canary),
            (3, "delete", self.delete),
            (1, "suspend", self.suspend),
            (2, "resume", self.resume),
            (1, "raise the price", self.raise_price),
            (1, "give credit", self.give_credit),
            (1, "limit spending", self.limit_spending),
        ]

    async def create(self) -> None:
        world = self.world
        organization = world.acting.choice(world.organizations)
        if sum(one is organization for one in self.containers.values()) >= 3:
            return await self.start()
        self.made += 1
        return await self.create_one(organization, f"c{self.made}")

    async def create_one(self, organization: Organization, name: str) -> None:
        world = self.world
        least = world.acting.choice((1, 1, 2))
        body = {
            "name": name,
            "image": world.acting.choice(_IMAGES),
            "registry": {"provider": "local"},
            "resources": self._resources(least, least + world.acting.choice((0, 0, 1))),
            "health_check": {"timeout_s": world.acting.choice((10, 60, 120))},
        }
        answer = await self.ask_for(
            organization,
            f"create {name} of {body['image']}",
            "POST",
            f"/projects/{organization.project_id}/containers",
            body,
        )
        if answer.status == 201:
            container_id = answer.body["id"]
            world.story.names[container_id] = name
            self.containers[container_id] = organization
            world.wishes[container_id] = ("running", "created")

    async def find(self, organization: Organization) -> None:
        """All that there are: a create whose answer was lost may have made one."""
        path = f"/projects/{organization.project_id}/containers"
        answer = await self.ask_for(organization, "look for containers", "GET", path, None)
        assert answer.status == 200, "no faults any more"
        for one in answer.body["items"]:
            self.containers.setdefault(one["id"], organization)

    async def stop(self) -> None:
        await self._change("stop", "stopped")

    async def start(self) -> None:
        await self._change("start", "running")

    async def restart(self) -> None:
        await self._change("restart", "running")

    async def _change(self, verb: str, wish: str) -> None:
        if (container_id := self.some()) is not None:
            await self.change_one(container_id, verb, wish)

    async def change_one(self, container_id: str, verb: str, wish: str) -> None:
        organization = self.containers[container_id]
        path = f"/containers/{container_id}/{verb}"
        answer = await self.ask_for(organization, f"{verb} {container_id}", "POST", path, None)
        self._wish(container_id, answer, wish, verb)

    async def delete(self) -> None:
        if (container_id := self.some()) is not None:
            await self.delete_one(container_id)

    async def delete_one(self, container_id: str) -> bool:
        answer = await self.ask_for(
            self.containers[container_id],
            f"delete {container_id}",
            "DELETE",
            f"/containers/{container_id}",
            None,
        )
        self._wish(container_id, answer, "deleted", "delete")
        gone = answer.status in (202, 204, 404)
        if gone:
            del self.containers[container_id]
            self.world.deleted.add(container_id)
        return gone

    async def scale(self) -> None:
        if (container_id := self.some()) is not None:
            least = self.world.acting.choice((1, 1, 2, 3))
            await self.scale_one(container_id, least, least + self.world.acting.choice((0, 1)))

    async def scale_one(self, container_id: str, least: int, most: int) -> None:
        answer = await self.ask_for(
            self.containers[container_id],
            f"scale {container_id} to {least}",
            "POST",
            f"/containers/{container_id}/scale",
            {"min_replicas": least, "max_replicas": most},
        )
        if not answer.alone or answer.status is None or answer.status >= 500:
            self.world.scales.pop(container_id, None)
        elif answer.status in (200, 202):
            self.world.scales[container_id] = least

    async def edit(self) -> None:
        if (container_id := self.some()) is None:
            return
        answer = await self.ask_for(
            self.containers[container_id],
            f"edit {container_id}",
            "PATCH",
            f"/containers/{container_id}",
            self._changes(),
        )
        self._scaling_may_differ(container_id, answer)

    async def draft(self) -> None:
        if (container_id := self.some()) is None:
            return
        await self.ask_for(
            self.containers[container_id],
            f"draft for {container_id}",
            "PUT",
            f"/containers/{container_id}/draft",
            self._changes(),
        )

    async def apply_draft(self) -> None:
        if (container_id := self.some()) is None:
            return
        answer = await self.ask_for(
            self.containers[container_id],
            f"apply the draft of {container_id}",
            "POST",
            f"/containers/{container_id}/draft/apply",
            None,
        )
        self._wish(container_id, answer, "running", "apply a draft")
        self._scaling_may_differ(container_id, answer)

    async def update_beside(self) -> None:
        if (container_id := self.some()) is not None:
            await self.update_one(container_id)

    async def update_one(self, container_id: str) -> None:
        """A new draft, with the old version serving until the new one has proven itself."""
        organization = self.containers[container_id]
        path = f"/containers/{container_id}/draft"
        changes = self._changes()
        await self.ask_for(organization, f"draft for {container_id}", "PUT", path, changes)
        answer = await self.ask_for(
            organization, f"update {container_id} beside", "POST", f"{path}/apply", {"strategy": "rolling"}
        )
        self._wish(container_id, answer, "running", "update beside")
        self._scaling_may_differ(container_id, answer)

    async def begin_canary(self) -> None:
        if (container_id := self.some()) is not None:
            await self.try_one(container_id)

    async def try_one(self, container_id: str) -> None:
        """By a canary."""
        organization = self.containers[container_id]
        path = f"/containers/{container_id}/draft"
        await self.ask_for(organization, f"draft for {container_id}", "PUT", path, self._changes())
        share = self.world.acting.choice((1, 10, 50))
        wanted = {"strategy": "canary", "share": share, "promote_after_s": 60}
        answer = await self.ask_for(
            organization, f"a canary of {share} % for {container_id}", "POST", f"{path}/apply", wanted
        )
        self._wish(container_id, answer, "running", "begin a canary")
        self._scaling_may_differ(container_id, answer)

    async def decide_about_canary(self) -> None:
        """Of whichever has one; the others refuse."""
        if (container_id := self.some()) is None:
            return
        share = self.world.acting.choice((1, 25, 50))
        how, body = self.world.acting.choice((("", {"share": share}), ("/promote", None), ("/abort", None)))
        answer = await self.ask_for(
            self.containers[container_id],
            f"canary{how} of {container_id}",
            "POST",
            f"/containers/{container_id}/canary{how}",
            body,
        )
        self._scaling_may_differ(container_id, answer)

    async def roll_back(self) -> None:
        """To any version that the container may have, the one beside an update included."""
        if (container_id := self.some()) is None:
            return
        version = self.world.acting.randrange(1, 5)
        answer = await self.ask_for(
            self.containers[container_id],
            f"roll {container_id} back to version {version}",
            "POST",
            f"/containers/{container_id}/rollback",
            {"version": version},
        )
        self._wish(container_id, answer, "running", "roll back")
        self._scaling_may_differ(container_id, answer)

    async def suspend(self) -> None:
        await self.suspend_one(self.world.acting.choice(self.world.organizations))

    async def suspend_one(self, organization: Organization) -> None:
        await self._ask_as_operator(
            f"suspend {organization.name}",
            f"/operator/organizations/{organization.id}/suspend",
            {"reason": "test"},
        )

    async def resume(self) -> None:
        for organization in self.world.organizations:
            await self.resume_one(organization)

    async def resume_one(self, organization: Organization) -> None:
        await self._ask_as_operator(
            f"resume {organization.name}", f"/operator/organizations/{organization.id}/resume", None
        )

    async def raise_price(self) -> None:
        name = self.world.acting.choice(_TYPES)
        # The last is more than most have: what runs cannot be renewed.
        price = self.world.acting.choice((5_000, 400_000, 3_000_000, 30_000_000))
        await self._ask_as_operator(
            f"{name} costs {price} from now on",
            f"/operator/instance-types/{name}",
            {"price_per_hour_microusd": price},
            "PATCH",
        )

    async def give_credit(self) -> None:
        organization = self.world.acting.choice(self.world.organizations)
        body = {"organization_id": organization.id, "amount_microusd": 5_000_000, "reason": "test"}
        await self._ask_as_operator(f"5 USD for {organization.name}", "/operator/credits", body)

    async def limit_spending(self) -> None:
        organization = self.world.acting.choice(self.world.organizations)
        limit = self.world.acting.choice((100_000, 10_000_000, None))
        await self.ask_for(
            organization,
            f"limit spending to {limit}",
            "PUT",
            f"/organizations/{organization.id}/billing/limits",
            {"limit_microusd": limit},
        )

    def some(self) -> str | None:
        return self.world.acting.choice(sorted(self.containers)) if self.containers else None

    def _resources(self, least: int, most: int) -> dict[str, Any]:
        return {
            "mode": "autoscaling",
            "instance_type": self.world.acting.choice(_TYPES),
            "min_replicas": least,
            "max_replicas": most,
        }

    def _changes(self) -> dict[str, Any]:
        return self.world.acting.choice(
            (
                {"env": {"X": str(self.world.acting.randrange(100))}},
                {"image": self.world.acting.choice(_IMAGES), "registry": {"provider": "local"}},
                {"resources": self._resources(1, 2)},
            )
        )

    def _wish(self, container_id: str, answer: Answer, desired: str, why: str) -> None:
        if not answer.alone or answer.status is None or answer.status >= 500:
            self.world.wishes.pop(container_id, None)
        elif answer.status in (200, 202):
            self.world.wishes[container_id] = (desired, why)

    def _scaling_may_differ(self, container_id: str, answer: Answer) -> None:
        """Whatever was sent may have had a scaling of its own."""
        if answer.status is None or answer.status < 400 or answer.status >= 500:
            self.world.scales.pop(container_id, None)

    async def ask_for(
        self, organization: Organization, words: str, method: str, path: str, body: Any
    ) -> Answer:
        answer = await self.world.ask(organization.headers, method, path, body)
        if answer.status == 401:
            self.world.sign_in_again()
            answer = await self.world.ask(organization.headers, method, path, body)
        return self.told(organization.name, words, answer)

    async def _ask_as_operator(self, words: str, path: str, body: Any, method: str = "POST") -> Answer:
        return self.told("operator", words, await self.world.ask(self.world.operator, method, path, body))

    def told(self, who: str, words: str, answer: Answer) -> Answer:
        code = answer.body.get("code", "") if isinstance(answer.body, dict) else ""
        outcome = f"{answer.status or 'no answer'} {code}".strip()
        self.world.story.tell(who, f"{words}: {outcome}")
        if answer.status == 500 and self.world.is_calm():
            self.world.story.count("500")
            self.world.crashes.append(f"{words}: {answer.body}")
        return answer


@dataclass
class BadDay:
    """What happens to the installation itself."""

    world: World

    def acts(self) -> list[tuple[int, str, Act]]:
        return [
            (3, "kill the controller", self.kill_controller),
            (1, "kill the api", self.kill_api),
            (1, "kill the gateway", self.kill_gateway),
            (2, "stop the controller", self.stop_controller),
            (1, "stop the gateway", self.stop_gateway),
            (2, "controller away", self.controller_away),
            (2, "postgres fails over", self.fail_over),
            (2, "database clock jumps", self.database_clock_jumps),
            (1, "clock jumps", self.clock_jumps),
            (2, "engine wiped", self.wipe),
            (2, "replica vanishes", self.vanish),
            (2, "replica dies", self.die),
            (2, "faults change", self.change_faults),
        ]

    async def kill_controller(self) -> None:
        self.world.kill(self.world.acting.choice(("controller1", "controller2")))

    async def kill_api(self) -> None:
        self.world.kill("api")

    async def kill_gateway(self) -> None:
        self.world.kill("gateway")

    async def stop_controller(self) -> None:
        self.world.stall(
            self.world.acting.choice(("controller1", "controller2")), self.world.acting.uniform(5, 200)
        )

    async def stop_gateway(self) -> None:
        self.world.stall("gateway", self.world.acting.uniform(5, 200))

    async def controller_away(self) -> None:
        """Both are down for long: nobody renews."""
        away_s = self.world.acting.uniform(100, 6000)
        self.world.story.tell("day", f"no controller for {away_s:.0f} s")
        self.world.story.count("renewals away")
        for name in ("controller1", "controller2"):
            self.world.take_down(name, away_s)

    async def fail_over(self) -> None:
        away_s = self.world.acting.uniform(0.5, 30)
        self.world.fail_over(away_s)

    async def database_clock_jumps(self) -> None:
        by_s = self.world.acting.choice((-4000, -500, -20, 20, 400, 4000, 90_000))
        self.world.jump_database_clock(by_s)

    async def clock_jumps(self) -> None:
        name = self.world.acting.choice(sorted(self.world.clocks))
        by_s = self.world.acting.choice((-4000, 4000))
        self.world.story.tell(name, f"its clock jumps by {by_s} s")
        self.world.story.count("process clock jumped")
        self.world.clocks[name].off_by_s += by_s

    async def wipe(self) -> None:
        self.world.story.tell("machine", f"the engine is wiped: {len(self.world.machine.replicas)} replicas")
        self.world.story.count("engine wiped")
        self.world.machine.wipe()

    async def vanish(self) -> None:
        replicas = list(self.world.machine.replicas.values())
        if replicas:
            one = self.world.acting.choice(replicas)
            self.world.story.tell("machine", f"{one.spec.replica_id} of {one.spec.container_id} vanishes")
            self.world.story.count("replica vanished")
            self.world.machine.drop(one)

    async def die(self) -> None:
        """Sometimes while nobody looks: the controllers are just being restarted."""
        running = self.world.machine.running()
        if running:
            one = self.world.acting.choice(running)
            if self.world.acting.random() < 0.5:
                for name in ("controller1", "controller2"):
                    self.world.take_down(name, 60)
            self.world.story.tell("machine", f"{one.spec.replica_id} of {one.spec.container_id} ends")
            self.world.story.count("replica ended")
            self.world.machine.end(one)

    async def change_faults(self) -> None:
        self.world.faults.rates = CALM if self.world.faults.rates is not CALM else self.world.drawn_rates
