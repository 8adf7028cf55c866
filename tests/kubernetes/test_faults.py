"""What a cluster and its API server do to an engine, and what must hold all the same. Against the stand-in."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moorage.engines.base import (
    IMAGE_GONE,
    ImageRequest,
    LogChunk,
    ObservedReplica,
    ReplicaPhase,
    ReplicaSpec,
)
from moorage.engines.kubernetes import isolation, namespaces, reflector
from moorage.engines.kubernetes.engine import KubernetesEngine
from moorage.engines.kubernetes.names import PodKey, name_of, namespace_of
from moorage.engines.kubernetes.nodes import Isolation
from moorage.kit.errors import EngineError, StartError
from moorage.kit.ids import ContainerId
from tests.engine.contract import Recorder, logs_of, spec_of, start, until_done, until_exited
from tests.kubernetes.store import Key
from tests.kubernetes.world import ClusterWorld, cluster_world


@pytest.fixture
async def two_nodes(certificate: Path, tmp_path: Path) -> AsyncIterator[ClusterWorld]:
    async with cluster_world(certificate, tmp_path, nodes=("node-1", "node-2")) as running:
        await running.engine.prepare()
        yield running


def key_of(world: ClusterWorld, spec: ReplicaSpec) -> Key:
    namespace = namespace_of(world.installation_id, spec.organization_id)
    return "pods", namespace, name_of(spec.replica_id)


def pods_of(world: ClusterWorld) -> list[dict[str, Any]]:
    return list(world.server.store.all("pods"))


async def now(world: ClusterWorld, spec: ReplicaSpec) -> ObservedReplica:
    observed = await world.engine.inspect(spec.replica_id)
    assert observed is not None
    return observed


async def placed(world: ClusterWorld, spec: ReplicaSpec) -> str | None:
    """On which node, once it has one."""

    async def has_a_node() -> bool:
        return (await now(world, spec)).node is not None

    await world.until(has_a_node)
    return (await now(world, spec)).node


async def spec_of_nobody(world: ClusterWorld) -> ReplicaSpec:
    """Of an organization that asked for nothing."""
    local_registry, world.engine._images.local_registry = (
        world.engine._images.local_registry,
        world.registry.host,
    )
    try:
        return await spec_of(world, "serves")
    finally:
        world.engine._images.local_registry = local_registry


async def told(world: ClusterWorld, hints: AsyncIterator[ContainerId]) -> ContainerId:
    hint = asyncio.ensure_future(anext(hints))
    await until_done(world, hint)
    return hint.result()


async def until_told(world: ClusterWorld, hints: AsyncIterator[ContainerId], spec: ReplicaSpec) -> None:
    while await told(world, hints) != spec.container_id:
        pass


async def until_quiet(hints: AsyncIterator[ContainerId]) -> "asyncio.Future[ContainerId]":
    """The next hint, once all that were on the way have come."""
    while True:
        waiting = asyncio.ensure_future(anext(hints))
        done, _ = await asyncio.wait([waiting], timeout=0.4)
        if not done:
            return waiting


class TestAnswersThatAreLostOrRefused:
    async def test_a_create_whose_reply_is_lost_is_adopted(self, world: ClusterWorld) -> None:
        spec = await spec_of(world, "serves")
        await world.engine.start(
            await spec_of(world, "serves")
        )  # its namespace is there, and the nodes are known
        world.server.faults.lose_reply.append(("POST", "/pods"))
        with pytest.raises(EngineError):
            await world.engine.start(spec)
        started = await start(world, spec)
        assert started.phase is ReplicaPhase.RUNNING
        assert len(pods_of(world)) == 2

    @pytest.mark.parametrize("lost", ["/secrets", "/pods/rep-"])
    async def test_so_is_whatever_comes_after_it(self, world: ClusterWorld, lost: str) -> None:
        """A gate keeps the Pod from its node until all of it is there; whoever comes next finishes it."""
        spec = await spec_of(world, "serves")
        world.server.faults.lose_reply.append(("POST" if lost == "/secrets" else "PATCH", lost))
        with pytest.raises(EngineError):
            await world.engine.start(spec)
        other = world.new_engine(world.installation_id)
        try:
            await other.ensure_image(world.image("serves"), Recorder())
            seen = await other.inspect(spec.replica_id)
            assert seen is not None
            if lost == "/secrets":
                assert seen.phase is ReplicaPhase.CREATED, "the plan starts it again"
                assert world.nodes.running() == []
            await other.start(spec)
        finally:
            await other.close()

        async def runs() -> bool:
            """As a plan does: what the other gave out for the pull may have ended with it, and then it is started again."""
            seen = await world.engine.inspect(spec.replica_id)
            if seen is not None and seen.phase is ReplicaPhase.CREATED:
                seen = await world.engine.start(spec)
            return seen is not None and seen.phase is ReplicaPhase.RUNNING

        await world.until(runs)
        (pod,) = pods_of(world)
        container = world.nodes.containers[pod["metadata"]["uid"]]
        assert container.environment["GREETING"] == "canary-value-4711"

    async def test_a_busy_server_is_asked_again_and_nothing_is_made_twice(self, world: ClusterWorld) -> None:
        world.server.faults.refuse += [("POST", "/pods", 429), ("GET", "/api/v1/pods", 429)]
        spec = await spec_of(world, "serves")
        await start(world, spec)
        assert len(await world.engine.list_replicas()) == len(pods_of(world)) == 1

    @pytest.mark.parametrize("status", [500, 503])
    async def test_a_server_that_fails_is_an_error_and_leaves_nothing_undone(
        self, world: ClusterWorld, status: int
    ) -> None:
        spec = await spec_of(world, "serves")
        for method, part in (
            ("POST", "/namespaces"),
            ("POST", "/networkpolicies"),
            ("POST", "/pods"),
            ("PATCH", "/pods/"),
        ):
            world.server.faults.refuse.append((method, part, status))
            with pytest.raises(EngineError):
                await world.engine.start(spec)
        assert (await start(world, spec)).phase is ReplicaPhase.RUNNING

    async def test_a_server_that_hangs_is_an_error_in_time(
        self, world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("moorage.engines.kubernetes.connection.CALL_TIMEOUT_S", 0.2)
        call = world.engine._api.call
        world.server.faults.hangs = asyncio.Event()
        with pytest.raises(EngineError) as caught:
            await call("hang", "GET", "/version", timeout_s=0.2)
        assert caught.value.code == "engine_timeout"
        world.server.faults.hangs.set()

    async def test_a_list_is_complete_or_an_error(
        self, world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reflector, "PAGE", 2)
        specs = [await spec_of(world, "serves") for _ in range(5)]
        for spec in specs:
            await world.engine.start(spec)
        listed = await world.engine.list_replicas()
        assert [one.replica_id for one in listed] == sorted(spec.replica_id for spec in specs)
        world.server.faults.refuse.append(("GET", "continue", 410))  # begins anew
        assert len(await world.engine.list_replicas()) == 5
        world.server.faults.refuse += [("GET", "continue", 410)] * 3
        with pytest.raises(EngineError):
            await world.engine.list_replicas()
        world.server.faults.refuse.clear()
        world.server.faults.refuse.append(("GET", "continue", 500))
        with pytest.raises(EngineError):
            await world.engine.list_replicas()


class TestWatches:
    async def test_ordinary_ends_are_not_noticed(self, world: ClusterWorld) -> None:
        hints = world.engine.watch()
        spec = await spec_of(world, "serves")
        await start(world, spec)
        await until_told(world, hints, spec)
        for _ in range(3):
            waiting = asyncio.ensure_future(anext(hints))
            world.server.end_watches()
            other = await spec_of(world, "exits")
            await start(world, other)
            await until_done(world, waiting)
            if waiting.result() != other.container_id:
                await until_told(world, hints, other)

    async def test_after_a_forgotten_version_what_differs_is_told(self, world: ClusterWorld) -> None:
        """Changes while nobody listened, of which the server tells nothing any more."""
        hints = world.engine.watch()
        specs = [await spec_of(world, "serves") for _ in range(3)]
        for spec in specs:
            await start(world, spec)
        await until_told(world, hints, specs[2])
        waiting = await until_quiet(hints)
        world.server.faults.silent = True
        world.nodes.end(key_of(world, specs[0]))
        world.server.store.delete(key_of(world, specs[1]))
        await world.server.forget_old_versions()
        world.server.faults.silent = False
        found = set()
        while len(found) < 2:
            await until_done(world, waiting)
            found.add(waiting.result())
            waiting = asyncio.ensure_future(anext(hints))
        waiting.cancel()
        assert found == {specs[0].container_id, specs[1].container_id}

    async def test_silence_is_an_error(self, world: ClusterWorld) -> None:
        engine = world.new_engine(world.installation_id, silent_after_s=0.7)
        try:
            hints = engine.watch()
            waiting = asyncio.ensure_future(anext(hints))

            async def both_are_open() -> bool:
                return world.server.open_watches == 2

            await world.until(both_are_open)
            with pytest.raises(TimeoutError):  # bookmarks are no silence
                async with asyncio.timeout(1.2):
                    await asyncio.shield(waiting)
            world.server.faults.silent = True
            with pytest.raises(EngineError) as caught:
                async with asyncio.timeout(5):
                    await waiting
            assert caught.value.code == "engine_timeout"
        finally:
            await engine.close()

    async def test_it_is_told_when_it_begins_to_run_and_when_its_node_is_lost(
        self, two_nodes: ClusterWorld
    ) -> None:
        world = two_nodes
        hints = world.engine.watch()
        spec = await spec_of(world, "serves")
        await world.engine.start(spec)
        while (await now(world, spec)).phase is not ReplicaPhase.RUNNING:
            assert await told(world, hints) == spec.container_id
        node = (await now(world, spec)).node
        assert node is not None
        for change in (world.nodes.cordon, world.nodes.lose):
            waiting = asyncio.ensure_future(anext(hints))
            await asyncio.sleep(0)
            change(node)
            await until_done(world, waiting)
            assert waiting.result() == spec.container_id


class TestNodes:
    async def test_what_fits_nowhere_waits_and_starts_once_it_fits(self, world: ClusterWorld) -> None:
        spec = replace(await spec_of(world, "serves"), memory_bytes=2**40)
        assert (await world.engine.start(spec)).phase is ReplicaPhase.WAITING
        assert (await now(world, spec)).failure is None
        world.nodes.add(
            "large",
            memory="2Ti",
            architecture=world.nodes.server.store.get(("nodes", "", "node-1"))["metadata"]["labels"][
                "kubernetes.io/arch"
            ],
        )
        started = await start(world, spec)
        assert (started.phase, started.node) == (ReplicaPhase.RUNNING, "large")

    async def test_avoided_nodes_are_avoided_and_replicas_spread(self, two_nodes: ClusterWorld) -> None:
        world = two_nodes
        for avoided, expected in (("node-1", "node-2"), ("node-2", "node-1")):
            spec = replace(await spec_of(world, "serves"), avoided_nodes=(avoided,))
            assert (await start(world, spec)).node == expected

    async def test_a_cordoned_node_says_so_and_evictions_are_refused(self, two_nodes: ClusterWorld) -> None:
        world = two_nodes
        spec = await spec_of(world, "serves")
        started = await start(world, spec)
        assert started.node is not None
        world.nodes.cordon(started.node)
        nodes = {node.name: node for node in await world.engine.capacity()}
        assert (nodes[started.node].schedulable, nodes[started.node].draining) == (False, True)
        key = PodKey.parse(started.engine_id)
        assert key is not None
        path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}/eviction"
        api = world.engine._api
        async with api._session().post(
            api._url(path), headers=api._headers(), ssl=api._tls(), json={}
        ) as answer:
            assert answer.status == 429
        assert (await now(world, spec)).phase is ReplicaPhase.RUNNING

    async def test_a_lost_node_is_told_and_does_not_keep_what_it_had(self, two_nodes: ClusterWorld) -> None:
        world = two_nodes
        spec = await spec_of(world, "serves")
        started = await start(world, spec)
        assert started.node is not None
        world.nodes.lose(started.node)
        world.engine._cluster._nodes_at_s = None  # as if three seconds had passed

        async def is_told() -> bool:
            return (await now(world, spec)).unreachable_since is not None

        await world.until(is_told)
        assert (await now(world, spec)).phase is ReplicaPhase.RUNNING, "as far as anybody knows"
        async with asyncio.timeout(5):  # no kubelet answers, and nobody waits for it
            await world.engine.remove(started.engine_id)
        assert await world.engine.inspect(spec.replica_id) is None

    async def test_an_eviction_has_its_reason(self, world: ClusterWorld) -> None:
        spec = await spec_of(world, "serves")
        await start(world, spec)
        world.nodes.evict(key_of(world, spec), "The node was low on resource: memory.")
        observed = await now(world, spec)
        assert (observed.phase, observed.failure and observed.failure.code) == (
            ReplicaPhase.EXITED,
            "node_lost",
        )

    async def test_what_a_node_started_again_by_itself_has_ended(self, world: ClusterWorld) -> None:
        spec = await spec_of(world, "serves")
        await start(world, spec)
        world.nodes.restarts_by_itself = True
        assert (await until_exited(world, spec)).failure is not None

    async def test_a_successor_of_the_same_name_is_not_stopped(self, world: ClusterWorld) -> None:
        spec = await spec_of(world, "serves")
        first = await start(world, spec)
        world.server.store.delete(key_of(world, spec))
        second = await start(world, spec)
        assert second.engine_id != first.engine_id
        await world.engine.stop(first.engine_id, grace_s=1)
        await world.engine.remove(first.engine_id)
        assert await world.engine.inspect(spec.replica_id) == second


class TestImages:
    async def test_another_process_asks_for_a_tenants_image_again_and_not_for_the_operators(
        self, world: ClusterWorld
    ) -> None:
        spec = await spec_of(world, "serves")
        remote = ImageRequest(f"{world.registry.host}/serves:1", organization_id=spec.organization_id)
        world.engine._images.local_registry = other_local = (
            "registry.example/own"  # so that this one is a tenant's
        )
        theirs = await world.engine.ensure_image(remote, Recorder())
        other = world.new_engine(world.installation_id, local_registry=other_local, door=None)
        own = world.new_engine(world.installation_id)
        try:
            with pytest.raises(EngineError) as caught:
                await other.start(replace(spec, image=theirs.engine_ref))
            assert caught.value.code == IMAGE_GONE
            await other.ensure_image(remote, Recorder())
            await other.start(replace(spec, image=theirs.engine_ref))
            local = f"{world.registry.host}/serves@{theirs.digest}"
            await own.start(replace(await spec_of_nobody(world), image=local))
        finally:
            await other.close()
            await own.close()

    async def test_what_a_registry_refuses_by_now_is_why_it_does_not_start(self, world: ClusterWorld) -> None:
        spec = await spec_of(world, "serves")
        del world.registry.manifests["serves"]
        with pytest.raises(StartError) as caught:
            await world.engine.start(spec)
        assert caught.value.code == "image_not_found"
        assert pods_of(world) == []

    async def test_a_pull_survives_the_process_that_gave_out_its_ticket(self, world: ClusterWorld) -> None:
        """The ticket ends with it; the next leader's start gives another to the same Pod."""
        spec = replace(await spec_of(world, "serves"), memory_bytes=2**40)
        first = await world.engine.start(spec)
        await world.engine.close()  # and with it its tickets
        other = world.engine = world.new_engine(world.installation_id)
        await other.ensure_image(world.image("serves"), Recorder())
        arch = world.server.store.get(("nodes", "", "node-1"))["metadata"]["labels"]["kubernetes.io/arch"]
        world.nodes.add("large", memory="2Ti", architecture=arch)

        async def needs_a_start() -> bool:
            return (await now(world, spec)).phase is ReplicaPhase.CREATED

        await world.until(needs_a_start)
        started = await start(world, spec)
        assert (started.phase, started.engine_id) == (ReplicaPhase.RUNNING, first.engine_id)

    async def test_the_ticket_ends_when_the_process_has_begun(self, world: ClusterWorld) -> None:
        spec = await spec_of(world, "serves")
        await world.engine.start(spec)
        assert spec.replica_id in world.engine._images._open
        await start(world, spec)
        assert spec.replica_id not in world.engine._images._open

    async def test_no_password_of_a_registry_is_in_the_cluster(self, world: ClusterWorld) -> None:
        spec = await spec_of(world, "serves")
        await start(world, spec)
        for (kind, _, _), item in world.server.store.objects.items():
            if kind != "secrets":
                assert "canary-value-4711" not in str(item)
            assert world.registry.host not in str(item), "nodes are told of the pull proxy alone"

    async def test_one_organization_does_not_start_what_another_may_pull(self, world: ClusterWorld) -> None:
        request = replace(world.image("serves"), local=False, reference=f"{world.registry.host}/serves:1")
        world.engine = world.new_engine(world.installation_id, door=None)
        mine, other = await spec_of(world, "serves"), await spec_of(world, "serves")
        image = await world.engine.ensure_image(
            replace(request, organization_id=mine.organization_id), Recorder()
        )
        world.engine._images._orders.pop(("", image.engine_ref), None)
        world.engine._images.local_registry = None  # what is in that registry is not the operator's
        await world.engine.start(replace(mine, image=image.engine_ref))
        with pytest.raises(EngineError) as caught:
            await world.engine.start(replace(other, image=image.engine_ref))
        assert caught.value.code == IMAGE_GONE
        await world.engine.close()


