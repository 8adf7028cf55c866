"""One security profile on every path: whatever a spec says, whatever happened since, a replica runs under the same."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moorage.engines.base import ObservedReplica, ReplicaSpec
from moorage.engines.docker.create import create_body
from moorage.engines.docker.daemon import ensure_engine
from moorage.engines.docker.engine import DockerEngine
from moorage.kit.clock import system_clock
from moorage.kit.ids import (
    ContainerId,
    InstallationId,
    OrganizationId,
    ProjectId,
    ReplicaId,
    new_container_id,
    new_organization_id,
    new_project_id,
    new_replica_id,
)
from moorage.kit.settings import Settings
from tests.engine.conftest import DockerWorld
from tests.engine.contract import MEBIBYTE, spec_of
from tests.engine.isolation_support import inspected, kill_engine, own_engine_of
from tests.engine_fixtures import BUSYBOX_IMAGE

NOT_SECURITY = {"Image", "Hostname", "Env", "Labels", "ExposedPorts", "Entrypoint", "Cmd"}
"""Of the body: what the user's program is, what it is told, where it listens. Everything else must not vary."""
BASE = ReplicaSpec(
    replica_id=ReplicaId("rep_a"),
    container_id=ContainerId("ctr_a"),
    project_id=ProjectId("prj_a"),
    organization_id=OrganizationId("org_a"),
    slot=0,
    generation=1,
    image="sha256:00",
    command=None,
    environment={},
    port=8000,
    host_port=20000,
    vcpu_millis=500,
    memory_bytes=64 * MEBIBYTE,
    disk_bytes=1024 * MEBIBYTE,
)
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
names = st.sampled_from(
    ["PORT", "PATH", "LD_PRELOAD", "HostConfig", "Privileged", "CapAdd", "NVIDIA_VISIBLE_DEVICES"]
)
variations = st.fixed_dictionaries(
    {
        "replica_id": words.map(ReplicaId),
        "container_id": words.map(ContainerId),
        "project_id": words.map(ProjectId),
        "organization_id": words.map(OrganizationId),
        "slot": st.integers(0, 99),
        "generation": st.integers(1, 10**6),
        "image": words,
        "command": st.none() | st.lists(words | names, min_size=1, max_size=5).map(tuple),
        "environment": st.dictionaries(names | words, words, max_size=5),
        "port": st.integers(1, 65535),
        "host_port": st.integers(1024, 65535),
        "disk_bytes": st.integers(1, 2**50),
    }
)


@settings(max_examples=300)
@given(variations)
def test_no_setting_of_a_user_changes_it(variation: dict[str, Any]) -> None:
    body = _body(replace(BASE, **variation))
    assert _security_of(body) == _security_of(_body(BASE))
    # The one entry that a port must be in, and the address that it must not leave.
    ((binding,),) = body["HostConfig"]["PortBindings"].values()
    assert binding == {"HostIp": "127.0.0.1", "HostPort": str(variation["host_port"])}
    assert "NVIDIA_VISIBLE_DEVICES=void" in body["Env"]


@settings(max_examples=100)
@given(st.integers(1, 256_000), st.integers(6 * MEBIBYTE, 2**42))
def test_size_changes_the_limits_alone(vcpu_millis: int, memory_bytes: int) -> None:
    sized = _security_of(_body(replace(BASE, vcpu_millis=vcpu_millis, memory_bytes=memory_bytes)))
    base = _security_of(_body(BASE))
    limits = {"Memory", "MemorySwap", "CpuQuota", "CpuShares", "ShmSize"}
    assert {
        key for key in base["HostConfig"] if sized["HostConfig"][key] != base["HostConfig"][key]
    } <= limits
    assert sized.keys() == base.keys()
    assert sized["HostConfig"]["Memory"] == sized["HostConfig"]["MemorySwap"] == memory_bytes


@settings(
    max_examples=4,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.dictionaries(st.sampled_from(["TOKEN", "PATH", "PORT"]), st.text("abc", max_size=9), max_size=2),
    st.sampled_from(["trap 'exit 0' TERM; sleep 60 & wait", "exec sleep 60", "exit 3"]),
    st.integers(1, 65535),
    st.integers(1, 99),
)
@pytest.mark.long
def test_docker_applies_it_to_all(
    docker_world: DockerWorld, environment: dict[str, str], script: str, port: int, generation: int
) -> None:
    """A replica of each, one after another, on an engine connection of its own: Hypothesis knows no event loop."""

    async def start_and_compare() -> None:
        world = DockerWorld(docker_world.docker_host, BUSYBOX_IMAGE, unknown_remote_image="")
        world.engine = DockerEngine(world.docker_host, docker_world.installation_id, system_clock)
        spec = replace(
            await spec_of(world, "serves"),
            environment=environment,
            command=("/bin/sh", "-c", script),
            port=port,
            generation=generation,
        )
        started = await world.engine.start(spec)
        assert_as_asked(await inspected(world, started), spec)
        await world.engine.remove(started.engine_id)
        await world.engine.close()

    asyncio.run(start_and_compare())


