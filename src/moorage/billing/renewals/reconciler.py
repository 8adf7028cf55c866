"""The renewals reconciler: hours that end are followed by the next one, while there is credit.

Purpose: every slot that serves has an hour that is paid for, bought shortly before the last one ends.
Invariants: an hour is renewed at most once; nothing is bought once a stop is decided; of an organization's
containers the oldest comes first. What passed while nobody was here to account for it is not charged.
When it fails: a container is one transaction, so a death leaves each either renewed or due. One whose renewal raises is
reported and tried again after a pause, and the others of its organization go on. A slot that cannot be paid
drains within the time that is paid; a container that falls below its minimum stops, and its admins are told. The same
goes for one that a monthly spending limit leaves no room for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.alerts.rules import LIMIT_REACHED_PERCENT
from moorage.billing.alerts.service import tell_of_limit
from moorage.billing.alerts.words import stop_mail
from moorage.billing.clock_jumps import ClockJumps
from moorage.billing.mails import tell_admins
from moorage.billing.renewals import repository
from moorage.billing.renewals.repository import DueHours
from moorage.catalog.repository import find_instance_type
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.paying import Wanted, has_to_be_paid, uses_hour, wanted
from moorage.containers.repository import mark_due
from moorage.containers.service import stop_because
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import Reason
from moorage.containers.trial import canary_replicas
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database, database_now
from moorage.kit.errors import LeaseLostError, MoorageError
from moorage.kit.settings import Settings
from moorage.ledger.hours_repository import Buyer, hold_next, renew
from moorage.ledger.models import HourRow
from moorage.ledger.rules import Renewal, next_hour, renewal, renewal_lead
from moorage.ledger.spending import Refused
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

PAUSE_AFTER_FAILURE_S = 5.0


@dataclass
class RenewalsReconciler:
    database: Database
    keyring: Keyring
    settings: Settings
    clock: Clock
    name: str = "renewals"
    channels: tuple[str, ...] = ()
    _postponed: dict[str, float] = field(init=False, default_factory=dict)
    """Organization → when, on the monotonic clock, it is tried again."""
    _jumps: ClockJumps = field(init=False)

    def __post_init__(self) -> None:
        self._jumps = ClockJumps(self.clock)

    async def due(self, limit: int) -> Due:
        now_s = self.clock.monotonic()
        self._postponed = {key: at_s for key, at_s in self._postponed.items() if at_s > now_s}
        async with self.database.reading() as session:
            # It would end every hour at once, or none for long.
            self._jumps.refuse(await database_now(session), "No hour is bought")
            keys, next_in_s = await repository.due_organizations(session, limit, self._postponed.keys())
        # A second try that waits for a look in case a hint was lost may come when the hour is over.
        waits = [at_s - now_s for at_s in self._postponed.values()]
        return Due(keys, min([*waits, *([next_in_s] if next_in_s is not None else [])], default=None))

    async def reconcile(self, key: str, lease: Lease) -> None:
        async with self.database.reading() as session:
            container_ids = await repository.due_containers(session, key)
        failures: dict[str, Exception] = {}
        for container_id in container_ids:
            try:
                async with self.database.transaction() as session:
                    await lease.guard(session)
                    await self._renew_container(session, container_id)
            except LeaseLostError:
                raise
            except Exception as exc:
                log.exception("renewal_failed", organization_id=key, container_id=container_id)
                failures[container_id] = exc
        if failures:
            first_id, first = next(iter(failures.items()))
            raise MoorageError(
                f"{len(failures)} of {len(container_ids)} containers were not renewed; {first_id}: {first!r}"
            ) from first

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        self._postponed[key] = self.clock.monotonic() + PAUSE_AFTER_FAILURE_S

    async def lead(self, lease: Lease) -> None:
        self._jumps.forget()

    async def _renew_container(self, session: AsyncSession, container_id: str) -> None:
        due = await repository.lock_due_hours(session, container_id)
        refused: dict[str, Refused] = {}
        for hour in due.hours:
            assert hour.expires_at is not None, "a constraint says so"
            replicas = _replicas_in(due, hour)
            serves = any(has_to_be_paid(one, hour.instance_type) for one in replicas)
            match renewal(serves=serves, comes_up=bool(replicas), expires_at=hour.expires_at, now=due.now):
                case Renewal.BUY | Renewal.HOLD as kind:
                    hour.due_at = None
                    await session.flush()  # A slot has one live hour: this one ends before the next begins.
                    refusal = await self._pay(session, due, hour, kind)
                    if refusal is not None:
                        refused[hour.id] = refusal
                case Renewal.WAIT:
                    hour.due_at = hour.expires_at
                case Renewal.CLOSE:
                    hour.due_at = None
        if refused and due.container is not None:
            await self._drain(session, due, due.container, refused)

    async def _pay(
        self, session: AsyncSession, due: DueHours, hour: HourRow, kind: Renewal
    ) -> Refused | None:
        sibling_type = _taken_in(due, hour)
        instance_type = await find_instance_type(session, sibling_type or hour.instance_type)
        assert instance_type is not None, "hours of a type keep it in the catalogue"
        assert hour.expires_at is not None, "a constraint says so"
        buyer = Buyer(
            hour.organization_id,
            hour.project_id,
            hour.container_id,
            hour.instance_type,
            instance_type.price_per_hour_microusd,
            sibling_type,
        )
        if kind is Renewal.HOLD:
            return await hold_next(session, hour, buyer)
        length = timedelta(seconds=self.settings.billing_hour_s)
        lead = renewal_lead(self.settings.billing_hour_s, self.settings.drain_timeout_s)
        begins_at, _ = next_hour(hour.expires_at, due.now, length)
        return await renew(session, hour, buyer, begins_at, length, lead)

    async def _drain(
        self, session: AsyncSession, due: DueHours, container: ContainerRow, refused: Mapping[str, Refused]
    ) -> None:
        """What cannot be paid goes; below its minimum, all of it does."""
        unpaid = {one.id for hour in due.hours if hour.id in refused for one in _replicas_in(due, hour)}
        await repository.mark_unfunded(session, sorted(unpaid))
        # Beyond the number that is wanted they go as well, as soon as a pass looks.
        funded = {
            one.slot
            for one in due.replicas
            if one.id not in unpaid
            and one.slot < container.desired_replicas
            and uses_hour(one, one.instance_type)
        }
        organization_id = due.hours[0].organization_id
        log.warning("renewal_refused", container_id=container.id, hours=sorted(refused))
        limit = next((one.limit for one in refused.values() if one.limit is not None), None)
        if limit is not None:
            await tell_of_limit(
                session, self.keyring, self.settings, organization_id, limit, LIMIT_REACHED_PERCENT
            )
        if len(funded) >= ContainerSettings.from_json(container.settings).min_replicas:
            await mark_due(session, [container.id])
            return
        reason = Reason.STOPPED_NO_CREDIT if limit is None else Reason.SPENDING_LIMIT
        await stop_because(session, container, reason)
        subject, text = stop_mail(container.name, limit)
        await tell_admins(session, self.keyring, organization_id, subject=subject, text=text)


def _replicas_in(due: DueHours, hour: HourRow) -> list[ReplicaRow]:
    """Those that the hour, or the one after it, is for. None once it is decided that the slot goes: all of them do
    while the organization is suspended, and what is left of their hours is there when it is resumed. Nothing is bought
    for what is not there; if it comes back, the pass that finds it buys."""
    row = due.container
    if row is None or not _wanted(due, row).includes(hour.slot):
        return []
    return [one for one in due.replicas if one.slot == hour.slot and uses_hour(one, hour.instance_type)]


def _taken_in(due: DueHours, hour: HourRow) -> str | None:
    """The type of the other kind that the slot's replica took, if it did; of two, the one that stays."""
    newest = max(_replicas_in(due, hour), key=lambda one: (one.moving_since is None, one.created_at))
    return newest.sibling_type


def _wanted(due: DueHours, row: ContainerRow) -> Wanted:
    asleep = row.asleep_since is not None
    of_canary = canary_replicas(row)
    return wanted(row.desired_state, row.desired_replicas, of_canary, suspended=due.suspended, asleep=asleep)
