from typing import Any

from sqlalchemy import case, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.doctor.models import NetworkDiagnosisRow
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.states import ReplicaState

_RUNS = (ReplicaState.STARTING, ReplicaState.READY, ReplicaState.ROUTED)
_SERVING_FIRST = case({state: -place for place, state in enumerate(_RUNS)}, value=ReplicaRow.state, else_=1)


async def find(session: AsyncSession, container_id: str) -> NetworkDiagnosisRow | None:
    return await session.get(NetworkDiagnosisRow, container_id)


async def ask(session: AsyncSession, container_id: str, actor_id: str) -> bool:
    """False where one is asked for already."""
    asked: dict[str, Any] = {
        "state": "asked",
        "asked_at": func.now(),
        "asked_by": actor_id,
        "finished_at": None,
        "replica_id": None,
        "node": None,
        "message": None,
        "findings": None,
    }
    upsert = (
        insert(NetworkDiagnosisRow)
        .values(container_id=container_id, **asked)
        .on_conflict_do_update(
            index_elements=[NetworkDiagnosisRow.container_id],
            set_=asked,
            where=NetworkDiagnosisRow.state != "asked",
        )
        .returning(NetworkDiagnosisRow.container_id)
    )
    return (await session.execute(upsert)).scalar_one_or_none() is not None


async def list_asked(session: AsyncSession, limit: int) -> list[str]:
    query = select(NetworkDiagnosisRow.container_id).where(NetworkDiagnosisRow.state == "asked")
    return list((await session.execute(query.order_by(NetworkDiagnosisRow.asked_at).limit(limit))).scalars())


async def container_of(session: AsyncSession, container_id: str) -> ContainerRow:
    return (await session.execute(select(ContainerRow).where(ContainerRow.id == container_id))).scalar_one()


async def running_replica(session: AsyncSession, container_id: str) -> ReplicaRow | None:
    """One that serves, if there is one: of the newest generation, the first slot."""
    query = select(ReplicaRow).where(
        ReplicaRow.container_id == container_id,
        ReplicaRow.state.in_(_RUNS),
        ReplicaRow.engine_id.is_not(None),
    )
    best_first = query.order_by(_SERVING_FIRST, ReplicaRow.generation.desc(), ReplicaRow.slot)
    return (await session.execute(best_first.limit(1))).scalar_one_or_none()


async def finish(session: AsyncSession, container_id: str, **values: Any) -> bool:
    """False where somebody has finished it already."""
    finished = (
        update(NetworkDiagnosisRow)
        .where(NetworkDiagnosisRow.container_id == container_id, NetworkDiagnosisRow.state == "asked")
        .values(finished_at=func.now(), **values)
        .returning(NetworkDiagnosisRow.container_id)
    )
    return (await session.execute(finished)).scalar_one_or_none() is not None
