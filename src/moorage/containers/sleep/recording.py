"""What a pass writes when a container that was woken serves again."""

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.activity import SYSTEM, record_activity
from moorage.containers.models import ContainerRow
from moorage.containers.sleep import repository
from moorage.containers.states import ContainerState
from moorage.containers.views import Plan
from moorage.kit.database import database_now


async def record_awake(session: AsyncSession, row: ContainerRow, plan: Plan) -> None:
    if plan.state is not ContainerState.RUNNING:
        return  # That it failed, or was stopped, has a record of its own.
    woken_at = await repository.note_served(session, row.id)
    if woken_at is None:
        return
    took_s = ((await database_now(session)) - woken_at).total_seconds()
    record_activity(
        session,
        project_id=row.project_id,
        container_id=row.id,
        actor=SYSTEM,
        kind="container.awake",
        message=f"It serves again, {took_s:.1f} s after it was woken.",
        details={"took_s": round(took_s, 3), "generation": row.generation},
    )
