"""What people do with money: they pay on pages, save cards, take payments back; banks refuse and dispute."""

import asyncio
import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.actors import Act, Users
from tests.simulation.payments import Bank, Events
from tests.simulation.world import Organization, World

_USD = 1_000_000
_PAYS_AFTER_S = (0.5, 30.0, 300.0, 5000.0, 40_000.0)
_DISPUTED_AFTER_S = (60.0, 900.0, 4000.0)
_DECIDED_AFTER_S = (30.0, 900.0, 4000.0)
_LOOKS, _BETWEEN_LOOKS_S = 20, 5.0
"""Of whoever comes back from the page on which a card is entered, until it is shown."""
_REFUSED = 0.5
"""How many of those who agree to automatic payments have a card that the bank refuses from then on."""


@dataclass(frozen=True)
class Doubt:
    """That the owner of a card paid with it, and what becomes of that."""

    chance: random.Random
    """Of the event in which it came up."""
    after_s: float
    decided_after_s: float
    won: bool


@dataclass
class Payers:
    world: World
    users: Users
    bank: Bank
    events: Events
    doubts: deque[Doubt] = field(default_factory=deque)
    """About payments that have yet to be made."""

    def acts(self) -> list[tuple[int, str, Act]]:
        return [
            (5, "pay by card", self.top_up),
            (3, "save a card", self.save_card),
            (3, "agree to automatic payments", self.agree),
            (1, "remove the card", self.remove_card),
            (2, "refund", self.refund),
            (3, "dispute", self.dispute),
            (2, "cards are refused", self.refuse),
            (1, "look at a payment", self.look),
        ]

    async def top_up(self) -> None:
        organization = self._some()
        usd = self.world.acting.choice((5, 20, 100))
        pays = self.world.acting.random() < 0.8
        after_s = self.world.acting.choice(_PAYS_AFTER_S)
        path = f"/organizations/{organization.id}/billing/top-ups"
        body = {"method": "card", "amount_microusd": usd * _USD}
        answer = await self.users.ask_for(organization, f"top up by {usd} USD", "POST", path, body)
        if answer.status == 201 and pays:
            self._pay_later(answer.body["checkout_url"].rpartition("/")[2], after_s)

    def _pay_later(self, session_id: str, after_s: float) -> None:
        chance = self.world.acting

        def pay() -> None:
            if not self.bank.is_open(session_id):
                return
            self.world.story.count("paid on a page")
            self.world.story.tell("somebody", f"pays {self.bank.sessions[session_id]['amount_total']} cents")
            self.events.send(self.bank.pay(session_id), chance)
            if self.doubts:
                doubt = self.doubts.popleft()
                intent = self.bank.intents[self.bank.intent_of(session_id)]
                self.world.at(doubt.after_s, lambda: self._dispute(intent, doubt))

        self.world.at(after_s, pay)

    async def save_card(self) -> None:
        await self._save_card_of(self._some())

    async def _save_card_of(self, organization: Organization) -> None:
        chance = self.world.acting
        path = f"/organizations/{organization.id}/billing/card"
        answer = await self.users.ask_for(organization, "save a card", "POST", path, None)
        if answer.status != 201:
            return
        session_id = answer.body["checkout_url"].rpartition("/")[2]

        def enter() -> None:
            self.world.story.count("card saved")
            self.events.send(self.bank.save_card(session_id), chance)

        self.world.at(chance.choice((0.5, 60.0)), enter)

    async def agree(self) -> None:
        """Whoever has no card saves one first. Many agree to more than they have, so that the card is charged at once."""
        organization, chance = self._some(), self.world.acting
        threshold = chance.choice((1, 19, 40, 40, 40, 40))
        body = {
            "threshold_microusd": threshold * _USD,
            "amount_microusd": chance.choice((5, 10)) * _USD,
            "monthly_cap_microusd": chance.choice((10, 30, 200)) * _USD,
        }
        refusal = chance.choice(("card_declined", "authentication_required"))
        is_refused = chance.random() < _REFUSED
        if not self._has_card(organization):
            await self._save_card_of(organization)
            await self._wait_for_card(organization)
        if is_refused:
            self._refuse(refusal)
        path = f"/organizations/{organization.id}/billing/auto-top-up"
        await self.users.ask_for(organization, f"charge my card below {threshold} USD", "PUT", path, body)

    async def _wait_for_card(self, organization: Organization) -> None:
        """Not for ever: what tells of it may be late or lost."""
        for _ in range(_LOOKS):
            if self._has_card(organization):
                return
            await asyncio.sleep(_BETWEEN_LOOKS_S)

    def _has_card(self, organization: Organization) -> bool:
        saved = f"SELECT FROM saved_cards WHERE organization_id = '{organization.id}' AND brand IS NOT NULL"
        return bool(self.world.query(saved))

    async def remove_card(self) -> None:
        organization = self._some()
        path = f"/organizations/{organization.id}/billing/card"
        await self.users.ask_for(organization, "remove the card", "DELETE", path, None)

    async def refund(self) -> None:
        if (intent := self._some_payment()) is None:
            return
        back = sum(one["amount"] for one in self.bank.refunds if one["payment_intent"] == intent["id"])
        left = intent["amount_received"] - back
        if left <= 0 or any(one["payment_intent"] == intent["id"] for one in self.bank.disputes):
            return
        cents = self.world.acting.choice((left, max(left // 2, 1)))
        self.world.story.count("refunded")
        self.world.story.tell("operator", f"refunds {cents} cents")
        self.events.send(self.bank.refund(intent["id"], cents), self.world.acting)

    async def dispute(self) -> None:
        """Of a payment that was made, or else of the next one."""
        chance = self.world.acting
        after_s, decided_after_s = chance.choice(_DISPUTED_AFTER_S), chance.choice(_DECIDED_AFTER_S)
        doubt = Doubt(chance, after_s, decided_after_s, won=chance.random() < 0.5)
        if (intent := self._some_payment()) is None:
            self.doubts.append(doubt)
        else:
            self._dispute(intent, doubt)

    def _dispute(self, intent: dict[str, Any], doubt: Doubt) -> None:
        taken_back = [one["payment_intent"] for one in (*self.bank.refunds, *self.bank.disputes)]
        if intent["id"] in taken_back:
            return
        chance, number = doubt.chance, len(self.bank.disputes)
        self.world.story.count("disputed")
        self.world.story.tell("bank", f"takes {intent['amount_received']} cents back")
        self.events.send(self.bank.dispute(intent["id"], intent["amount_received"]), chance)

        def decide() -> None:
            self.world.story.count("dispute won" if doubt.won else "dispute lost")
            self.world.story.tell("bank", f"the dispute is {'won' if doubt.won else 'lost'}")
            self.events.send(self.bank.close_dispute(doubt.won, number), chance)

        self.world.at(doubt.decided_after_s, decide)

    async def refuse(self) -> None:
        self._refuse(self.world.acting.choice((None, "card_declined", "authentication_required")))

    def _refuse(self, refusal: str | None) -> None:
        self.bank.refusal = refusal
        self.world.story.tell("bank", f"charges with nobody present: {refusal or 'allowed'}")

    async def look(self) -> None:
        """Whoever comes back from the page."""
        rows = self.world.query("SELECT id, organization_id FROM card_payments ORDER BY created_at, id")
        if not rows:
            return
        top_up_id, organization_id = self.world.acting.choice(rows)
        organization = next(one for one in self.world.organizations if one.id == organization_id)
        path = f"/organizations/{organization_id}/billing/top-ups/{top_up_id}"
        await self.users.ask_for(organization, "look at a payment", "GET", path, None)

    def pay_pages_of_refused_charges(self) -> None:
        """A person does what the bank wanted to see them do."""
        for session_id, session in self.bank.sessions.items():
            if session["mode"] == "payment" and self.bank.is_open(session_id):
                self._pay_later(session_id, 1.0)

    def _some(self) -> Organization:
        return self.world.acting.choice(self.world.organizations)

    def _some_payment(self) -> dict[str, Any] | None:
        paid = [one for one in self.bank.intents.values() if one["status"] == "succeeded"]
        return self.world.acting.choice(paid) if paid else None
