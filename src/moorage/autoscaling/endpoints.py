from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from moorage.autoscaling import repository, service
from moorage.autoscaling.comparison import compare
from moorage.autoscaling.replay import Replayed
from moorage.autoscaling.replay_service import LONGEST, read_question
from moorage.autoscaling.repository import ReplicaFacts
from moorage.autoscaling.schemas import (
    Autoscaling,
    AutoscalingDecision,
    Replay,
    ReplayedDecision,
    ReplayFigures,
    ReplayRequest,
    ScaleRequest,
    ScalingPolicy,
    ScalingState,
)
from moorage.containers.access import ContainerAccess, manageable_container, readable_container
from moorage.containers.repository import ready_count_and_prices
from moorage.containers.schemas import Container
from moorage.containers.shown import answer
from moorage.containers.spec import ContainerSettings, ResourceMode
from moorage.kit.errors import FieldError, InvalidInputError
from moorage.kit.jobs.jobs import JobTooLongError
from moorage.kit.pagination import PageRequest, Position, page_of, page_request
from moorage.kit.web import TheClock, TheJobs, TheSession, TheSettings

router = APIRouter(tags=["autoscaling"])
Readable = Annotated[ContainerAccess, Depends(readable_container)]
Manageable = Annotated[ContainerAccess, Depends(manageable_container)]


@router.get("/containers/{container_id}/autoscaling", summary="Get autoscaling")
async def get_autoscaling(
    access: Readable, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Autoscaling:
    """Returns how many replicas the container has and why: the policy, the present, and every decision,
    newest first."""
    container = access.container
    scales = ContainerSettings.from_json(container.settings).resource_mode is ResourceMode.AUTOSCALING
    facts = (await repository.replica_facts(session, [container.id])).get(container.id, ReplicaFacts())
    startups_s = await repository.startup_times_s(session, [container.id])
    rows = await repository.list_decisions(session, container.id, paging)
    page = page_of(rows, paging, lambda row: Position(row.at, row.container_id))
    return Autoscaling(
        policy=ScalingPolicy(**asdict(repository.policy_of(container.settings))) if scales else None,
        replicas=ScalingState(
            desired=container.desired_replicas,
            ready=facts.ready,
            coming=facts.coming,
            startup_s=startups_s.get(container.id),
        ),
        items=[AutoscalingDecision.model_validate(row, from_attributes=True) for row in page.items],
        next_cursor=page.next_cursor,
    )


@router.post("/containers/{container_id}/scale", summary="Change how a container scales", status_code=202)
async def scale_container(
    body: ScaleRequest, access: Manageable, session: TheSession, settings: TheSettings, response: Response
) -> Container:
    """Changes the policy, even while the container runs. Answers 200 if nothing changed. More replicas than the
    project may have wait for the operator (`awaiting_approval` in the answer). Until then the container scales as
    before."""
    changed, waits = await service.change_scaling(session, access.actor, access.container.id, body)
    shown = await answer(session, changed, settings, response)
    if waits is None:
        return shown
    return shown.model_copy(update={"reason": waits.reason, "message": waits.message})


@router.post("/containers/{container_id}/autoscaling/replay", summary="Replay autoscaling")
async def replay_autoscaling(
    body: ReplayRequest, access: Readable, session: TheSession, clock: TheClock, jobs: TheJobs
) -> Replay:
    """Computes what another policy would have done with the demand of the last days, and compares it with what was
    done. Changes nothing."""
    container, now = access.container, clock.now()
    if now - body.since > LONGEST or body.since > now:
        raise InvalidInputError(
            f"since must be within the last {LONGEST.days} days.",
            fields=(FieldError("since", f"must be within the last {LONGEST.days} days"),),
        )
    sent = body.model_dump(exclude_none=True, exclude={"since", "forecast"})
    policy = replace(repository.policy_of(container.settings), **sent)
    if policy.min_replicas > policy.max_replicas:
        message = f"would leave min {policy.min_replicas} above max {policy.max_replicas}"
        raise InvalidInputError(f"max_replicas {message}.", fields=(FieldError("max_replicas", message),))
    _, prices = await ready_count_and_prices(session, container)
    question = await read_question(session, container, policy, body.since, now, forecast=body.forecast)
    await session.commit()  # gives the connection back
    try:
        found = await jobs.run(access.actor.shares_as, compare, question)
    except JobTooLongError as exc:
        raise InvalidInputError(
            "This is too much to replay. Ask for a shorter time.",
            code="replay_too_long",
            fields=(FieldError("since", "must be later"),),
        ) from exc
    return Replay(
        since=datetime.fromtimestamp(question.since, UTC),
        until=datetime.fromtimestamp(question.until, UTC),
        policy=ScalingPolicy(**asdict(policy)),
        startup_s=question.startup_s,
        pattern=found.replayed.pattern,
        as_it_was=_figures(found.as_it_was, prices.most_microusd),
        replayed=_figures(found.replayed, prices.most_microusd),
        decisions=[
            ReplayedDecision(
                at=datetime.fromtimestamp(change.second, UTC),
                replicas=change.decision.replicas,
                wanted=change.decision.wanted,
                limited_by=change.decision.limit,
                reason=change.decision.reason,
            )
            for change in found.replayed.changes
        ],
    )


def _figures(figures: Replayed, price_per_hour_microusd: int) -> ReplayFigures:
    return ReplayFigures(
        replica_hours=round(figures.replica_s / 3600, 3),
        hours_bought=figures.hours_bought,
        cost_microusd=figures.hours_bought * price_per_hour_microusd,
        over_target_share=round(figures.over_target_s / figures.seconds, 5),
        changes=figures.changed,
    )
