"""`python -m tests.kubernetes.record_statuses`: lets real kubelets say what becomes of Pods in every way that can be brought about
here, and keeps their words. `test_observe.py` reads them."""

import asyncio
import copy
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from moorage.engines.base import ReplicaSpec
from moorage.engines.kubernetes.names import PodKey
from moorage.engines.kubernetes.pod_body import ClusterOptions, pod_body
from tests.engine.contract import MEBIBYTE, spec_of
from tests.kubernetes.cluster_world import RealWorld, real_world
from tests.kubernetes.real_cluster import ARCHITECTURE, lacking, real_cluster

FOLDER = Path(__file__).parent / "recordings"
_WITHIN_S = 90.0


class Recorder:
    def __init__(self, world: RealWorld) -> None:
        self.world = world
        self.pods: dict[str, Any] = {}

    async def run(self, name: str, spec: ReplicaSpec, until: Callable[[dict[str, Any]], bool]) -> str:
        """As the engine starts it."""
        started = await self.world.engine.start(spec)
        await self.keep(name, started.engine_id, until)
        return started.engine_id

    async def raw(
        self, name: str, spec: ReplicaSpec, until: Callable[[dict[str, Any]], bool], **changes: Any
    ) -> None:
        """As nobody should: without its Secrets, or onto a node that the scheduler did not choose."""
        body = pod_body(
            spec,
            installation_id=self.world.installation_id,
            image=changes.pop("image", f"{self.world.pull_address}/moorage-pull/absent@sha256:{'0' * 64}"),
            architecture=changes.pop("architecture", ARCHITECTURE),
            options=ClusterOptions(stop_grace_s=1, cpu_overcommit=16.0),
        )
        body["spec"].pop("schedulingGates")
        body["spec"] |= changes
        namespace = body["metadata"]["namespace"]
        made = await self.world.admin.call(name, "POST", f"/api/v1/namespaces/{namespace}/pods", body=body)
        await self.keep(name, PodKey.of(made).engine_id, until)

    async def keep(self, name: str, engine_id: str, until: Callable[[dict[str, Any]], bool]) -> None:
        key = PodKey.parse(engine_id)
        assert key is not None
        path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}"
        for _ in range(int(_WITHIN_S / 0.2)):
            pod = await self.world.admin.call(name, "GET", path)
            if until(pod):
                self.pods[name] = _normalised(pod)
                print(
                    name, json.dumps(pod["status"].get("containerStatuses", [{}])[0].get("state")), flush=True
                )
                return
            await asyncio.sleep(0.2)
        sys.exit(f"{name}: not in time: {json.dumps(pod['status'])}")


