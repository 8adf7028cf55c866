"""The profile is default-deny for every spec, and the engine's request says nothing that the profile does not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.engines.base import ReplicaSpec
from moorage.engines.docker.create import create_body, host_config
from moorage.engines.profile import (
    ALL_GPUS_PATH,
    MASKED_PATHS,
    READ_ONLY_PATHS,
    allowed_in_sandbox,
    allowed_system_calls,
    profile_for,
)
from moorage.kit.ids import ContainerId, InstallationId, OrganizationId, ProjectId, ReplicaId

specs = st.builds(
    ReplicaSpec,
    replica_id=st.just(ReplicaId("rep_a")),
    container_id=st.just(ContainerId("ctr_a")),
    project_id=st.just(ProjectId("prj_a")),
    organization_id=st.just(OrganizationId("org_a")),
    slot=st.integers(0, 30),
    generation=st.integers(1, 1000),
    image=st.just("sha256:00"),
    command=st.none() | st.lists(st.text(), min_size=1).map(tuple),
    environment=st.dictionaries(
        st.sampled_from(["PORT", "NVIDIA_VISIBLE_DEVICES", "TOKEN", "PATH"]), st.text()
    ),
    port=st.integers(1, 65535),
    host_port=st.integers(20000, 29999),
    vcpu_millis=st.integers(1, 256_000),
    memory_bytes=st.integers(16 * 1024**2, 4 * 1024**4),
    disk_bytes=st.integers(1024**2, 1024**4),
    gpu_device_ids=st.lists(st.sampled_from(["GPU-a", "GPU-b"]), unique=True).map(tuple),
)


def one_spec(vcpu_millis: int) -> ReplicaSpec:
    return ReplicaSpec(
        replica_id=ReplicaId("rep_a"),
        container_id=ContainerId("ctr_a"),
        project_id=ProjectId("prj_a"),
        organization_id=OrganizationId("org_a"),
        slot=0,
        generation=1,
        image="sha256:00",
        command=None,
        environment={"TOKEN": "canary"},
        port=8000,
        host_port=20000,
        vcpu_millis=vcpu_millis,
        memory_bytes=1024**3,
        disk_bytes=1024**3,
    )


def body_of(spec: ReplicaSpec) -> dict[str, object]:
    return create_body(
        spec, installation_id=InstallationId("ins_a"), network="moorage-0", dns=("192.0.2.53",)
    )


@given(specs)
def test_default_deny(spec: ReplicaSpec) -> None:
    profile = profile_for(spec)
    assert profile.dropped_capabilities == ("ALL",)
    assert profile.no_new_privileges
    assert profile.restart_policy == "no"
    assert profile.memory_bytes == spec.memory_bytes
    assert profile.shared_memory_bytes == spec.memory_bytes // 2
    assert profile.cpu_quota_us >= 1000
    assert profile.open_files_limit < 20_000
    assert (profile.gpus.device_ids if profile.gpus else ()) == spec.gpu_device_ids


@given(specs)
def test_the_runtime_is_all_that_a_runtime_changes(spec: ReplicaSpec) -> None:
    plain, other = host_config(profile_for(spec)), host_config(profile_for(spec, "kata"))
    assert other == plain | {"Runtime": "kata"}
    sandboxed = host_config(profile_for(spec, "runsc"))
    privileges, filtered = sandboxed["SecurityOpt"]
    assert sandboxed == plain | {"Runtime": "runsc", "SecurityOpt": [privileges, filtered]}
    assert privileges == plain["SecurityOpt"][0]
    assert json.loads(filtered.removeprefix("seccomp=")) == allowed_in_sandbox()


@given(specs)
def test_host_config_grants_nothing(spec: ReplicaSpec) -> None:
    config = host_config(profile_for(spec))
    assert config["MemorySwap"] == config["Memory"] == spec.memory_bytes
    assert not {"Binds", "Mounts", "Devices", "CapAdd", "PidMode", "UTSMode", "VolumesFrom", "Runtime"} & set(
        config
    )
    assert not {"UsernsMode", "ExtraHosts"} & set(config)
    assert ("DeviceRequests" in config) == bool(spec.gpu_device_ids)


def test_nothing_is_left_to_the_engines_defaults() -> None:
    """Not named would mean Docker's own list, which differs from version to version."""
    config = host_config(profile_for(one_spec(250)))
    assert config["MaskedPaths"] == [*MASKED_PATHS, ALL_GPUS_PATH]
    assert config["ReadonlyPaths"] == list(READ_ONLY_PATHS)
    (filtered,) = [one for one in config["SecurityOpt"] if one.startswith("seccomp=")]
    assert json.loads(filtered.removeprefix("seccomp="))["defaultAction"] == "SCMP_ACT_ERRNO"


