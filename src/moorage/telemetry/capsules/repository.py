"""SQL of crash capsules: which are to be written, writing one, reading them."""

from sqlalchemy import and_, func, or_, select, text, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.models import NodeRow
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.states import ReplicaState
from moorage.kit.pagination import PageRequest
from moorage.telemetry.capsules.models import CrashCapsuleRow
from moorage.telemetry.capsules.schemas import CapsuleContent, LastLine
from moorage.telemetry.logs.models import LogLineRow
from moorage.telemetry.logs.streams import STREAM_OF

LAST_LINES = 200
_WITHOUT_CAPSULE = text("replicas.ended_badly AND replicas.capsule_at IS NULL")
"""In the words of the index, which holds only these."""
_LOGS_ARE_IN = or_(
    and_(ReplicaRow.state == ReplicaState.STOPPED, ReplicaRow.collected_at.is_not(None)),
    # Its logs took longer than anybody waits for them, or there are none.
    ReplicaRow.state.in_((ReplicaState.COLLECTED, ReplicaState.REMOVED)),
)


async def list_unwritten(session: AsyncSession, limit: int) -> list[str]:
    query = select(ReplicaRow.id).where(_WITHOUT_CAPSULE, _LOGS_ARE_IN)
    return list((await session.execute(query.limit(limit))).scalars())


async def write_capsule(session: AsyncSession, replica_id: str) -> None:
    """Both or neither: the capsule, and that it is written."""
    marked = (
        update(ReplicaRow)
        .where(ReplicaRow.id == replica_id, ReplicaRow.capsule_at.is_(None))
        .values(capsule_at=func.now())
        .returning(ReplicaRow)
    )
    replica = (await session.execute(marked)).scalar_one_or_none()
    if replica is None:
        return
    query = select(ContainerRow).where(ContainerRow.id == replica.container_id)
    container = (await session.execute(query)).scalar_one()
    content = await _content(session, replica, container)
    session.add(
        CrashCapsuleRow(
            replica_id=replica.id,
            container_id=container.id,
            project_id=container.project_id,
            content=content.model_dump(mode="json"),
        )
    )


async def project_of(session: AsyncSession, container_id: str) -> str | None:
    """Of a container that is there, or was."""
    query = select(ContainerRow.project_id).where(ContainerRow.id == container_id)
    return (await session.execute(query)).scalar_one_or_none()


async def list_capsules(
    session: AsyncSession, container_id: str, paging: PageRequest
) -> list[CrashCapsuleRow]:
    query = select(CrashCapsuleRow).where(CrashCapsuleRow.container_id == container_id)
    position = tuple_(CrashCapsuleRow.written_at, CrashCapsuleRow.replica_id)
    if paging.after is not None:
        query = query.where(position < (paging.after.time, paging.after.id))
    newest_first = query.order_by(CrashCapsuleRow.written_at.desc(), CrashCapsuleRow.replica_id.desc())
    return list((await session.execute(newest_first.limit(paging.limit + 1))).scalars())


async def _content(session: AsyncSession, replica: ReplicaRow, container: ContainerRow) -> CapsuleContent:
    gpus = (
        await session.execute(
            select(NodeRow.gpus).where(NodeRow.engine == replica.engine, NodeRow.name == replica.node)
        )
    ).scalar_one_or_none()
    same_image = container.image_generation == replica.generation
    return CapsuleContent.model_validate(
        {
            "reason": replica.reason,
            "message": replica.message,
            "exit_code": replica.exit_code,
            "slot": replica.slot,
            "generation": replica.generation,
            "image": container.settings.get("image", ""),
            "image_digest": (container.image_digest or container.image_ref) if same_image else None,
            "node": replica.node,
            "gpu_device_ids": replica.gpu_device_ids,
            "gpus": gpus or [],
            "created_at": replica.created_at,
            "started_at": replica.started_at,
            "ready_at": replica.ready_at,
            "ended_at": replica.ended_at,
            "probes": replica.probe_history or [],
            "last_lines": await _last_lines(session, replica.id),
        }
    )


async def _last_lines(session: AsyncSession, replica_id: str) -> list[LastLine]:
    query = (
        select(LogLineRow.time, LogLineRow.stream, LogLineRow.text)
        .where(LogLineRow.replica_id == replica_id)
        .order_by(LogLineRow.sequence.desc())
        .limit(LAST_LINES)
    )
    newest_first = (await session.execute(query)).all()
    return [
        LastLine(time=time, stream=STREAM_OF[stream], text=line) for time, stream, line in newest_first[::-1]
    ]
