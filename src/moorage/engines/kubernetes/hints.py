"""Containers that are worth a look, from what changes among a cluster's Pods and Nodes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from moorage.engines.kubernetes.names import LABEL_CONTAINER
from moorage.engines.kubernetes.nodes import node_seen
from moorage.engines.kubernetes.observe import changed_at, fingerprint
from moorage.engines.kubernetes.reflector import Change, Reflector
from moorage.kit.errors import EngineError
from moorage.kit.ids import ContainerId

_MOST_WAITING = 10_000
_CLOCKS_DIFFER = timedelta(seconds=60)
"""Times in a cluster are those of its nodes."""


@dataclass(frozen=True)
class _Known:
    container_id: ContainerId
    node: str | None
    fingerprint: tuple[Any, ...]


@dataclass
class Hints:
    pods: Reflector
    nodes: Reflector
    since: datetime
    """What changed before is somebody else's to compare."""
    _known: dict[str, _Known] = field(init=False, default_factory=dict)
    """By namespace and name."""
    _nodes: dict[str, tuple[Any, ...]] = field(init=False, default_factory=dict)
    _first: bool = field(init=False, default=True)

    async def follow(self) -> AsyncIterator[ContainerId]:
        """Ends only with `EngineError`. A bound on what waits: whoever listens is never far behind."""
        waiting: asyncio.Queue[ContainerId] = asyncio.Queue(_MOST_WAITING)
        tasks = [asyncio.create_task(self._pump(one, waiting)) for one in (self.pods, self.nodes)]
        try:
            while True:
                getting = asyncio.ensure_future(waiting.get())
                try:
                    await asyncio.wait((getting, *tasks), return_when=asyncio.FIRST_COMPLETED)
                    if not getting.done():
                        await asyncio.gather(*(task for task in tasks if task.done()))
                        raise EngineError("watch replicas: the API server ended the connection")
                    hint = getting.result()
                finally:
                    getting.cancel()
                yield hint
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pump(self, reflector: Reflector, waiting: "asyncio.Queue[ContainerId]") -> None:
        async for change in reflector.changes():
            for container_id in (
                self._pod_hints(change) if reflector is self.pods else self._node_hints(change)
            ):
                await waiting.put(container_id)

    def _pod_hints(self, change: Change) -> list[ContainerId]:
        if change.item is not None:
            hint = self._pod(change.item, is_gone=change.is_gone)
            return [hint] if hint is not None else []
        there = {_key(pod) for pod in change.items}
        gone = [self._known.pop(key).container_id for key in self._known.keys() - there]
        hints = [hint for pod in change.items if (hint := self._pod(pod, is_gone=False)) is not None]
        self._first = False
        return list(dict.fromkeys(gone + hints))

    def _pod(self, pod: dict[str, Any], *, is_gone: bool) -> ContainerId | None:
        key, container_id = _key(pod), ContainerId(pod["metadata"]["labels"][LABEL_CONTAINER])
        if is_gone:
            self._known.pop(key, None)
            return container_id
        now = _Known(container_id, pod.get("spec", {}).get("nodeName"), fingerprint(pod))
        before = self._known.get(key)
        self._known[key] = now
        if before is None and self._first:
            moment = changed_at(pod)
            return container_id if moment is None or moment >= self.since - _CLOCKS_DIFFER else None
        return container_id if before != now else None

    def _node_hints(self, change: Change) -> list[ContainerId]:
        if change.item is not None:
            nodes = {change.item["metadata"]["name"]: None if change.is_gone else change.item}
        else:
            nodes = {node["metadata"]["name"]: node for node in change.items}
            nodes |= dict.fromkeys(self._nodes.keys() - nodes.keys())
        hints: list[ContainerId] = []
        for name, node in nodes.items():
            seen = node_seen(node) if node is not None else None
            now = (seen.uid, seen.ready, seen.schedulable) if seen is not None else ()
            if name in self._nodes and self._nodes[name] != now:
                hints += [one.container_id for one in self._known.values() if one.node == name]
            if node is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = now
        return list(dict.fromkeys(hints))


def _key(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
