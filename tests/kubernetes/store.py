"""What an API server keeps: objects by kind, namespace and name, one number for every change, and the changes themselves for as long
as they are not compacted."""

import asyncio
import copy
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Key = tuple[str, str, str]
"""Kind (its plural), namespace ("" where it has none), name."""


class StoreError(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


@dataclass(frozen=True)
class Change:
    version: int
    kind: str
    type: str
    item: dict[str, Any]


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Store:
    objects: dict[Key, dict[str, Any]] = field(default_factory=dict)
    version: int = 1000
    changes: list[Change] = field(default_factory=list)
    compacted_at: int = 0
    _wakers: set[asyncio.Event] = field(default_factory=set)
    listeners: list[Callable[[Change], None]] = field(default_factory=list)

    def all(self, kind: str, namespace: str = "") -> Iterator[dict[str, Any]]:
        for (of_kind, where, _), item in sorted(self.objects.items()):
            if of_kind == kind and namespace in ("", where):
                yield item

    def get(self, key: Key) -> dict[str, Any]:
        try:
            return self.objects[key]
        except KeyError:
            kind, _, name = key
            raise StoreError(404, "NotFound", f'{kind} "{name}" not found') from None

    def create(self, key: Key, item: dict[str, Any]) -> dict[str, Any]:
        kind, namespace, name = key
        if key in self.objects:
            raise StoreError(409, "AlreadyExists", f'{kind} "{name}" already exists')
        item = copy.deepcopy(item)
        item["metadata"] |= {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": now_text()}
        if namespace:
            item["metadata"]["namespace"] = namespace
        return self._put(key, item, "ADDED")

    def update(self, key: Key, item: dict[str, Any]) -> dict[str, Any]:
        """The object as it is then; one that did not change keeps its version."""
        before = self.get(key)
        item = copy.deepcopy(item)
        item["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
        if item == before:
            return before
        return self._put(key, item, "MODIFIED")

    def delete(self, key: Key) -> dict[str, Any]:
        item = copy.deepcopy(self.get(key))
        del self.objects[key]
        self._note(key[0], "DELETED", item)
        for other, owned in list(self.objects.items()):
            owners = owned["metadata"].get("ownerReferences") or ()
            if any(one["uid"] == item["metadata"]["uid"] for one in owners):
                self.delete(other)
        return item

    def since(self, version: int) -> list[Change]:
        if version < self.compacted_at:
            raise StoreError(410, "Expired", f"too old resource version: {version} ({self.compacted_at})")
        return [one for one in self.changes if one.version > version]

    def compact(self) -> None:
        """Older versions than this are forgotten."""
        self.version += 1
        self.compacted_at = self.version
        self.changes.clear()

    def waker(self) -> asyncio.Event:
        event = asyncio.Event()
        self._wakers.add(event)
        return event

    def forget(self, event: asyncio.Event) -> None:
        self._wakers.discard(event)

    def wake(self) -> None:
        for event in self._wakers:
            event.set()

    def _put(self, key: Key, item: dict[str, Any], change: str) -> dict[str, Any]:
        self.objects[key] = item
        self._note(key[0], change, item)
        return item

    def _note(self, kind: str, change: str, item: dict[str, Any]) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        noted = Change(self.version, kind, change, copy.deepcopy(item))
        self.changes.append(noted)
        for listener in self.listeners:
            listener(noted)
        self.wake()
