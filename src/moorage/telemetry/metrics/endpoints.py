from datetime import UTC, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import AwareDatetime

from moorage.containers.access import ContainerAccess, readable_container
from moorage.kit.errors import InvalidInputError
from moorage.kit.web import TheClock, TheSession, TheSettings
from moorage.telemetry.metrics.schemas import GpuMetrics, Metrics, ReplicaMetrics
from moorage.telemetry.metrics.service import Wanted, read_metrics
from moorage.telemetry.usage.service import ReplicaFigures

router = APIRouter(tags=["metrics"])

DEFAULT_RANGE = timedelta(minutes=15)
_Time = AwareDatetime | None


@router.get("/containers/{container_id}/metrics", summary="Get metrics")
async def get_metrics(
    access: Annotated[ContainerAccess, Depends(readable_container)],
    session: TheSession,
    clock: TheClock,
    settings: TheSettings,
    from_time: Annotated[_Time, Query(alias="from")] = None,
    to_time: Annotated[_Time, Query(alias="to")] = None,
    step: Annotated[int, Query(ge=1, le=86_400)] = 1,
) -> Metrics:
    """Returns replicas, requests, response times, requests in flight and queued, and the processor, memory and GPU
    use of each replica. Default: the last 15 minutes. A step that is not known yet is null. The step is the shortest
    round one that is no finer than you ask for, cuts the range into at most 500 pieces and is still kept: seconds for
    15 minutes, 10 s for a day, minutes for 30 days. Response times are counted in steps of 10 s; a shorter step has
    those of its 10 s. Statuses come only in steps of 10 s and longer.
    """
    now = clock.now()
    try:
        until = to_time.astimezone(UTC) if to_time is not None else now
        since = from_time.astimezone(UTC) if from_time is not None else until - DEFAULT_RANGE
    except OverflowError as exc:  # the first or last day there is, in a far time zone
        raise InvalidInputError("from or to is out of range.") from exc
    wanted = Wanted(access.container.id, since, until, step)
    kept = timedelta(days=settings.log_retention_days)
    found = await read_metrics(session, wanted, now, kept)
    return Metrics(
        step_s=found.steps.step_s,
        times=list(found.steps.times),
        series=found.series,
        replicas=[_replica(one) for one in found.replicas],
    )


def _replica(figures: ReplicaFigures) -> ReplicaMetrics:
    gpus = [GpuMetrics(device_id=device_id, series=series) for device_id, series in figures.gpus.items()]
    return ReplicaMetrics(replica_id=figures.replica_id, slot=figures.slot, series=figures.series, gpus=gpus)
