"""What people do with money: they pay on pages, save cards, take payments back; banks refuse and dispute."""

from dataclasses import dataclass
from typing import Any

from tests.simulation.actors import Act, Users
from tests.simulation.payments import Bank, Events
from tests.simulation.world import Organization, World

_USD = 1_000_000
_PAYS_AFTER_S = (0.5, 30.0, 300.0, 5000.0, 40_000.0)


@dataclass
class Payers:
    world: World
    users: Users
    bank: Bank
    events: Events

    def acts(self) -> list[tuple[int, str, Act]]:
        return [
            (5, "pay by card", self.top_up),
            (3, "save a card", self.save_card),
            (3, "agree to automatic payments", self.agree),
            (1, "remove the card", self.remove_card),
            (2, "refund", self.refund),
            (2, "dispute", self.dispute),
            (1, "decide a dispute", self.decide_dispute),
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
        organization, chance = self._some(), self.world.acting
        saved = f"SELECT FROM saved_cards WHERE organization_id = '{organization.id}' AND brand IS NOT NULL"
        if not self.world.query(saved):
            return await self._save_card_of(organization)
        threshold = chance.choice((1, 19, 40))
        body = {
            "threshold_microusd": threshold * _USD,
            "amount_microusd": chance.choice((5, 10)) * _USD,
            "monthly_cap_microusd": chance.choice((10, 30, 200)) * _USD,
        }
        path = f"/organizations/{organization.id}/billing/auto-top-up"
        await self.users.ask_for(organization, f"charge my card below {threshold} USD", "PUT", path, body)
        return None

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
        if (intent := self._some_payment()) is None:
            return
        taken_back = [one["payment_intent"] for one in (*self.bank.refunds, *self.bank.disputes)]
        if intent["id"] in taken_back:
            return
        self.world.story.count("disputed")
        self.world.story.tell("bank", f"takes {intent['amount_received']} cents back")
        self.events.send(self.bank.dispute(intent["id"], intent["amount_received"]), self.world.acting)

    async def decide_dispute(self) -> None:
        if self.bank.disputes and self.bank.disputes[-1]["status"] == "needs_response":
            won = self.world.acting.random() < 0.5
            self.world.story.count("dispute won" if won else "dispute lost")
            self.world.story.tell("bank", f"the dispute is {'won' if won else 'lost'}")
            self.events.send(self.bank.close_dispute(won), self.world.acting)

    async def refuse(self) -> None:
        self.bank.refusal = self.world.acting.choice((None, "card_declined", "authentication_required"))
        self.world.story.tell("bank", f"charges with nobody present: {self.bank.refusal or 'allowed'}")

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
