from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, exists, func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from moorage.containers.models import ContainerRow
from moorage.identity.users.models import UserRow
from moorage.kit.database import notify
from moorage.kit.ids import new_webhook_message_id
from moorage.kit.pagination import PageRequest
from moorage.organizations.models import MemberRow, ProjectRow
from moorage.organizations.permissions import Role
from moorage.webhooks.channels import WEBHOOKS
from moorage.webhooks.chat import Names
from moorage.webhooks.models import DeliveryRow, WebhookRow

KEPT = timedelta(days=7)
MOST_KEPT = 1000
"""Messages of one webhook that were delivered or given up."""
_ERROR_LENGTH = 300
_maker_manages = exists().where(
    MemberRow.organization_id == WebhookRow.organization_id,
    MemberRow.user_id == WebhookRow.created_by,
    MemberRow.role == Role.ADMIN,
)
_maker = exists().where(UserRow.id == WebhookRow.created_by, UserRow.is_operator.is_(False))
_MAKER_LOST_THE_RIGHT = and_(_maker, ~_maker_manages)


@dataclass(frozen=True)
class Waiting:
    webhook: WebhookRow
    delivery: DeliveryRow
    now_epoch_s: int
    maker_lost_the_right: bool
    """Whoever made it is no longer an admin of the organization."""
    names: Names
    """What its ids are called, where people are told of it."""


async def count_webhooks(session: AsyncSession, organization_id: str) -> int:
    query = select(func.count()).where(WebhookRow.organization_id == organization_id)
    return (await session.execute(query.select_from(WebhookRow))).scalar_one()


