"""What the operator does to the catalogue. Sizes never change: replicas that run were promised them.

A new price is for hours that are bought from then on. What is paid or held was agreed on before, and stays so.
"""

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog import repository
from moorage.catalog.models import InstanceTypeRow
from moorage.identity.actor import Actor
from moorage.kit.errors import ConflictError, NotFoundError
from moorage.organizations.audit.repository import record_audit


async def add(session: AsyncSession, actor: Actor, row: InstanceTypeRow) -> InstanceTypeRow:
    row.position = await repository.next_position(session)
    session.add(row)
    try:
        await session.flush()
    except IntegrityError as exc:
        if "pk_instance_types" in str(exc.orig):
            raise ConflictError(
                f"An instance type {row.name} already exists.", code="instance_type_exists"
            ) from exc
        raise
    record_audit(
        session,
        None,
        actor=actor.id,
        action="instance_type.create",
        target=row.name,
        price_per_hour_microusd=row.price_per_hour_microusd,
    )
    return row


async def change(
    session: AsyncSession,
    actor: Actor,
    name: str,
    *,
    price_per_hour_microusd: int | None,
    enabled: bool | None,
) -> InstanceTypeRow:
    """None leaves it as it is."""
    row = await _locked(session, name)
    wanted = {"price_per_hour_microusd": price_per_hour_microusd, "enabled": enabled}
    changes = {
        field: {"from": getattr(row, field), "to": value}
        for field, value in wanted.items()
        if value is not None and value != getattr(row, field)
    }
    for field, change in changes.items():
        setattr(row, field, change["to"])
    if changes:
        record_audit(session, None, actor=actor.id, action="instance_type.change", target=name, **changes)
    await session.flush()
    return row


async def delete(session: AsyncSession, actor: Actor, name: str) -> None:
    row = await _locked(session, name)
    await session.delete(row)
    record_audit(session, None, actor=actor.id, action="instance_type.delete", target=name)
    try:
        await session.flush()
    except IntegrityError as exc:
        raise ConflictError(
            f"Containers use or used {name}, and their hours refer to it. Disable it instead.",
            code="instance_type_in_use",
        ) from exc


async def _locked(session: AsyncSession, name: str) -> InstanceTypeRow:
    row = await repository.lock_instance_type(session, name)
    if row is None:
        raise NotFoundError("There is no such instance type.")
    return row
