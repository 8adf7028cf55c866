"""A machine's row as the API shows it."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import list_nodes
from moorage.kit.database import database_now
from moorage.kit.portions import portions
from moorage.kit.settings import Settings
from moorage.machines import repository, service
from moorage.machines.join_script import JoinScript, join_command, join_script, lent_join_script
from moorage.machines.models import JoinTokenRow, MachineRow
from moorage.machines.reliability import StateChange, days_of, presence, reliability, tier
from moorage.machines.schemas import MachineAdded, MachineDay, MachineRead
from moorage.machines.states import MachineState, Speaker
from moorage.machines.words import condition


async def shown(session: AsyncSession, row: MachineRow, *, for_operator: bool) -> MachineRead:
    [one] = await shown_all(session, [row], for_operator=for_operator)
    return one


async def shown_all(
    session: AsyncSession, rows: Sequence[MachineRow], *, for_operator: bool
) -> list[MachineRead]:
    handovers = {node.engine: node.gpu_handover for node in await list_nodes(session)} if rows else {}
    found = list[MachineRead]()
    for some in portions(rows, repository.HISTORIES_AT_ONCE):
        found += await _shown_some(session, some, handovers, for_operator=for_operator)
    return found


async def _shown_some(
    session: AsyncSession, rows: Sequence[MachineRow], handovers: Mapping[str, str], *, for_operator: bool
) -> list[MachineRead]:
    deadlines = await repository.join_deadlines(session, [row.id for row in rows])
    histories = await repository.state_changes(
        session, [row.id for row in rows if row.owner_organization_id is not None]
    )
    now = await database_now(session)
    found = []
    for row in rows:
        is_lent = row.owner_organization_id is not None
        changes = histories.get(row.id, ())
        seen = presence(changes, now) if is_lent else None
        found.append(
            MachineRead(
                id=row.id,
                name=row.name,
                infrastructure=row.infrastructure,
                state=MachineState(row.state),
                state_since=row.state_since,
                returns_as=service.life_of(row).before_loss,
                message=condition(
                    service.life_of(row),
                    has_joined=row.joined_at is not None,
                    held_because=row.held_because,
                    proof_failure=row.proof_failure,
                ),
                stopped_by=Speaker(row.stopped_by) if row.stopped_by is not None else None,
                paused_until=row.paused_until,
                empty_by=row.empty_by,
                owner_organization_id=row.owner_organization_id,
                tier=tier(seen) if seen is not None else None,
                reliability=round(reliability(seen), 4) if seen is not None else None,
                days=_days(changes, now) if is_lent else None,
                proven_at=row.proven_at,
                proof_failure=row.proof_failure,
                proof_due_at=row.proof_due_at if for_operator else None,
                runtime=row.facts.get("runtime"),
                gpu_handover=handovers.get(row.id, "none"),
                address=row.address,
                gpus=list(row.facts.get("gpus", ())),
                facts=row.facts,
                replicas=row.replicas,
                created_at=row.created_at,
                joins_until=deadlines.get(row.id),
                joined_at=row.joined_at,
                seen_at=row.seen_at,
            )
        )
    return found


def _days(changes: Sequence[StateChange], now: datetime) -> list[MachineDay]:
    return [
        MachineDay(
            day=one.day,
            there_s=int(one.there.total_seconds()),
            away_s=int(one.away.total_seconds()),
            lost_s=int(one.lost.total_seconds()),
        )
        for one in days_of(changes, now)
    ]


async def script_for(settings: Settings, *, is_lent: bool) -> JoinScript:
    if is_lent:
        return JoinScript("join-community.sh", await asyncio.to_thread(lent_join_script, settings))
    return JoinScript("join.sh", await asyncio.to_thread(join_script, settings.api_base_url))


def shown_command(
    settings: Settings, script: JoinScript, machine_id: str, token_row: JoinTokenRow, token: str
) -> MachineAdded:
    return MachineAdded(
        id=machine_id,
        token=token,
        command=join_command(settings.api_base_url, script, token),
        expires_at=token_row.expires_at,
    )
