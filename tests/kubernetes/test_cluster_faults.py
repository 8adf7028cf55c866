"""What goes wrong in a real cluster, brought about, and what must hold."""

import asyncio
import os
import signal
import time
from dataclasses import replace

import aiohttp
import pytest

from moorage.engines.base import ObservedReplica, ReplicaPhase
from moorage.engines.doors import door_name
from moorage.engines.kubernetes.names import PodKey
from tests.engine.contract import Recorder, logs_of, spec_of, start, until_done, until_exited
from tests.kubernetes.cluster_world import RealWorld

pytestmark = pytest.mark.cluster


async def answers(real: RealWorld, replica: ObservedReplica) -> bool:
    """Through its door."""
    timeout, url = aiohttp.ClientTimeout(total=2), f"https://{replica.host}:{replica.host_port}/index.html"
    name, trust = door_name(replica.replica_id), await real.doors.trust()
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.get(url, ssl=trust, server_hostname=name) as answer,
        ):
            return "hello" in await answer.text()
    except (aiohttp.ClientError, TimeoutError):
        return False


async def test_a_replica_answers_and_has_its_environment_and_arguments(real: RealWorld) -> None:
    started = await start(real, await spec_of(real, "serves"))
    await real.until(lambda: answers(real, started))
    command = (
        "/bin/sh",
        "-c",
        'echo "$0" "$1" "$GREETING" "$PORT" $(id -u)',
        "a $(PORT) b",
        "$$(X) ${Y} $(echo c)",
    )
    spec = replace(await spec_of(real, "serves"), command=command)
    printed = await start(real, spec)
    (line,) = await logs_of(real, printed.engine_id)
    assert line.data.decode() == "a $(PORT) b $$(X) ${Y} $(echo c) canary-value-4711 8000 0"


async def test_a_kubelet_that_is_killed_costs_nothing(real: RealWorld) -> None:
    spec = await spec_of(real, "serves")
    started = await start(real, spec)
    assert started.node is not None
    node = real.cluster.nodes[started.node]
    await real.until(lambda: answers(real, started))
    node.kill_kubelet()

    async def is_told() -> bool:
        observed = await real.engine.inspect(spec.replica_id)
        return observed is not None and observed.unreachable_since is not None

    try:
        await real.until(is_told)
        observed = await real.engine.inspect(spec.replica_id)
        assert observed is not None
        assert observed.phase is ReplicaPhase.RUNNING
        assert await answers(real, started), "it serves on"
    finally:
        real.cluster.start_kubelet(node)

    async def is_back() -> bool:
        observed = await real.engine.inspect(spec.replica_id)
        return observed is not None and observed.unreachable_since is None

    await real.until(is_back)
    observed = await real.engine.inspect(spec.replica_id)
    assert observed is not None
    assert (observed.phase, observed.started_at) == (ReplicaPhase.RUNNING, started.started_at), (
        "the same process"
    )
    assert await answers(real, started)


async def test_a_node_that_is_cut_off_is_told_and_does_not_keep_its_pod(real: RealWorld) -> None:
    hints = real.engine.watch()
    spec = await spec_of(real, "serves")
    started = await start(real, spec)
    assert started.node is not None
    node = real.cluster.nodes[started.node]
    node.cut_off()
    began = time.monotonic()
    try:
        while (
            observed := await real.engine.inspect(spec.replica_id)
        ) is None or observed.unreachable_since is None:
            hint = asyncio.ensure_future(anext(hints))
            await until_done(real, hint)
            assert hint.result() == spec.container_id
            await asyncio.sleep(3)  # nodes are looked at every three seconds
        print(f"a node that was cut off was told after {time.monotonic() - began:.1f} s")
        async with asyncio.timeout(10):
            await real.engine.remove(started.engine_id)
        assert await real.engine.inspect(spec.replica_id) is None
    finally:
        node.join_again()

    async def is_ended() -> bool:
        return not await answers(real, started)

    await real.until(is_ended)

    async def all_are_back() -> bool:
        return all(one.schedulable for one in await real.engine.capacity())

    await real.until(all_are_back)


async def test_a_cordoned_node_is_told_and_evictions_are_refused(real: RealWorld) -> None:
    spec = await spec_of(real, "serves")
    started = await start(real, spec)
    key = PodKey.parse(started.engine_id)
    assert key is not None
    path = f"/api/v1/nodes/{started.node}"
    merge = "application/merge-patch+json"
    await real.admin.call("cordon", "PATCH", path, body={"spec": {"unschedulable": True}}, content_type=merge)
    try:
        nodes = {node.name: node for node in await real.engine.capacity()}
        assert started.node is not None
        assert nodes[started.node].draining
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": key.name, "namespace": key.namespace},
        }
        api = real.admin
        url = api._url(f"/api/v1/namespaces/{key.namespace}/pods/{key.name}/eviction")
        async with api._session().post(url, headers=api._headers(), ssl=api._tls(), json=eviction) as answer:
            assert answer.status == 429, await answer.text()
        observed = await real.engine.inspect(spec.replica_id)
        assert observed == started
        elsewhere = await start(real, await spec_of(real, "serves"))
        assert elsewhere.node != started.node
    finally:
        await real.admin.call(
            "open", "PATCH", path, body={"spec": {"unschedulable": False}}, content_type=merge
        )


async def test_an_api_server_that_stops_and_comes_back(real: RealWorld) -> None:
    """Requests fail meanwhile; a watch that began before goes on, or says that it broke."""
    spec = await spec_of(real, "serves")
    started = await start(real, spec)
    await real.until(lambda: answers(real, started))
    process = real.cluster.server.process
    os.kill(process.pid, signal.SIGSTOP)
    try:
        assert await answers(real, started), "what serves needs no API server"
    finally:
        os.kill(process.pid, signal.SIGCONT)
    await real.cluster.server.restart()

    async def is_as_before() -> bool:
        """Kubelets could not say for a while that they are there, so their nodes may be said to be silent for a moment."""
        return await real.engine.inspect(spec.replica_id) == started

    await real.until(is_as_before)
    await real.engine.stop(started.engine_id, 1)
    assert (await until_exited(real, spec)).exit_code == 0


async def test_the_next_process_gives_a_waiting_pod_its_image(real: RealWorld) -> None:
    """A ticket that ended with its process: the Pod gets another, and is the same Pod."""
    spec = await spec_of(real, "serves")
    gone = real.new_engine(real.installation_id)
    await gone.ensure_image(real.image("serves"), Recorder())
    first = await gone.start(spec)
    await gone.close()

    async def begins_again() -> bool:
        observed = await real.engine.inspect(spec.replica_id)
        assert observed is not None
        if observed.phase is ReplicaPhase.CREATED:
            await real.engine.start(spec)
        return observed.phase is ReplicaPhase.RUNNING

    await real.until(begins_again)
    observed = await real.engine.inspect(spec.replica_id)
    assert observed is not None
    assert observed.engine_id == first.engine_id


async def test_thirty_at_once(real: RealWorld) -> None:
    first = await spec_of(real, "serves")
    specs = [
        replace(await spec_of(real, "serves"), organization_id=first.organization_id, vcpu_millis=100)
        for _ in range(30)
    ]
    began = time.monotonic()
    started = await asyncio.gather(*(start(real, spec) for spec in specs))
    print(f"30 replicas ran after {time.monotonic() - began:.1f} s")
    assert {one.phase for one in started} == {ReplicaPhase.RUNNING}
    assert {one.node for one in started} == {"node-1", "node-2"}
    assert len({one.host for one in started}) == 30
