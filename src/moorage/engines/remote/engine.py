"""The engine of another machine: its node role (`moorage/node`) runs the Docker engine there, and is spoken to over HTTP in the
tunnel. The contract is in `engines/base.py`.

What a machine answers is a stranger's word. It decides nothing beyond that machine: replicas, containers and names are those
that Moorage knows (`known.py`, `claims.py`), times are ours. A machine that does not answer, or not properly, is an engine that is
away; its replicas are as they were last seen, not gone.

A call that changes something can be made again after a lost reply, as on Docker: names follow from replica ids over there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any

import structlog

from moorage.engines.base import (
    DiskSpace,
    GpuUsage,
    HeldCache,
    Image,
    ImageRequest,
    ListeningSocket,
    LogChunk,
    NodeCapacity,
    ObservedReplica,
    PulledImage,
    PullProgress,
    ReplicaSpec,
    ReplicaUsage,
)
from moorage.engines.diagnosis import NetworkDiagnosis, NetworkQuestions
from moorage.engines.remote import claims
from moorage.engines.remote.codec import WireError, to_bytes
from moorage.engines.remote.connection import MachineConnection
from moorage.engines.remote.hints import Hints
from moorage.engines.remote.known import KnownReplicas, engine_id_there
from moorage.engines.remote.machine import Machine, PlacedReplica, Placements
from moorage.engines.remote.messages import Envelope, HintPosition, answer_type, open_envelope
from moorage.engines.remote.output import Output
from moorage.engines.remote.proofs import (
    ANSWER_FOR,
    PROVE,
    ProofAnswer,
    ProofFilled,
    ProofOrder,
    ProofQuestion,
)
from moorage.engines.remote.pulls import RemotePulls
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError, StartError
from moorage.kit.ids import ContainerId, ReplicaId
from moorage.outbound.pulls.proxy import PullProxy

log = structlog.get_logger()

TIMEOUTS_S: dict[str, float] = {
    "prepare": 120.0,
    "list_replicas": 150.0,
    "start": 300.0,
    "remove": 150.0,
    "diagnose_network": 60.0,
    "written_bytes": 600.0,
    "caches": 600.0,
    "trim_cache": 900.0,
    "remove_cache": 900.0,
    "usage": 15.0,
    "disk_space": 15.0,
    "gpu_usage": 15.0,
    "gpu_problems": 15.0,
}
"""For all of a call, as long as the Docker engine over there may take. Nobody waits as long for a machine that is not there: it has
5 s to let itself be connected to."""
_TIMEOUT_S = 75.0
_MOST_BYTES = 2**20
_FEW_BYTES = 16 * 2**10
_MOST_BYTES_OF = dict.fromkeys(
    (
        *("prepare", "start", "stop", "remove", "inspect", "disk_space", "process_limit_reached"),
        *("remove_image", "trim_cache", "remove_cache"),
    ),
    _FEW_BYTES,
) | {"list_replicas": 2 * 2**20}
"""Whatever else it says beside its answer has to be read as well."""
_MOST_STRANGERS = 100
"""Of those that have no row: each is taken away by a call of its own."""


class RemoteEngine:
    def __init__(
        self, machine: Machine, placements: Placements, clock: Clock, pulls: PullProxy | None = None
    ) -> None:
        self._machine = machine
        self._placements = placements
        self._clock = clock
        self._connection = MachineConnection(
            machine.name, machine.address, machine.port, machine.credential, clock
        )
        self._pulls = RemotePulls(machine, self._connection, pulls)
        self._known = KnownReplicas(machine)
        self._hints_at: HintPosition | None = None
        self._architecture: str | None = None

    async def prepare(self) -> None:
        await self._ask("prepare")

    async def ensure_image(self, request: ImageRequest, on_progress: Callable[[PullProgress], None]) -> Image:
        if request.local:
            return await self._pulls.local_image(request, on_progress)
        if self._architecture is None:
            await self.capacity()
        assert self._architecture is not None, "a machine's capacity names it"
        return await self._pulls.pulled_image(request, self._architecture, on_progress)

    async def pulled_images(self) -> list[PulledImage]:
        found: list[PulledImage] = (await self._ask("pulled_images")).answer
        return found

    async def remove_image(self, engine_ref: str) -> bool:
        return bool((await self._ask("remove_image", engine_ref=engine_ref)).answer)

    async def start(self, spec: ReplicaSpec) -> ObservedReplica:
        rows = await self._placements.placed([spec.replica_id])
        its = rows.get(spec.replica_id)
        placed = PlacedReplica(spec.container_id, True, its.created_at if its is not None else None)
        self._known.note({spec.replica_id: placed}, self._clock.monotonic())
        try:
            started: ObservedReplica = (await self._ask("start", spec=spec)).answer
        except StartError as exc:
            raise claims.start_error_of(self._machine, spec, exc) from None
        with self._connection.failing_in_words("start"):
            asked = (spec.replica_id, spec.container_id, spec.slot, spec.generation, spec.host_port)
            if asked != (
                started.replica_id,
                started.container_id,
                started.slot,
                started.generation,
                started.host_port,
            ):
                raise WireError("it says that it started something else")
            return self._known.checked(started, self._clock.now())

    async def stop(self, engine_id: str, grace_s: float) -> None:
        if (there := self._there(engine_id)) is not None:
            await self._ask("stop", timeout_s=grace_s + _TIMEOUT_S, engine_id=there, grace_s=grace_s)

    async def remove(self, engine_id: str) -> None:
        if (there := self._there(engine_id)) is not None:
            await self._ask("remove", engine_id=there)

    async def caches(self) -> list[HeldCache]:
        held: list[HeldCache] = (await self._ask("caches")).answer
        with self._connection.failing_in_words("caches"):
            if len({(one.container_id, one.replica_id) for one in held}) < len(held):
                raise WireError("it lists a cache twice")
        return held

    async def trim_cache(
        self, container_id: ContainerId, replica_id: ReplicaId | None, to_bytes: int
    ) -> HeldCache | None:
        envelope = await self._ask(
            "trim_cache", container_id=container_id, replica_id=replica_id, to_bytes=to_bytes
        )
        held: HeldCache | None = envelope.answer
        with self._connection.failing_in_words("trim_cache"):
            if held is not None and (held.container_id, held.replica_id) != (container_id, replica_id):
                raise WireError("it speaks of another cache")
        return held

    async def remove_cache(self, container_id: ContainerId, replica_id: ReplicaId | None) -> bool:
        envelope = await self._ask("remove_cache", container_id=container_id, replica_id=replica_id)
        return bool(envelope.answer)

    async def inspect(self, replica_id: ReplicaId) -> ObservedReplica | None:
        envelope = await self._ask("inspect", replica_id=replica_id)
        found: ObservedReplica | None = envelope.answer
        if found is None:
            return None
        with self._connection.failing_in_words("inspect"):
            if found.replica_id != replica_id:
                raise WireError("it speaks of another replica")
        checked = await self._checked("inspect", [found], envelope)
        return checked[0] if checked else None

    async def list_replicas(self) -> list[ObservedReplica]:
        envelope = await self._ask("list_replicas")
        listed: list[ObservedReplica] = envelope.answer
        with self._connection.failing_in_words("list_replicas"):
            if len({one.replica_id for one in listed}) < len(listed):
                raise WireError("it lists a replica twice")
        checked = await self._checked("list_replicas", listed, envelope)
        self._known.forget_old(self._clock.monotonic())
        return sorted(checked, key=lambda one: one.replica_id)

    def watch(self) -> AsyncIterator[ContainerId]:
        # From the moment of this call on, as far as the machine has said by then how many hints there were.
        return Hints(self._machine.name, self._connection, self._clock, self._known, self._hints_at).follow()

    def logs(
        self, engine_id: str, since_ns: int, last: int | None = None
    ) -> AsyncIterator[Sequence[LogChunk]]:
        there = self._there(engine_id)
        if there is None:
            return _no_output(engine_id)
        return Output(self._connection, self._clock, there).read(since_ns, last)

    async def listening_sockets(self, engine_id: str) -> tuple[ListeningSocket, ...]:
        if (there := self._there(engine_id)) is None:
            return ()
        found: tuple[ListeningSocket, ...] = (await self._ask("listening_sockets", engine_id=there)).answer
        return found

    async def process_limit_reached(self, engine_id: str) -> bool:
        there = self._there(engine_id)
        return there is not None and bool((await self._ask("process_limit_reached", engine_id=there)).answer)

    async def diagnose_network(self, engine_id: str, questions: NetworkQuestions) -> NetworkDiagnosis:
        if (there := self._there(engine_id)) is None:
            raise EngineError(f"look at the network of {engine_id}: it is not there", code="replica_gone")
        found = (await self._ask("diagnose_network", engine_id=there, questions=questions)).answer
        return claims.diagnosis_of(questions, found)

    async def last_lines(self, engine_id: str, count: int) -> tuple[str, ...]:
        if (there := self._there(engine_id)) is None:
            return ()
        lines: tuple[str, ...] = (await self._ask("last_lines", engine_id=there, count=count)).answer
        return lines[-count:]

    async def usage(self, engine_ids: Collection[str]) -> Mapping[str, ReplicaUsage]:
        asked = self._theirs(engine_ids)
        if not asked:
            return {}
        envelope = await self._ask("usage", engine_ids=sorted(asked))
        now_s = self._clock.monotonic()
        with self._connection.failing_in_words("usage"):
            return {
                asked[there]: claims.usage_by_our_clock(used, envelope.monotonic_s, now_s)
                for there, used in claims.only_asked(asked, envelope.answer).items()
            }

    async def disk_space(self) -> DiskSpace | None:
        found = (await self._ask("disk_space")).answer
        with self._connection.failing_in_words("disk_space"):
            return claims.disk_space_of(found)

    async def written_bytes(self, limits: Mapping[str, int]) -> Mapping[str, int]:
        asked = self._theirs(limits)
        if not asked:
            return {}
        there_limits = {there: limits[here] for there, here in asked.items()}
        written: Mapping[str, int] = (await self._ask("written_bytes", limits=there_limits)).answer
        return {asked[there]: found for there, found in claims.only_asked(asked, written).items()}

    async def gpu_usage(self, device_ids: Collection[str]) -> Mapping[str, GpuUsage]:
        if not device_ids:
            return {}
        found: Mapping[str, GpuUsage] = (await self._ask("gpu_usage", device_ids=sorted(device_ids))).answer
        return claims.only_asked(device_ids, found)

    async def gpu_problems(self, device_ids: Collection[str]) -> Mapping[str, str]:
        if not device_ids:
            return {}
        found: Mapping[str, str] = (await self._ask("gpu_problems", device_ids=sorted(device_ids))).answer
        return {
            device_id: claims.problem_in_words(self._machine, problem)
            for device_id, problem in claims.only_asked(device_ids, found).items()
        }

    async def capacity(self) -> list[NodeCapacity]:
        envelope = await self._ask("capacity")
        clock_error_s = envelope.time_s - self._clock.now().timestamp()
        with self._connection.failing_in_words("capacity"):
            node = claims.node_of(self._machine, envelope.answer, clock_error_s)
        self._architecture = node.architecture
        return [node]

    async def close(self) -> None:
        await self._connection.close()

    async def prove(self, order: ProofOrder, timeout_s: float) -> ProofFilled:
        """Have the machine fill what it claims. Not a part of the protocol: other engines' machines are the operator's."""
        filled: ProofFilled = await self._prove(PROVE, {"order": order}, ProofFilled, timeout_s)
        return filled

    async def answer_for(self, question: ProofQuestion, timeout_s: float) -> ProofAnswer:
        """For what it filled just now."""
        answer: ProofAnswer = await self._prove(ANSWER_FOR, {"question": question}, ProofAnswer, timeout_s)
        return answer

    async def _prove(self, call: str, arguments: dict[str, Any], answer: Any, timeout_s: float) -> Any:
        body = to_bytes(arguments)
        text = await self._connection.call(call, body, timeout_s=timeout_s, most_bytes=_MOST_BYTES)
        with self._connection.failing_in_words(call):
            return (await asyncio.to_thread(open_envelope, text, answer)).answer

    async def _ask(self, call: str, *, timeout_s: float | None = None, **arguments: Any) -> Envelope:
        """With an answer of the type that the protocol names."""
        limit_s = timeout_s if timeout_s is not None else TIMEOUTS_S.get(call, _TIMEOUT_S)
        most_bytes = _MOST_BYTES_OF.get(call, _MOST_BYTES)
        text = await self._connection.call(
            call, to_bytes(arguments), timeout_s=limit_s, most_bytes=most_bytes
        )
        with self._connection.failing_in_words(call):
            try:
                # A list that a machine makes as long as it can takes most of a second to read, every three seconds.
                if len(text) > _FEW_BYTES:
                    envelope = await asyncio.to_thread(open_envelope, text, answer_type(call))
                else:
                    envelope = open_envelope(text, answer_type(call))
            except EngineError as exc:
                raise claims.error_worded_here(self._machine, exc) from None
        self._hints_at = envelope.hints
        return envelope

    async def _checked(
        self, call: str, listed: Collection[ObservedReplica], envelope: Envelope
    ) -> list[ObservedReplica]:
        """Without those that are on other machines. Those that nobody knows stay: the sweep takes them away, there."""
        now, now_s = self._clock.now(), self._clock.monotonic()
        placed = await self._placements.placed([one.replica_id for one in listed])
        self._known.note(placed, now_s)
        foreign = {replica_id for replica_id, one in placed.items() if not one.is_here}
        strangers = sorted({one.replica_id for one in listed} - placed.keys())
        if foreign:
            log.warning("machine_names_foreign_replicas", machine=self._machine.name, replicas=len(foreign))
        dropped = foreign.union(strangers[_MOST_STRANGERS:])
        with self._connection.failing_in_words(call):
            return [
                self._known.checked(one, now, envelope.booted_at_s)
                for one in listed
                if one.replica_id not in dropped
            ]

    def _there(self, engine_id: str) -> str | None:
        return engine_id_there(self._machine, engine_id)

    def _theirs(self, engine_ids: Collection[str]) -> dict[str, str]:
        """Ours by the machine's own."""
        return {there: here for here in engine_ids if (there := self._there(here)) is not None}


async def _no_output(engine_id: str) -> AsyncIterator[Sequence[LogChunk]]:
    raise EngineError(f"read the log of {engine_id}: it is not there", code="replica_gone")
    yield ()  # pragma: no cover - what makes it a stream
