"""Lists that are complete, and what changes after them. Both are an API server's, neither is ours to believe half.

An API server ends each watch after a while, forgets old versions (410), and can fall silent without closing anything. The first
two are answered here, by watching on or by a new list whose differences are told; silence and broken connections end it.
"""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from moorage.engines.kubernetes.connection import ApiError, ApiServer, lines_of
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError

log = structlog.get_logger()

PAGE = 500
SILENT_AFTER_S = 90.0
"""An API server sends at least a bookmark every minute."""
_WATCH_S = 1800
_GONE = 410
_FRESH_STARTS = 3
_PAUSE_S = 0.2


@dataclass(frozen=True)
class Listed:
    items: list[dict[str, Any]]
    version: str


async def list_all(api: ApiServer, what: str, path: str, selector: Mapping[str, str]) -> Listed:
    """All of them, or an error. A list that takes so long that its next page is not known any more begins anew."""
    for _ in range(_FRESH_STARTS):
        items: list[dict[str, Any]] = []
        query = {**selector, "limit": str(PAGE)}
        try:
            while True:
                answer = await api.call(what, "GET", path, query=query)
                items += answer.get("items") or []
                metadata = answer.get("metadata", {})
                if not metadata.get("continue"):
                    return Listed(items, metadata["resourceVersion"])
                query["continue"] = metadata["continue"]
        except ApiError as exc:
            if exc.status != _GONE:
                raise
    raise EngineError(f"{what}: the list changed faster than it could be read")


@dataclass(frozen=True)
class Change:
    """`item` is None where a whole list follows: everything in `items`, and nothing else, is there."""

    item: dict[str, Any] | None
    is_gone: bool = False
    items: tuple[dict[str, Any], ...] = ()


@dataclass
class Reflector:
    api: ApiServer
    clock: Clock
    what: str
    path: str
    selector: Mapping[str, str]
    silent_after_s: float = SILENT_AFTER_S

    async def changes(self) -> AsyncIterator[Change]:
        """Begins with a whole list. Ends only with `EngineError`."""
        while True:
            listed = await list_all(self.api, self.what, self.path, self.selector)
            yield Change(None, items=tuple(listed.items))
            version: str | None = listed.version
            while version is not None:
                began_s = self.clock.monotonic()
                async for event in self._watch(version):
                    kind, item = event["type"], event["object"]
                    if kind == "ERROR":
                        self._require_gone(item)
                        version = None
                        break
                    version = str(item["metadata"]["resourceVersion"])
                    if kind != "BOOKMARK":
                        yield Change(item, is_gone=kind == "DELETED")
                if self.clock.monotonic() - began_s < _PAUSE_S:
                    await self.clock.sleep(
                        _PAUSE_S
                    )  # a server that ends each watch at once is not asked in a circle

    async def _watch(self, version: str) -> AsyncIterator[dict[str, Any]]:
        """Ends when the server ends it, or with an ERROR where the version is forgotten."""
        query = {
            **self.selector,
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_S),
        }
        try:
            async with self.api.stream(self.what, self.path, query, self.silent_after_s) as content:
                async for lines in lines_of(content):
                    for line in lines:
                        if line.strip():
                            yield _event(self.what, line)
        except ApiError as exc:
            if exc.status != _GONE:
                raise
            yield {"type": "ERROR", "object": {"code": _GONE}}

    def _require_gone(self, status: Mapping[str, Any]) -> None:
        if status.get("code") != _GONE:
            raise EngineError(f"{self.what}: the API server gave up ({status.get('reason')})")
        log.info("watch_begins_anew", what=self.what)


def _event(what: str, line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
        return {"type": str(event["type"]), "object": dict(event["object"])}
    except (ValueError, KeyError, TypeError) as exc:
        raise EngineError(f"{what}: the API server broke off in the middle of a message") from exc