async def list_webhooks(session: AsyncSession, organization_id: str, page: PageRequest) -> list[WebhookRow]:
    query = select(WebhookRow).where(WebhookRow.organization_id == organization_id)
    if page.after is not None:
        query = query.where(tuple_(WebhookRow.created_at, WebhookRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(WebhookRow.created_at.desc(), WebhookRow.id.desc())
    return list((await session.execute(newest_first.limit(page.limit + 1))).scalars())


async def find_webhook(session: AsyncSession, organization_id: str, webhook_id: str) -> WebhookRow | None:
    query = select(WebhookRow).where(
        WebhookRow.id == webhook_id, WebhookRow.organization_id == organization_id
    )
    return (await session.execute(query.with_for_update())).scalar_one_or_none()


async def remove_webhook(session: AsyncSession, webhook_id: str) -> None:
    await session.execute(delete(WebhookRow).where(WebhookRow.id == webhook_id))


async def list_deliveries(session: AsyncSession, webhook_id: str, page: PageRequest) -> list[DeliveryRow]:
    query = select(DeliveryRow).where(DeliveryRow.webhook_id == webhook_id)
    if page.after is not None:
        query = query.where(tuple_(DeliveryRow.created_at, DeliveryRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(DeliveryRow.created_at.desc(), DeliveryRow.id.desc())
    return list((await session.execute(newest_first.limit(page.limit + 1))).scalars())


async def add_delivery(
    session: AsyncSession, webhook_id: str, event: str, payload: dict[str, Any]
) -> DeliveryRow:
    row = DeliveryRow(id=new_webhook_message_id(), webhook_id=webhook_id, event=event, payload=payload)
    session.add(row)
    await session.flush()
    await session.refresh(row)
    await notify(session, WEBHOOKS)
    return row


async def due_webhooks(
    session: AsyncSession, limit: int, share: int, under_way: Collection[str] = ()
) -> tuple[list[str], float | None]:
    """Webhooks and not deliveries: to each receiver one message at a time, so that a slow one delays nobody else.

    Of one organization, and of one person's in all organizations, no more than `share` at a time, those that are under
    way included; whoever has the fewest is next.
    """
    first_due = func.min(DeliveryRow.next_try_at)
    waiting = (
        select(
            DeliveryRow.webhook_id,
            WebhookRow.organization_id,
            WebhookRow.created_by,
            func.extract("epoch", first_due - func.clock_timestamp()).label("in_s"),
            DeliveryRow.webhook_id.in_(under_way).label("under_way"),
        )
        .join(WebhookRow, WebhookRow.id == DeliveryRow.webhook_id)
        .where(DeliveryRow.next_try_at.is_not(None))
        .group_by(DeliveryRow.webhook_id, WebhookRow.organization_id, WebhookRow.created_by)
    ).subquery()
    turn = func.greatest(
        _turn(waiting.c.organization_id, waiting.c), _turn(waiting.c.created_by, waiting.c)
    ).label("turn")
    in_turn = select(waiting.c.webhook_id, waiting.c.in_s, turn).subquery()
    now = (
        select(in_turn.c.webhook_id)
        .where(in_turn.c.in_s <= 0, in_turn.c.turn <= share)
        .order_by(in_turn.c.turn, in_turn.c.in_s)
        .limit(limit)
    )
    later = select(func.min(waiting.c.in_s)).where(waiting.c.in_s > 0)
    next_in_s = (await session.execute(later)).scalar_one()
    keys = list((await session.execute(now)).scalars())
    return keys, float(next_in_s) if next_in_s is not None else None


def _turn(owner: ColumnElement[Any], waiting: ReadOnlyColumnCollection[str, Any]) -> ColumnElement[int]:
    """The how manyeth of its owner's it is. What is not due yet comes last, so it takes no turn of what is."""
    order = (waiting.under_way.desc(), waiting.in_s)
    return func.row_number().over(partition_by=owner, order_by=order)


async def next_delivery(session: AsyncSession, webhook_id: str) -> Waiting | None:
    query = (
        select(WebhookRow, DeliveryRow, func.extract("epoch", func.now()), _MAKER_LOST_THE_RIGHT)
        .join(DeliveryRow, DeliveryRow.webhook_id == WebhookRow.id)
        .where(WebhookRow.id == webhook_id, DeliveryRow.next_try_at <= func.now())
        .order_by(DeliveryRow.next_try_at, DeliveryRow.created_at, DeliveryRow.id)
        .limit(1)
    )
    found = (await session.execute(query)).one_or_none()
    if found is None:
        return None
    webhook, delivery, now_epoch_s, maker_lost_the_right = found
    names = await _names(session, delivery.payload["data"]) if webhook.format == "chat" else Names()
    return Waiting(webhook, delivery, int(now_epoch_s), maker_lost_the_right, names)


async def _names(session: AsyncSession, data: Mapping[str, Any]) -> Names:
    """As they are now. An id that is nobody's any more has no name."""
    queries = {
        "project": select(ProjectRow.name).where(ProjectRow.id == data.get("project_id")),
        "container": select(ContainerRow.name).where(ContainerRow.id == data.get("container_id")),
        "actor": select(UserRow.email).where(UserRow.id == data.get("actor")),
    }
    return Names(**{name: (await session.execute(query)).scalar() for name, query in queries.items()})


async def lock_webhook(session: AsyncSession, webhook_id: str) -> WebhookRow | None:
    """As it is now: while a receiver was spoken to, an admin may have changed it, or removed it."""
    query = select(WebhookRow).where(WebhookRow.id == webhook_id).with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def maker_lost_the_right(session: AsyncSession, webhook_id: str) -> bool:
    query = select(_MAKER_LOST_THE_RIGHT).where(WebhookRow.id == webhook_id)
    return (await session.execute(query)).scalar_one()


async def record_delivered(session: AsyncSession, delivery_id: str, status: int) -> None:
    values = {
        "delivered_at": func.now(),
        "next_try_at": None,
        "tries": DeliveryRow.tries + 1,
        "status": status,
        "error": None,
    }
    await session.execute(update(DeliveryRow).where(DeliveryRow.id == delivery_id).values(values))


async def record_failed(
    session: AsyncSession, delivery_id: str, status: int | None, error: str, again_in: timedelta | None
) -> None:
    values = {
        "next_try_at": func.now() + again_in if again_in is not None else None,
        "tries": DeliveryRow.tries + 1,
        "status": status,
        "error": error[:_ERROR_LENGTH],
    }
    await session.execute(update(DeliveryRow).where(DeliveryRow.id == delivery_id).values(values))


async def disable(session: AsyncSession, webhook_id: str, reason: str) -> None:
    """What still waits for it is given up."""
    values = {"disabled_at": func.now(), "disabled_reason": reason}
    await session.execute(update(WebhookRow).where(WebhookRow.id == webhook_id).values(values))
    waiting = (DeliveryRow.webhook_id == webhook_id) & DeliveryRow.next_try_at.is_not(None)
    await session.execute(update(DeliveryRow).where(waiting).values(next_try_at=None))


async def postpone(session: AsyncSession, webhook_id: str) -> None:
    """Something of ours failed, not the receiver: that is no try."""
    due = (DeliveryRow.webhook_id == webhook_id) & (DeliveryRow.next_try_at <= func.now())
    later = func.now() + timedelta(seconds=10)
    await session.execute(update(DeliveryRow).where(due).values(next_try_at=later))


async def count_waiting(session: AsyncSession, webhook_id: str, event: str | None = None) -> int:
    waiting = (DeliveryRow.webhook_id == webhook_id) & DeliveryRow.next_try_at.is_not(None)
    query = select(func.count()).where(waiting if event is None else waiting & (DeliveryRow.event == event))
    return (await session.execute(query)).scalar_one()


async def purge_deliveries(session: AsyncSession) -> None:
    """The old ones, and of each webhook those behind its newest. What still waits is not history."""
    await session.execute(delete(DeliveryRow).where(DeliveryRow.created_at < func.now() - KEPT))
    newest_first = (DeliveryRow.created_at.desc(), DeliveryRow.id.desc())
    number = func.row_number().over(partition_by=DeliveryRow.webhook_id, order_by=newest_first)
    settled = (
        select(DeliveryRow.id, number.label("number")).where(DeliveryRow.next_try_at.is_(None)).subquery()
    )
    beyond = select(settled.c.id).where(settled.c.number > MOST_KEPT)
    await session.execute(delete(DeliveryRow).where(DeliveryRow.id.in_(beyond)))
