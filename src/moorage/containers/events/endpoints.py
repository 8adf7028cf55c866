from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from moorage.containers.events.schemas import ChangeNotice
from moorage.containers.events.watching import Changes
from moorage.identity.authentication import current_actor
from moorage.kit.clock import Clock
from moorage.kit.streams import CountedStream, StreamKind, until_refused
from moorage.kit.web import TheClock, TheDatabase, TheSettings, TheStreams
from moorage.organizations.access import project_with
from moorage.organizations.lasting_access import AskedAgain, LastingAccess, lasting
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["containers"])

GATHER_S = 0.25
"""Changes that come together are told together."""
HEARTBEAT_EVERY_S = 15.0
STREAM_LIMIT_S = 300.0


async def _changes(request: Request) -> Changes:
    changes: Changes = request.app.state.changes
    return changes


async def _watchable_project(
    project_id: str, request: Request, database: TheDatabase, settings: TheSettings
) -> LastingAccess[tuple[str, str]]:
    """The project's id, and whose stream it is."""
    readable = project_with(Permission.CONTAINER_VIEW)

    async def find() -> tuple[str, str]:
        async with database.reading() as session:
            actor = await current_actor(request, session, settings)
            access = await readable(project_id, actor, session)
        return access.project.id, actor.shares_as

    return await lasting(find)


@router.get(
    "/projects/{project_id}/events",
    summary="Stream changes of containers",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def stream_events(
    clock: TheClock,
    settings: TheSettings,
    streams: TheStreams,
    access: Annotated[LastingAccess[tuple[str, str]], Depends(_watchable_project)],
    changes: Annotated[Changes, Depends(_changes)],
) -> StreamingResponse:
    """Sends server-sent events that name the containers that changed; an empty list means that any may have changed.
    Read everything once when the stream opens, because it does not repeat earlier changes. It ends after five
    minutes, or when you lose access."""
    _, reader_id = access.found
    stream = streams.take(StreamKind.CHANGES, reader_id, settings.streams_per_person)
    return CountedStream(
        stream,
        until_refused(_events(changes, access, clock)),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _events(
    changes: Changes, access: LastingAccess[tuple[str, str]], clock: Clock
) -> AsyncIterator[str]:
    may_watch = AskedAgain(access, clock)
    began_at_s = sent_at_s = clock.monotonic()
    with changes.watched(*access.found) as watch:
        yield ": changes as they happen\nretry: 2000\n\n"
        while clock.monotonic() - began_at_s < STREAM_LIMIT_S:
            await clock.sleep(GATHER_S)
            if not await may_watch():
                return
            changed = watch.take()
            if changed is None and clock.monotonic() - sent_at_s < HEARTBEAT_EVERY_S:
                continue
            sent_at_s = clock.monotonic()
            if changed is None:
                yield ": still here\n\n"
            else:
                yield f"data: {ChangeNotice(containers=changed).model_dump_json()}\n\n"