def test_the_list_of_system_calls() -> None:
    rules = allowed_system_calls()["syscalls"]
    allowed = [name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]]
    refused = [name for rule in rules if rule["action"] != "SCMP_ACT_ALLOW" for name in rule["names"]]
    unconditional = [
        name
        for rule in rules
        if rule["action"] == "SCMP_ACT_ALLOW" and not rule.get("args")
        for name in rule["names"]
    ]
    assert not set(allowed) & set(refused)
    assert len(unconditional) == len(set(unconditional))
    # One rule without a condition would make those with one meaningless.
    assert not {"socket", "clone", "personality"} & set(unconditional)
    # Never a comparison of inequality: the kernel looks at 32 bits of an argument, the filter at 64.
    operators = {argument["op"] for rule in rules for argument in rule.get("args", ())}
    assert operators == {"SCMP_CMP_EQ", "SCMP_CMP_MASKED_EQ"}
    never = "bpf clone3 io_uring_setup keyctl modify_ldt mount perf_event_open setns unshare userfaultfd"
    assert not set(never.split()) & set(allowed)


def test_a_sandbox_is_asked_for_clone3_itself() -> None:
    """What is refused there is refused as not permitted, and then no program begins a thread."""
    outside, inside = allowed_system_calls()["syscalls"], allowed_in_sandbox()["syscalls"]
    differ = [(before, after) for before, after in zip(outside, inside, strict=True) if before != after]
    assert differ == [
        (
            {"action": "SCMP_ACT_ERRNO", "errnoRet": 38, "names": ["clone3"]},
            {"action": "SCMP_ACT_ALLOW", "names": ["clone3"]},
        )
    ]


@given(specs)
def test_only_assigned_gpus_whatever_the_user_says(spec: ReplicaSpec) -> None:
    environment = body_of(spec)["Env"]
    assert isinstance(environment, list)
    visible = [entry for entry in environment if entry.startswith("NVIDIA_VISIBLE_DEVICES=")]
    assert visible == [f"NVIDIA_VISIBLE_DEVICES={','.join(spec.gpu_device_ids) or 'void'}"]


@given(specs)
def test_published_on_loopback_only(spec: ReplicaSpec) -> None:
    config = body_of(spec)["HostConfig"]
    assert isinstance(config, dict)
    assert config["PortBindings"] == {
        f"{spec.port}/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(spec.host_port)}]
    }


@given(specs)
def test_port_of_the_user_wins(spec: ReplicaSpec) -> None:
    environment = body_of(spec)["Env"]
    assert isinstance(environment, list)
    assert f"PORT={spec.environment.get('PORT', spec.port)}" in environment


@given(specs)
def test_command_replaces_entrypoint_and_arguments(spec: ReplicaSpec) -> None:
    body = body_of(spec)
    if spec.command is None:
        assert "Entrypoint" not in body
        assert "Cmd" not in body
    else:
        assert (body["Entrypoint"], body["Cmd"]) == (list(spec.command), [])


@pytest.mark.parametrize(("vcpu_millis", "quota_us"), [(250, 25_000), (4000, 400_000), (1, 1000)])
def test_cpu_quota(vcpu_millis: int, quota_us: int) -> None:
    spec = one_spec(vcpu_millis)
    assert profile_for(spec).cpu_quota_us == quota_us
    assert "canary" not in repr(spec)
