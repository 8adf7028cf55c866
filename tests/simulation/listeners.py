"""Users who want to hear of what happens: webhooks made, changed, removed, and receivers that come and go."""

from dataclasses import dataclass, field

from tests.simulation.actors import Act, Users
from tests.simulation.invariants_deliveries import DeliveryInvariants
from tests.simulation.receivers import HOOKS_PORT, Receivers
from tests.simulation.world import Organization, World


@dataclass
class Listeners:
    world: World
    users: Users
    receivers: Receivers
    invariants: DeliveryInvariants
    webhooks: dict[str, tuple[Organization, str]] = field(default_factory=dict)
    """By id: whose, and the path it leads to."""
    made: int = 0

    def acts(self) -> list[tuple[int, str, Act]]:
        return [
            (4, "make a webhook", self.make),
            (2, "remove a webhook", self.remove),
            (2, "switch a webhook off", self.switch_off),
            (1, "a receiver is gone", self.is_gone),
            (2, "test a webhook", self.test),
        ]

    async def make(self) -> None:
        organization = self.world.acting.choice(self.world.organizations)
        self.made += 1
        path = f"/hook{self.made}"
        body = {"url": f"http://127.0.0.1:{HOOKS_PORT}{path}", "events": ["*"]}
        where = f"/organizations/{organization.id}/webhooks"
        answer = await self.users.ask_for(organization, f"make a webhook to {path}", "POST", where, body)
        if answer.status == 201:
            self.webhooks[answer.body["id"]] = (organization, path)

    async def remove(self) -> None:
        if (webhook_id := self._some()) is None:
            return
        organization, path = self.webhooks[webhook_id]
        where = f"/organizations/{organization.id}/webhooks/{webhook_id}"
        answer = await self.users.ask_for(
            organization, f"remove the webhook to {path}", "DELETE", where, None
        )
        if answer.status == 204:
            del self.webhooks[webhook_id]
            self._ended(path)

    async def switch_off(self) -> None:
        if (webhook_id := self._some()) is None:
            return
        organization, path = self.webhooks[webhook_id]
        where = f"/organizations/{organization.id}/webhooks/{webhook_id}"
        body = {"enabled": False}
        answer = await self.users.ask_for(organization, f"switch {path} off", "PATCH", where, body)
        if answer.status == 200:
            del self.webhooks[webhook_id]
            self._ended(path)

    async def is_gone(self) -> None:
        if (webhook_id := self._some()) is not None:
            self.world.story.count("receiver gone")
            self.receivers.gone.add(self.webhooks[webhook_id][1])

    async def test(self) -> None:
        if (webhook_id := self._some()) is None:
            return await self.make()
        organization, path = self.webhooks[webhook_id]
        where = f"/organizations/{organization.id}/webhooks/{webhook_id}/test"
        await self.users.ask_for(organization, f"test {path}", "POST", where, None)
        return None

    def _ended(self, path: str) -> None:
        self.world.story.count("webhook ended")
        self.invariants.ended_at_s[path] = self.world.now_s()

    def _some(self) -> str | None:
        return self.world.acting.choice(sorted(self.webhooks)) if self.webhooks else None