class TestNamespaces:
    async def test_what_lies_in_it_follows_the_nodes(self, world: ClusterWorld) -> None:
        spec = await spec_of(world, "serves")
        await world.engine.start(spec)
        key = ("networkpolicies", namespace_of(world.installation_id, spec.organization_id), "moorage")
        node = world.server.store.get(("nodes", "", "node-1"))
        address = {"type": "ExternalIP", "address": "203.0.112.9"}
        changed = {**node, "status": {**node["status"], "addresses": [*node["status"]["addresses"], address]}}
        world.server.store.update(("nodes", "", "node-1"), changed)
        world.engine._cluster._nodes_at_s = None  # as if three seconds had passed
        await world.engine.prepare()
        assert "203.0.112.9/32" in str(world.server.store.get(key)["spec"]["egress"])

    async def test_nothing_is_written_that_is_there(self, world: ClusterWorld) -> None:
        await world.engine.start(await spec_of(world, "serves"))
        await world.engine.prepare()
        world.server.requests.clear()
        await world.engine.prepare()
        assert {method for method, _ in world.server.requests} <= {"GET"}

    async def test_an_empty_one_goes_after_a_while(
        self, world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spec = await spec_of(world, "serves")
        started = await start(world, spec)
        name = namespace_of(world.installation_id, spec.organization_id)
        monkeypatch.setattr(namespaces, "EMPTY_FOR_S", 0.0)
        await world.engine.prepare()
        assert ("namespaces", "", name) in world.server.store.objects, "something runs in it"
        await world.engine.remove(started.engine_id)
        await world.engine.prepare()
        assert ("namespaces", "", name) not in world.server.store.objects
        again = await spec_of(world, "serves")
        assert (
            await start(world, replace(again, organization_id=spec.organization_id))
        ).phase is ReplicaPhase.RUNNING

    async def test_without_isolation_nothing_starts_and_the_machines_say_why(
        self, world: ClusterWorld
    ) -> None:
        closed = world.new_engine(world.installation_id, isolation=Isolation(closed_because="it leaks"))
        try:
            spec = await spec_of(world, "serves")
            with pytest.raises(EngineError) as caught:
                await closed.start(spec)
            assert caught.value.code == "not_isolated"
            assert [node.closed_because for node in await closed.capacity()] == ["it leaks"]
            started = await start(world, spec)
            assert (await closed.start(spec)) == started, "what runs is adopted"
        finally:
            await closed.close()


class TestIsolation:
    """A canary runs on each node; what it prints here is imagined, in a real cluster it is not."""

    @pytest.fixture
    async def trying(self, two_nodes: ClusterWorld) -> AsyncIterator[KubernetesEngine]:
        engine = two_nodes.new_engine(two_nodes.installation_id, isolation=None)
        yield engine
        await engine.close()

    async def test_nothing_starts_before_it_is_tried_and_then_it_does(
        self, two_nodes: ClusterWorld, trying: KubernetesEngine
    ) -> None:
        spec = await spec_of(two_nodes, "serves")
        with pytest.raises(EngineError) as caught:
            await trying.start(spec)
        assert caught.value.code == "not_isolated"
        await trying.prepare()
        assert [node.closed_because for node in await trying.capacity()] == [None, None]
        assert (await trying.start(spec)).engine_id
        assert [one.replica_id for one in await trying.list_replicas()] == [spec.replica_id]
        two_nodes.server.requests.clear()
        await trying.prepare()
        assert not [path for method, path in two_nodes.server.requests if method == "POST"], (
            "not again so soon"
        )

    async def test_a_node_where_something_is_reached_is_closed_and_avoided(
        self, two_nodes: ClusterWorld, trying: KubernetesEngine
    ) -> None:
        two_nodes.nodes.leaks.add("node-1")
        await trying.prepare()
        first, second = await trying.capacity()
        assert "reached 127.0.0.1:" in (first.closed_because or "")
        assert second.closed_because is None
        for _ in range(3):
            spec = await spec_of(two_nodes, "serves")
            await trying.start(spec)
            assert (await now(two_nodes, spec)).node in (None, "node-2")

    async def test_a_node_is_avoided_by_its_name_and_not_by_its_label(
        self, two_nodes: ClusterWorld, trying: KubernetesEngine
    ) -> None:
        """The hostname label need not be the name; here each node has the other's."""
        for name, other in (("node-1", "node-2"), ("node-2", "node-1")):
            two_nodes.nodes.label(name, "kubernetes.io/hostname", other)
        two_nodes.nodes.leaks.add("node-1")
        await trying.prepare()
        first, second = await trying.capacity()
        assert "reached 127.0.0.1:" in (first.closed_because or "")
        assert second.closed_because is None
        spec = await spec_of(two_nodes, "serves")
        await trying.start(spec)
        assert await placed(two_nodes, spec) == "node-2"

    async def test_a_canary_that_ran_elsewhere_says_nothing_of_the_node(
        self, two_nodes: ClusterWorld, trying: KubernetesEngine
    ) -> None:
        """Whoever placed it there: somebody else's scheduler may."""
        two_nodes.nodes.places_on = "node-2"
        await trying.prepare()
        first, second = await trying.capacity()
        assert first.closed_because == isolation.NOT_TRIED
        assert second.closed_because is None

    async def test_what_cannot_be_tried_stays_closed_and_stops_nothing_else(
        self, two_nodes: ClusterWorld, trying: KubernetesEngine
    ) -> None:
        del two_nodes.registry.manifests["looks"]
        await trying.prepare()
        assert {node.closed_because for node in await trying.capacity()} == {isolation.NOT_TRIED}

    async def test_a_canary_that_can_try_nothing_opens_no_node(
        self, two_nodes: ClusterWorld, trying: KubernetesEngine
    ) -> None:
        two_nodes.nodes.canaries_are_able = False
        await trying.prepare()
        assert {node.closed_because for node in await trying.capacity()} == {isolation.NOT_ABLE}

    async def test_a_canary_of_a_process_that_ended_is_removed(
        self, two_nodes: ClusterWorld, trying: KubernetesEngine
    ) -> None:
        image = await trying.ensure_image(two_nodes.image("serves"), Recorder())
        left = isolation.canary(image.engine_ref, "node-1", [])
        await trying.start(replace(left, command=None))
        assert len(pods_of(two_nodes)) == 1
        await trying.prepare()
        assert pods_of(two_nodes) == []

    async def test_without_doors_nothing_starts(self, two_nodes: ClusterWorld) -> None:
        engine = two_nodes.new_engine(two_nodes.installation_id, isolation=None, door=None)
        try:
            await engine.prepare()
            assert pods_of(two_nodes) == [], "no canary could open it"
            assert all("DOOR_IMAGE" in (node.closed_because or "") for node in await engine.capacity())
            spec = await spec_of(two_nodes, "serves")
            await engine.ensure_image(two_nodes.image("serves"), Recorder())
            with pytest.raises(EngineError) as caught:
                await engine.start(spec)
            assert caught.value.code == "not_isolated"
        finally:
            await engine.close()

    async def test_without_an_image_nothing_is_shown(self, two_nodes: ClusterWorld) -> None:
        engine = two_nodes.new_engine(two_nodes.installation_id, isolation=None, looker=None)
        try:
            await engine.prepare()
            assert all("LOOKER_IMAGE" in (node.closed_because or "") for node in await engine.capacity())
        finally:
            await engine.close()


class TestLogs:
    async def test_a_follower_that_is_cut_off_goes_on_without_loss_or_repetition(
        self, world: ClusterWorld
    ) -> None:
        started = await start(world, await spec_of(world, "prints"))
        read: list[LogChunk] = []
        async for chunks in world.engine.logs(started.engine_id, 0):
            read += chunks
            break
        position = read[-1].time_ns
        again = await logs_of(world, started.engine_id, position)
        assert [one.data for one in read[:-1] + again] == [b"one", b"two", b"three"]

    async def test_a_stream_that_ends_while_it_runs_is_an_error(
        self, world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("moorage.engines.kubernetes.engine._TELLS_WITHIN_S", 0.3)
        spec = await spec_of(world, "serves")
        started = await start(world, spec)
        container = world.nodes.containers[started.engine_id.rpartition("/")[2]]
        container.ended.set()  # the kubelet lets the reader go
        with pytest.raises(EngineError, match="runs on"):
            await logs_of(world, started.engine_id)
