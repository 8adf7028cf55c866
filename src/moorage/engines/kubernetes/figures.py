"""What replicas use, as the kubelets of their nodes say it (`/metrics/resource`).

A kubelet is asked itself: the right for that is one for figures alone, while the way through the API server would need one to
run commands everywhere. It looks at its containers every ten seconds or so, and is not asked more often.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from moorage.engines.base import ReplicaUsage
from moorage.engines.kubernetes.connection import ApiServer
from moorage.engines.kubernetes.names import MAIN, PodKey
from moorage.engines.kubernetes.nodes import NodeSeen
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError

log = structlog.get_logger()

EVERY_S = 10.0
_ANSWERS_WITHIN_S = 5.0
_OLDEST_S = 120.0
_AT_ONCE = 16
_SAMPLE = re.compile(r"(\w+)\{([^}]*)\} ([0-9.eE+-]+)(?: ([0-9]+))?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_CPU, _MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"

PodName = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True)
class Reading:
    cpu_time_s: float
    memory_bytes: int
    time_ms: int | None


def readings_of(text: str) -> dict[PodName, Reading]:
    """Of replicas' containers. Pure."""
    cpu: dict[PodName, tuple[float, int | None]] = {}
    memory: dict[PodName, int] = {}
    for match in map(_SAMPLE.fullmatch, text.splitlines()):
        if match is None or match.group(1) not in (_CPU, _MEMORY):
            continue
        labels = dict(_LABEL.findall(match.group(2)))
        if labels.get("container") != MAIN or "namespace" not in labels or "pod" not in labels:
            continue
        name, value = (labels["namespace"], labels["pod"]), float(match.group(3))
        if match.group(1) == _CPU:
            cpu[name] = value, int(match.group(4)) if match.group(4) else None
        else:
            memory[name] = int(value)
    return {
        name: Reading(cpu_time_s, memory[name], time_ms)
        for name, (cpu_time_s, time_ms) in cpu.items()
        if name in memory
    }


@dataclass
class Figures:
    api: ApiServer
    clock: Clock
    every_s: float = EVERY_S
    _read_at_s: dict[str, float] = field(init=False, default_factory=dict)
    """By node: when its kubelet was asked last."""
    _silent: set[str] = field(init=False, default_factory=set)
    """Nodes of which that was said."""
    _used: dict[PodName, ReplicaUsage] = field(init=False, default_factory=dict)

    async def of(self, pods: Mapping[str, str], nodes: Mapping[str, NodeSeen]) -> Mapping[str, ReplicaUsage]:
        """By engine id, of Pods that run on these nodes (by name)."""
        now_s = self.clock.monotonic()
        due = {
            name
            for name in set(pods.values())
            if name in nodes and now_s - self._read_at_s.get(name, -self.every_s) >= self.every_s
        }
        limit = asyncio.Semaphore(_AT_ONCE)
        read = await asyncio.gather(*(self._ask(nodes[name], limit) for name in sorted(due)))
        for name in due:
            self._read_at_s[name] = now_s
        for readings in read:
            self._used |= readings
        self._forget_old()
        keys = {engine_id: PodKey.parse(engine_id) for engine_id in pods}
        return {
            engine_id: used
            for engine_id, key in keys.items()
            if key is not None and (used := self._used.get((key.namespace, key.name))) is not None
        }

    def forget(self, pod: PodKey) -> None:
        self._used.pop((pod.namespace, pod.name), None)

    async def _ask(self, node: NodeSeen, limit: asyncio.Semaphore) -> dict[PodName, ReplicaUsage]:
        if node.kubelet is None or not node.ready:
            return {}
        address, port = node.kubelet
        try:
            async with limit:
                text = await self.api.at_kubelet(
                    f"ask node {node.name} for figures", address, port, "/metrics/resource", _ANSWERS_WITHIN_S
                )
        except EngineError as exc:
            # One that does not answer must not take the figures of the others with it.
            if node.name not in self._silent:
                log.warning("figures_not_seen", node=node.name, error=str(exc))
            self._silent.add(node.name)
            return {}
        self._silent.discard(node.name)
        return self._by_our_clock(readings_of(text.decode("utf-8", "replace")))

    def _by_our_clock(self, readings: Mapping[PodName, Reading]) -> dict[PodName, ReplicaUsage]:
        now, now_s = self.clock.now().timestamp(), self.clock.monotonic()
        found = {}
        for name, one in readings.items():
            age_s = now - one.time_ms / 1000 if one.time_ms is not None else 0.0
            found[name] = ReplicaUsage(
                now_s - min(max(age_s, 0.0), _OLDEST_S), one.cpu_time_s, one.memory_bytes
            )
        return found

    def _forget_old(self) -> None:
        oldest_s = self.clock.monotonic() - _OLDEST_S
        self._used = {name: one for name, one in self._used.items() if one.read_at_s > oldest_s}
