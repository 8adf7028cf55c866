from datetime import UTC
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from moorage.containers.access import ContainerAccess, manageable_container, readable_container
from moorage.containers.schemas import Container
from moorage.containers.service import Changed
from moorage.containers.shown import answer
from moorage.containers.sleep import repository, service
from moorage.containers.sleep.schemas import Savings, Sleep
from moorage.containers.sleep.state import saved_microusd
from moorage.kit.database import database_now
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheClock, TheSession, TheSettings

router = APIRouter(tags=["containers"])
Readable = Annotated[ContainerAccess, Depends(readable_container)]


@router.post("/containers/{container_id}/wake", summary="Wake a sleeping container", status_code=202)
async def wake_container(
    access: Annotated[ContainerAccess, Depends(manageable_container)],
    session: TheSession,
    settings: TheSettings,
    clock: TheClock,
    response: Response,
) -> Container:
    """Starts a replica as the first request would. Answers 200 if the container is already awake."""
    woken = await service.wake(
        session,
        access.container.id,
        access.actor.id,
        by_request=False,
        settings=settings,
        clock=clock,
    )
    return await answer(session, Changed(woken.row, woken.anything), settings, response)


@router.get("/containers/{container_id}/sleeps", summary="List sleeps")
async def list_sleeps(
    access: Readable, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Page[Sleep]:
    """Lists when the container slept, what woke it and what that saved, newest first."""
    now = await database_now(session)
    items = [
        Sleep(
            asleep_at=row.asleep_at,
            woken_at=row.woken_at,
            woken_by=row.woken_by,
            served_at=row.served_at,
            saved_microusd=saved_microusd(
                row.asleep_at,
                row.woken_at or now,
                row.paid_until,
                row.replicas,
                row.price_per_hour_microusd,
            ),
        )
        for row in await repository.list_sleeps(session, access.container.id, paging)
    ]
    return page_of(items, paging, lambda item: Position(item.asleep_at, access.container.id))


@router.get("/containers/{container_id}/savings", summary="Get savings from sleep")
async def get_savings(access: Readable, session: TheSession) -> Savings:
    """Returns how long the container slept and how much that saved."""
    now = await database_now(session)
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    savings = Savings(since_midnight_microusd=0, total_microusd=0, asleep_s=0.0, sleeps=0)
    async for begin, end, paid_until, replicas, price in repository.slept(session, access.container.id):
        savings.since_midnight_microusd += saved_microusd(
            max(begin, midnight), end, paid_until, replicas, price
        )
        savings.total_microusd += saved_microusd(begin, end, paid_until, replicas, price)
        savings.asleep_s += (end - begin).total_seconds()
        savings.sleeps += 1
    return savings
