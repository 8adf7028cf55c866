"""Answers that take long, counted: nobody has more of them open than makes sense."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from enum import StrEnum

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from moorage.kit.errors import TooManyRequestsError, UnavailableError

RETRY_AFTER_S = 30


class StreamKind(StrEnum):
    LOGS = "streams of logs"
    CHANGES = "streams of changes"
    DOWNLOADS = "downloads"


class OpenStreams:
    """Of one process."""

    def __init__(self) -> None:
        self._open: Counter[tuple[StreamKind, str]] = Counter()

    def take(self, kind: StreamKind, actor_id: str, most: int) -> "OpenStream":
        if self._open[kind, actor_id] >= most:
            message = f"{most} {kind} are open already. Close some, or wait until one ends."
            raise TooManyRequestsError(message, retry_after_s=RETRY_AFTER_S, code="too_many_streams")
        self._open[kind, actor_id] += 1
        return OpenStream(self._open, (kind, actor_id))

    def count_of(self, kind: StreamKind, actor_id: str) -> int:
        return self._open[kind, actor_id]

    def assert_room(self, kind: StreamKind, actor_id: str, most: int) -> None:
        """Before anything is read for it: one that is refused costs nothing more."""
        self.take(kind, actor_id, most).close()


class OpenStream:
    """To be handed to the answer at once: its end is where it is closed."""

    def __init__(self, open_ones: Counter[tuple[StreamKind, str]], name: tuple[StreamKind, str]) -> None:
        self._open = open_ones
        self._name = name

    def close(self) -> None:
        self._open[self._name] -= 1
        if not self._open[self._name]:
            del self._open[self._name]


async def until_refused(events: AsyncIterator[str]) -> AsyncIterator[str]:
    """Ends where its reader's share of something is used up. Whoever follows a stream takes it up where it ended, so that
    is no failure."""
    try:
        async for event in events:
            yield event
    except (TooManyRequestsError, UnavailableError):
        return


class CountedStream(StreamingResponse):
    def __init__(
        self, stream: OpenStream, content: AsyncIterator[str], media_type: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__(content, media_type=media_type, headers=headers)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stream.close()
