"""Buyers, owners and hours for the tests of earnings: rows as the product writes them, at times that the test says.

Time is the test's: hours and spans lie in the past, and `days_pass` moves everything that is written further back.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from moorage.billing.cards.models import CardPaymentRow
from moorage.billing.cards.order import Order
from moorage.billing.cards.provider import Dispute, Facts, Refund
from moorage.billing.cards.service import book
from moorage.billing.earnings.balance_repository import EarningsBalance, earnings_balance
from moorage.billing.earnings.reconciler import EarningsReconciler
from moorage.billing.payouts.schemas import PayoutAccountWrite, PayoutConfirm
from moorage.billing.payouts.service import change_account, confirm_payout, request_payout
from moorage.identity.actor import UserActor
from moorage.kit.clock import system_clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.ids import UserId
from moorage.kit.settings import Settings
from moorage.ledger.accounts import BANK, GRANTS, Kind, credit_of
from moorage.ledger.check_repository import find_differences
from moorage.ledger.hours_repository import Buyer, close, renew
from moorage.ledger.models import HourRow
from moorage.ledger.repository import Posting, post
from moorage.organizations.members.repository import remove_member
from moorage.organizations.models import OrganizationRow
from moorage.reconcile.lease import Lease, LeaseKeeper

KEYRING = Keyring(((b"\x01" * 4, b"\x02" * 32),))
LENGTH = timedelta(seconds=60)
"""Of an hour. Short, so that an oracle can look at each second."""
PRICE = 9_700_000
SETTINGS = Settings(billing_hour_s=60, least_payout_microusd=10_000)
SHARE = SETTINGS.owners_share_percent
OPERATOR = UserActor(UserId("usr_operator"), "operator@example.com", True, None)
TYPE = "community-gpu"


@dataclass
class Payment:
    """By card, as its provider tells of it."""

    id: str
    organization_id: str
    amount_microusd: int
    fingerprint: str | None
    refunds: dict[str, Refund] = field(default_factory=dict)
    disputes: dict[str, Dispute] = field(default_factory=dict)

    @property
    def facts(self) -> Facts:
        return Facts(
            intent_id=f"pi_{self.id}",
            order=Order(self.id),
            created_at=datetime.now(UTC),
            paid=True,
            currency="usd",
            amount_microusd=self.amount_microusd,
            refunds=tuple(self.refunds.values()),
            disputes=tuple(self.disputes.values()),
            card_fingerprint=self.fingerprint,
        )


@dataclass
class Market:
    """One world of buyers and owners. `prefix` keeps those of one database apart."""

    database: Database
    prefix: str = ""
    numbers: int = 0
    _lease: Lease | None = None

    def name(self, kind: str) -> str:
        self.numbers += 1
        return f"{kind}_{self.prefix}{self.numbers}"

    async def execute(self, statement: str, **values: object) -> None:
        async with self.database.transaction() as session:
            await session.execute(text(statement), values)

    async def rows(self, statement: str, **values: object) -> list[tuple[object, ...]]:
        async with self.database.transaction() as session:
            return [tuple(row) for row in await session.execute(text(statement), values)]

    async def organization(self) -> str:
        name = self.name("org")
        await self.execute("INSERT INTO organizations (id, name) VALUES (:id, :id)", id=name)
        return name

    async def person(self, *organizations: str) -> str:
        name = self.name("usr")
        address = f"{name}@example.com"
        row = "INSERT INTO users (id, email, is_operator) VALUES (:id, :email, false)"
        await self.execute(row, id=name, email=address)
        for organization in organizations:
            await self.join(name, organization)
        return name

    async def join(self, person: str, organization: str) -> None:
        await self.execute(
            "INSERT INTO organization_members (organization_id, user_id, role) VALUES (:organization, :person, 'admin') "
            "ON CONFLICT DO NOTHING",
            organization=organization,
            person=person,
        )

    async def leave(self, person: str, organization: str) -> None:
        async with self.database.transaction() as session:
            await remove_member(session, organization, person)

    async def give(self, organization: str, amount: int) -> None:
        await self._post(Kind.CREDIT, organization, GRANTS, amount)

    async def transfer(self, organization: str, amount: int) -> None:
        await self._post(Kind.BANK_TRANSFER, organization, BANK, amount)

    async def pay_by_card(self, organization: str, amount: int, fingerprint: str | None = None) -> Payment:
        payment = Payment(self.name("top"), organization, amount, fingerprint)
        async with self.database.transaction() as session:
            session.add(
                CardPaymentRow(
                    id=payment.id, organization_id=organization, amount_microusd=amount, requested_by="usr"
                )
            )
        await self.tell(payment)
        return payment

    async def tell(self, payment: Payment) -> None:
        """The provider says what became of it, as often as it likes."""
        async with self.database.transaction() as session:
            await book(session, payment.facts, KEYRING, SETTINGS)

    async def refund(self, payment: Payment, amount: int) -> str:
        name = self.name("re")
        payment.refunds[name] = Refund(name, amount, failed=False)
        await self.tell(payment)
        return name

    async def dispute(self, payment: Payment, amount: int | None = None) -> str:
        name = self.name("dp")
        payment.disputes[name] = Dispute(name, amount or payment.amount_microusd, won=False)
        await self.tell(payment)
        return name

    async def buy_hour(
        self,
        buyer: str,
        begins_at: datetime,
        *,
        container: str | None = None,
        slot: int = 0,
        price: int = PRICE,
    ) -> str | None:
        """An hour that begins then, as renewals buy it; None where the credit does not cover it."""
        container = container or f"ctr_{buyer}"
        async with self.database.transaction() as session:
            live = (
                "SELECT id FROM hours WHERE container_id = :container AND slot = :slot AND due_at IS NOT NULL"
            )
            found = await session.execute(text(live), {"container": container, "slot": slot})
            await close(session, list(found.scalars()))
            before = HourRow(id=self.name("before"), slot=slot)
            who = Buyer(buyer, "prj", container, TYPE, price)
            if await renew(session, before, who, begins_at, LENGTH, timedelta()) is not None:
                return None
            query = text("SELECT id FROM hours WHERE renews = :before")
            return str((await session.execute(query, {"before": before.id})).scalar_one())

    async def serve(
        self,
        owner: str,
        replica: str,
        began_at: datetime,
        ended_at: datetime | None,
        *,
        container: str,
        slot: int = 0,
        gateway: str = "gtw_a",
        machine: str | None = None,
    ) -> None:
        await self.execute(
            "INSERT INTO served_spans (gateway_id, replica_id, began_at, ended_at, container_id, slot, instance_type, "
            "machine_id, owner_organization_id) VALUES (:gateway, :replica, :began_at, :ended_at, :container, :slot, :type, "
            ":machine, :owner) ON CONFLICT DO NOTHING",
            gateway=gateway,
            replica=replica,
            began_at=began_at,
            ended_at=ended_at,
            container=container,
            slot=slot,
            type=TYPE,
            machine=machine or f"mch_{owner}",
            owner=owner,
        )

    async def served_hour(
        self, buyer: str, owner: str, *, days_ago: float = 1, machine: str | None = None
    ) -> str:
        """One that was served from its beginning to its end."""
        begins_at = await self.now() - timedelta(days=days_ago)
        container = self.name("ctr")
        hour = await self.buy_hour(buyer, begins_at, container=container)
        assert hour is not None
        replica = self.name("rep")
        await self.serve(owner, replica, begins_at, begins_at + LENGTH, container=container, machine=machine)
        return hour

    async def now(self) -> datetime:
        ((now,),) = await self.rows("SELECT now()")
        assert isinstance(now, datetime)
        return now

    async def days_pass(self, days: float) -> None:
        by = f"- interval '{days} days'"
        async with self.database.transaction() as session:
            for table, columns in _TIMES.items():
                changes = ", ".join(f"{column} = {column} {by}" for column in columns)
                await session.execute(text(f"UPDATE {table} SET {changes}"))

    async def work(self, database: Database | None = None) -> None:
        """As the driver does it: until nothing is due."""
        reconciler = EarningsReconciler(database or self.database, SETTINGS, system_clock)
        lease = await self.lease()
        for _ in range(200):
            due = await reconciler.due(50)
            if not due.keys:
                return
            for key in due.keys:
                await reconciler.reconcile(key, lease)
        raise AssertionError("the same stays due")

    async def lease(self) -> Lease:
        """Held for as long as the test lasts."""
        if self._lease is None:
            its = "UPDATE leases SET expires_at = now() {} WHERE name = 'earnings'"
            await self.execute(its.format("- interval '1 second'"))
            self._lease = await LeaseKeeper(self.database, "earnings", "test", system_clock).acquire()
            assert self._lease is not None
            self._lease.deadline_s = math.inf
            await self.execute(its.format("+ interval '1 day'"))
        return self._lease

    async def balance(self, owner: str) -> EarningsBalance:
        async with self.database.transaction() as session:
            return await earnings_balance(session, owner)

    async def account(self, organization: str, number: str) -> None:
        async with self.database.transaction() as session:
            row = await session.get(OrganizationRow, organization)
            assert row is not None
            wanted = PayoutAccountWrite(holder="Somebody", account=number)
            await change_account(session, KEYRING, SETTINGS, OPERATOR, row, wanted)

    async def ask_for_payout(self, owner: str) -> str:
        async with self.database.transaction() as session:
            row = await session.get(OrganizationRow, owner)
            assert row is not None
            return (await request_payout(session, KEYRING, SETTINGS, OPERATOR, row)).id

    async def confirm(self, payout_id: str, *, sent: bool = False) -> int:
        async with self.database.transaction() as session:
            said = PayoutConfirm(reference="by wire", sent=sent)
            confirmed = await confirm_payout(session, KEYRING, SETTINGS, OPERATOR, payout_id, said)
            return confirmed.amount_microusd

    async def payout(self, owner: str) -> int:
        """All that is payable is sent; how much that was."""
        return await self.confirm(await self.ask_for_payout(owner))

    async def differences(self) -> Sequence[object]:
        async with self.database.transaction() as session:
            found = await find_differences(session)
            total = (
                await session.execute(text("SELECT sum(amount_microusd) FROM ledger_entries"))
            ).scalar_one()
            assert not total, "the sum of all entries"
        return found

    async def _post(self, kind: Kind, organization: str, source: str, amount: int) -> None:
        async with self.database.transaction() as session:
            key = self.name("key")
            await post(session, Posting(key, kind, organization, source, credit_of(organization), amount))


_TIMES = {
    "hours": ("bought_at", "begins_at", "expires_at", "settled_at"),
    "hour_moves": ("moved_at",),
    "served_spans": ("began_at", "ended_at"),
    "earnings": (
        *("hour_began_at", "hour_ended_at", "card_payable_at", "transfer_payable_at"),
        *("card_matured_at", "transfer_matured_at", "look_at", "created_at"),
    ),
    "past_memberships": ("left_at",),
    "machine_voids": ("at", "heard_at"),
    "payout_accounts": ("changed_at",),
}
