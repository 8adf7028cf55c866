"""What a pass writes about versions: which of them serve, which took over, and which could not be made to."""

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.reconciler.repository import FoundImage, image_json
from moorage.containers.states import ContainerState, Outcome, ReplicaState
from moorage.containers.verdict import Verdict
from moorage.containers.versions import repository
from moorage.containers.views import Plan


async def record_versions(
    session: AsyncSession, loaded: Loaded, plan: Plan, image: FoundImage | Verdict | None, *, as_asked: bool
) -> None:
    row = loaded.container
    if plan.gone:
        await repository.forget_all(session, row.id)
        return
    if isinstance(image, FoundImage):
        await repository.note_image(session, row.id, row.version, image_json(image))
    states = {one.id: ReplicaState(one.state) for one in loaded.replicas}
    before = {one.version for one in loaded.replicas if states[one.id] is ReplicaState.ROUTED}
    states |= {str(move.replica_id): move.to for move in plan.transitions}
    after = {one.version for one in loaded.replicas if states[one.id] is ReplicaState.ROUTED}
    if before != after:
        await repository.note_served(session, row.id, after)
    if row.rollout is not None or not as_asked:
        return  # What becomes of it is decided where the trial ends.
    if row.version in after - before:
        await repository.note_serving(session, row.id, row.version)
    if plan.state is ContainerState.FAILED and row.state != ContainerState.FAILED:
        reason = plan.verdict.message if plan.verdict is not None else None
        await repository.note_outcome(session, row.id, row.version, Outcome.FAILED, reason)
