"""Whose a machine is, and that what it served does not count. An engine of a machine that joined has the machine's id as its name."""

from typing import Any, Literal

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.database import notify
from moorage.machines.channels import MACHINE_VOIDS
from moorage.machines.models import MachineRow, MachineVoidRow


async def owner_of(session: AsyncSession, engine_name: str) -> str | None:
    """The organization that is paid for what runs there; None: the operator's own."""
    query = select(MachineRow.owner_organization_id).where(MachineRow.id == engine_name)
    return (await session.execute(query)).scalar_one_or_none()


def is_owned(engine_name: Any) -> Any:
    """The condition that joins `MachineRow` to a column with the names of engines, of owned machines alone."""
    return (MachineRow.id == engine_name) & MachineRow.owner_organization_id.is_not(None)


async def void_served(
    session: AsyncSession, machine_id: str, reason: Literal["proof_failed", "operator"]
) -> None:
    """The machine is not what its owner says it is: what it served until now and is not payable yet is worth nothing to them. Whoever
    pays owners hears of it (`billing/earnings`)."""
    session.add(MachineVoidRow(machine_id=machine_id, reason=reason))
    await notify(session, MACHINE_VOIDS)
