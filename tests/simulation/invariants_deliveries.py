"""Mails and webhooks: at least once, not for ever, and nothing after its right ended."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from moorage.webhooks.schedule import PAUSES
from tests.simulation.invariants import BrokenError
from tests.simulation.receivers import Receivers
from tests.simulation.world import World

_UNDER_WAY_S = 60.0
"""A delivery that was under way when its right ended."""
_LATE_S = 300.0


@dataclass
class DeliveryInvariants:
    world: World
    receivers: Receivers
    ended_at_s: dict[str, float] = field(default_factory=dict)
    """By path: when its webhook was removed or switched off, and that was answered."""

    def check(self) -> None:
        self._raise("nothing after its right ended", self._after_the_end())

    def check_settled(self) -> None:
        self.check()
        self._raise("what was sent arrived", self._sent_and_not_arrived())
        self._raise("deliveries are tried, within bounds", self._tries())

    def _after_the_end(self) -> Iterator[str]:
        for delivery_id, arrivals in self.receivers.deliveries.items():
            for at_s, path, _ in arrivals:
                ended_s = self.ended_at_s.get(path)
                if ended_s is not None and at_s > ended_s + _UNDER_WAY_S:
                    yield f"{delivery_id} reached {path} {at_s - ended_s:.0f} s after its webhook was gone"

    def _sent_and_not_arrived(self) -> Iterator[str]:
        for (mail_id,) in self.world.query("SELECT id FROM mails WHERE sent_at IS NOT NULL ORDER BY id"):
            if not any(f"{mail_id}@" in taken for taken in self.receivers.mails):
                yield f"{mail_id} counts as sent, and the server never took it"
        delivered = "SELECT id FROM webhook_deliveries WHERE delivered_at IS NOT NULL ORDER BY id"
        for (delivery_id,) in self.world.query(delivered):
            arrivals = self.receivers.deliveries.get(delivery_id or "", [])
            if not any(status == 200 for _, _, status in arrivals):
                yield f"{delivery_id} counts as delivered, and nobody took it"

    def _tries(self) -> Iterator[str]:
        late_s = _LATE_S + self.world.clock_set_back_s
        waiting = f"next_try_at < sim.clock_timestamp() - interval '{late_s} seconds'"
        for mail_id, tries in self.world.query(f"SELECT id, tries FROM mails WHERE {waiting}"):
            yield f"{mail_id} is due and waits, after {tries} tries"
        for delivery_id, tries in self.world.query(
            f"""SELECT d.id, d.tries FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id
            WHERE w.disabled_at IS NULL AND {waiting} AND NOT EXISTS (SELECT FROM webhook_deliveries before
                WHERE before.webhook_id = d.webhook_id AND before.next_try_at IS NOT NULL AND before.id <> d.id
                AND before.created_at <= d.created_at)"""
        ):
            yield f"{delivery_id} is due and waits, after {tries} tries"
        most = len(PAUSES) + 1
        for delivery_id, tries in self.world.query(
            f"SELECT id, tries FROM webhook_deliveries WHERE tries > {most}"
        ):
            yield f"{delivery_id} was tried {tries} times"

    def _raise(self, name: str, sentences: Iterator[str]) -> None:
        for sentence in sentences:
            raise BrokenError(name, sentence)