@pytest.mark.long
async def test_the_same_after_adoption_and_after_a_restart_of_the_engine(
    docker_world: DockerWorld, engine_settings: Settings
) -> None:
    """Create, adopt, replace by an edited and by a scaled one, kill the engine, adopt again: compared each time."""
    spec = await spec_of(docker_world, "serves")
    first = await docker_world.engine.start(spec)
    adopted = await docker_world.engine.start(replace(spec, command=("/bin/true",), environment={"A": "b"}))
    assert adopted.engine_id == first.engine_id
    edited = replace(spec, replica_id=new_replica_id(), generation=8, environment={"A": "b"})
    edited = replace(edited, host_port=docker_world.free_port())
    scaled = replace(spec, replica_id=new_replica_id(), slot=3, host_port=docker_world.free_port())
    foreign = replace(
        spec,
        replica_id=new_replica_id(),
        container_id=new_container_id(),
        project_id=new_project_id(),
        organization_id=new_organization_id(),
        host_port=docker_world.free_port(),
    )
    replicas = {
        one.replica_id: (one, await docker_world.engine.start(one)) for one in (edited, scaled, foreign)
    }
    replicas[spec.replica_id] = (spec, first)
    before = await _compared(docker_world, replicas)

    own = own_engine_of(engine_settings, docker_world.docker_host)
    await kill_engine(own, docker_world)
    await ensure_engine(engine_settings, print)
    await docker_world.engine.prepare()
    assert await _compared(docker_world, replicas) == before
    for one, started in replicas.values():
        assert (await docker_world.engine.start(one)).engine_id == started.engine_id
    assert await _compared(docker_world, replicas) == before


async def _compared(
    world: DockerWorld, replicas: Mapping[ReplicaId, tuple[ReplicaSpec, ObservedReplica]]
) -> list[Mapping[str, Any]]:
    """Each replica's whole HostConfig, after comparing it with what its spec asks for; all alike but for the port."""
    configs: list[Mapping[str, Any]] = []
    for spec, started in replicas.values():
        found = await inspected(world, started)
        assert_as_asked(found, spec)
        # A new engine says [] where the old one said null.
        config = {key: value or None for key, value in found["HostConfig"].items() if key != "PortBindings"}
        configs.append(config)
    assert all(config == configs[0] for config in configs)
    return configs


def assert_as_asked(found: Mapping[str, Any], spec: ReplicaSpec) -> None:
    asked = _body(spec)["HostConfig"]
    # These the engine completes or names in its own way.
    asked |= {"RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}}
    del asked["NetworkMode"], asked["Dns"]
    applied = found["HostConfig"]
    assert {key: applied[key] for key in asked} == asked
    unsaid = {
        key: value for key, value in applied.items() if key not in asked and key not in ("NetworkMode", "Dns")
    }
    granted = {key: unsaid[key] for key in _GRANTS if unsaid.get(key)}
    assert granted == {}
    assert (unsaid["Runtime"], unsaid["Isolation"]) == ("runc", "")


_GRANTS = (
    "Binds", "CapAdd", "CgroupParent", "DeviceCgroupRules", "DeviceRequests", "Devices", "ExtraHosts", "GroupAdd",
    "Links", "Mounts", "OomKillDisable", "PidMode", "PublishAllPorts", "StorageOpt", "Sysctls", "Tmpfs", "UTSMode",
    "UsernsMode", "VolumesFrom",
)  # fmt: skip
"""What an engine could add to a container; each must be empty, absent or false."""


def _body(spec: ReplicaSpec) -> dict[str, Any]:
    return create_body(
        spec, installation_id=InstallationId("ins_a"), network="moorage-0", dns=("192.0.2.53",)
    )


def _security_of(body: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in body.items() if key not in NOT_SECURITY}
    rest["HostConfig"] = {key: value for key, value in body["HostConfig"].items() if key != "PortBindings"}
    return rest