async def _record(world: RealWorld) -> dict[str, Any]:
    recorder = Recorder(world)
    await world.engine.prepare()
    serves = await _spec(world, "serves")
    engine_id = await recorder.run("running", serves, _is("running"))
    await world.engine.stop(engine_id, 1)
    await recorder.keep("stopped", engine_id, _is("terminated"))
    ignores = await _spec(world, "ignores_stop")
    engine_id = await recorder.run("running-deaf", ignores, _is("running"))
    await world.engine.stop(engine_id, 1)
    await recorder.keep("killed", engine_id, _is("terminated"))
    del recorder.pods["running-deaf"]
    await recorder.run("exited", await _spec(world, "exits"), _is("terminated"))
    await recorder.run("completed", await _spec(world, "prints"), _is("terminated"))
    await recorder.run("out-of-memory", await _spec(world, "runs_out_of_memory"), _is("terminated"))
    for name, command in (
        ("command-not-found", ("serve-the-model", "--fast")),
        ("command-not-executable", ("/etc/not-executable",)),
        ("command-is-a-folder", ("/etc",)),
        ("command-of-another-processor", ("/bin/foreign",)),
    ):
        await recorder.run(name, await _spec(world, "serves", command=command), _is("terminated"))
    fills = ("/bin/sh", "-c", "dd if=/dev/zero of=/filled bs=1M count=64; sleep 600")
    too_full = await _spec(world, "serves", command=fills, disk_bytes=8 * MEBIBYTE)
    await recorder.run("disk-full", too_full, lambda pod: pod["status"].get("reason") == "Evicted")
    huge = await _spec(world, "serves", memory_bytes=10 * 2**40)
    await recorder.run("unschedulable", huge, lambda pod: _scheduled(pod).get("reason") == "Unschedulable")
    base = {"organization_id": serves.organization_id}  # its namespace is there
    await recorder.raw("pull-fails", await _spec(world, "serves", **base), _waits("ErrImagePull"))
    await recorder.raw("pull-waits", await _spec(world, "serves", **base), _waits("ImagePullBackOff"))
    ticket_for = await _spec(world, "serves", **base)
    image = await world.engine._images.ticket(
        ticket_for.replica_id, ticket_for.organization_id, ticket_for.image
    )
    await recorder.raw("no-pull-secret", ticket_for, _waits("ErrImagePull"), image=image.name)
    node = next(iter(world.cluster.nodes))
    rejected = replace(await _spec(world, "serves", **base), memory_bytes=10 * 2**40)
    await recorder.raw("rejected-by-kubelet", rejected, _has_failed, nodeName=node)
    foreign = await _spec(world, "serves", **base)
    await recorder.raw("node-does-not-fit", foreign, _has_failed, nodeName=node, architecture="s390x")
    await _record_gated(recorder, world)
    return recorder.pods


async def _record_gated(recorder: Recorder, world: RealWorld) -> None:
    spec = await _spec(world, "serves")
    image = await world.engine._images.ticket(spec.replica_id, spec.organization_id, spec.image)
    async with world.engine._namespaces.used_by(spec.organization_id, ()):
        pod = await world.engine._starts._create(spec, image)
    await recorder.keep("gated", PodKey.of(pod).engine_id, lambda _: True)


async def _spec(world: RealWorld, behaviour: str, **changes: Any) -> ReplicaSpec:
    return replace(await spec_of(world, behaviour), **changes)


def _is(kind: str) -> Callable[[dict[str, Any]], bool]:
    return lambda pod: kind in _state(pod)


def _waits(reason: str) -> Callable[[dict[str, Any]], bool]:
    return lambda pod: _state(pod).get("waiting", {}).get("reason") == reason


def _has_failed(pod: dict[str, Any]) -> bool:
    return bool(pod["status"].get("phase") == "Failed")


def _state(pod: dict[str, Any]) -> dict[str, Any]:
    return dict((pod["status"].get("containerStatuses") or [{}])[0].get("state", {}))


def _scheduled(pod: dict[str, Any]) -> dict[str, Any]:
    return next((one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"), {})


def _normalised(pod: dict[str, Any]) -> dict[str, Any]:
    """What `observe.py` may look at."""
    pod = copy.deepcopy(pod)
    metadata = {
        name: pod["metadata"][name]
        for name in ("name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp")
        if name in pod["metadata"]
    }
    spec = {
        name: pod["spec"][name]
        for name in ("nodeName", "schedulingGates", "containers")
        if name in pod["spec"]
    }
    spec["containers"] = [{name: one[name] for name in ("name", "ports")} for one in spec["containers"]]
    return {"metadata": metadata, "spec": spec, "status": pod["status"]}


async def _main() -> None:
    if names := lacking():
        sys.exit(f"There is no {', no '.join(names)}.")
    async with real_cluster(1) as cluster, real_world(cluster) as world:
        version = (await world.admin.call("ask for its version", "GET", "/version"))["gitVersion"]
        pods = await _record(world)
    path = FOLDER / f"pods-{version}.json"
    path.write_text(json.dumps({"version": version, "pods": pods}, indent=1, ensure_ascii=False) + "\n")
    print(path)


if __name__ == "__main__":
    asyncio.run(_main())
