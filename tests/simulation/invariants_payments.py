"""Every cent that was paid is credited exactly once, and nothing that was not."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from moorage.billing.cards.asking import ask_again_after
from moorage.billing.top_ups.amounts import CENT_MICROUSD
from tests.simulation.invariants import BrokenError
from tests.simulation.payments import Bank
from tests.simulation.world import World

_CREDITED = """
SELECT t.details ->> 'top_up_id', sum(-e.amount_microusd) FROM ledger_transactions t
JOIN ledger_entries e ON e.transaction_id = t.id AND e.account = 'card' WHERE t.kind = 'card_top_up' GROUP BY 1
"""
_TAKEN_BACK = """
SELECT split_part(t.key, ':', 2), sum(e.amount_microusd) FROM ledger_transactions t
JOIN ledger_entries e ON e.transaction_id = t.id AND e.account = 'card'
WHERE t.kind IN ('refund', 'refund_failed', 'dispute', 'dispute_won') GROUP BY 1
"""
_TRIES_S = 900.0
"""For a question that failed, and for a provider that was away."""


@dataclass
class PaymentInvariants:
    world: World
    bank: Bank

    def check(self) -> None:
        self._raise("nothing unpaid is credited", nothing_unpaid_is_credited(self.world, self.bank))

    def check_settled(self) -> None:
        self.check()
        self._raise("every paid cent is credited once", every_paid_cent_is_credited(self.world, self.bank))
        self._raise("what was taken back is booked", what_was_taken_back_is_booked(self.world, self.bank))

    def _raise(self, name: str, sentences: Iterator[str]) -> None:
        for sentence in sentences:
            raise BrokenError(name, sentence)


def nothing_unpaid_is_credited(world: World, bank: Bank) -> Iterator[str]:
    """After every event."""
    paid = bank.paid()
    for top_up_id, credited in world.query(_CREDITED):
        cents, _ = paid.get(top_up_id or "", (0, 0.0))
        if int(credited or 0) > cents * CENT_MICROUSD:
            yield f"{top_up_id} is credited with {credited}, and {cents} cents were paid"


def every_paid_cent_is_credited(world: World, bank: Bank) -> Iterator[str]:
    """Once faults have stopped, of what was paid so long ago that somebody must have asked."""
    credited = {top_up_id: int(amount or 0) for top_up_id, amount in world.query(_CREDITED)}
    for top_up_id, (cents, since_s) in bank.paid().items():
        if not _must_be_known(world, since_s, paid=False):
            continue
        if credited.get(top_up_id, 0) != cents * CENT_MICROUSD:
            yield f"{cents} cents were paid for {top_up_id}, credited is {credited.get(top_up_id, 0)}"


def what_was_taken_back_is_booked(world: World, bank: Bank) -> Iterator[str]:
    booked = {key: int(amount or 0) for key, amount in world.query(_TAKEN_BACK)}
    gone = [(one, one["status"] != "succeeded") for one in bank.refunds]
    gone += [(one, one["status"] == "won") for one in bank.disputes]
    for one, is_undone in gone:
        if not _must_be_known(world, bank.happened_at_s[one["id"]], paid=True):
            continue
        wanted = 0 if is_undone else one["amount"] * CENT_MICROUSD
        if booked.get(one["id"], 0) != wanted:
            yield f"{one['id']} takes {wanted} back, booked is {booked.get(one['id'], 0)}"


def _must_be_known(world: World, since_s: float, *, paid: bool) -> bool:
    """The provider is asked at least this often, counted from now backwards; longer after clocks were set back."""
    pause = timedelta(hours=1) if not paid else ask_again_after(timedelta(), paid=True)
    assert pause is not None, "a payment is asked about at first"
    return world.now_s() - since_s > pause.total_seconds() + _TRIES_S + world.clock_set_back_s
