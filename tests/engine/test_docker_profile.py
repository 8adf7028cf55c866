"""The default-deny profile, as Docker and the kernel see it."""

import asyncio
import json
from dataclasses import replace

import pytest

from moorage.engines.docker.connection import DockerConnection
from moorage.engines.docker.create import name_of
from moorage.engines.docker.engine import DockerEngine
from moorage.engines.profile import ALL_GPUS_PATH, MASKED_PATHS, READ_ONLY_PATHS, allowed_system_calls
from moorage.kit.clock import system_clock
from moorage.kit.errors import EngineError, SettingsError, StartError
from tests.engine.conftest import DockerWorld
from tests.engine.contract import MEBIBYTE, logs_of, spec_of
from tests.engine.isolation_support import inspected


async def test_docker_applied_it(docker_world: DockerWorld) -> None:
    spec = await spec_of(docker_world, "serves")
    started = await docker_world.engine.start(spec)
    connection = DockerConnection(docker_world.docker_host)
    inspected = await connection.docker.containers.container(started.engine_id).show()
    await connection.close()
    host = inspected["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    privileges, filtered = host["SecurityOpt"]
    assert privileges == "no-new-privileges:true"
    assert json.loads(filtered.removeprefix("seccomp=")) == allowed_system_calls()
    assert host["Privileged"] is False
    assert host["Memory"] == host["MemorySwap"] == spec.memory_bytes
    assert host["CpuQuota"] / host["CpuPeriod"] == 0.5
    assert host["PidsLimit"] == 4096
    assert host["ShmSize"] == spec.memory_bytes // 2
    assert host["RestartPolicy"]["Name"] == "no"
    assert host["LogConfig"]["Type"] == "local"
    assert (host["PidMode"], host["UTSMode"], host["IpcMode"]) == ("", "", "private")
    assert not host["Binds"]
    assert not host["Devices"]
    assert not host["DeviceRequests"]
    assert tuple(host["MaskedPaths"]) == (*MASKED_PATHS, ALL_GPUS_PATH)
    assert tuple(host["ReadonlyPaths"]) == READ_ONLY_PATHS
    assert inspected["Name"] == f"/{name_of(spec.replica_id)}"
    assert inspected["NetworkSettings"]["Ports"]["8000/tcp"] == [
        {"HostIp": "127.0.0.1", "HostPort": str(spec.host_port)}
    ]


async def test_a_runtime_of_the_operators_choice(docker_world: DockerWorld) -> None:
    def engine(runtime: str) -> DockerEngine:
        world = docker_world
        return DockerEngine(world.docker_host, world.installation_id, system_clock, runtime=runtime)

    chosen, unknown = engine("io.containerd.runc.v2"), engine("no-such-runtime")
    try:
        await chosen.check_runtime()
        spec = await spec_of(docker_world, "serves")
        started = await chosen.start(spec)
        assert (await inspected(docker_world, started))["HostConfig"]["Runtime"] == "io.containerd.runc.v2"
        with pytest.raises(SettingsError, match=r"no runtime 'no-such-runtime'; it has .*runc") as refused:
            await unknown.check_runtime()
        assert "\n" not in refused.value.message
    finally:
        await chosen.close()
        await unknown.close()


async def test_kernel_applied_it(docker_world: DockerWorld) -> None:
    script = "cat /proc/self/status; cat /proc/self/limits; cat /proc/self/oom_score_adj; df -m /dev/shm"
    spec = replace(
        await spec_of(docker_world, "prints"), command=("/bin/sh", "-c", script), memory_bytes=64 * MEBIBYTE
    )
    started = await docker_world.engine.start(spec)
    output = b"\n".join(chunk.data for chunk in await logs_of(docker_world, started.engine_id)).decode()
    words = {line.split(":")[0]: line.split()[1:] for line in output.splitlines() if ":" in line}
    for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert words[capabilities] == ["0" * 16]
    assert words["NoNewPrivs"] == ["1"]
    assert words["Seccomp"] == ["2"]
    assert "Max open files            16384                16384" in output
    assert "\n500\n" in output


async def test_docker_takes_away_what_the_image_would_order_from_nvidias_tools(
    docker_world: DockerWorld,
) -> None:
    spec = await spec_of(docker_world, "prints")
    connection = DockerConnection(docker_world.docker_host)
    docker = connection.docker
    base = await docker.containers.create({"Image": spec.image, "Cmd": ["true"]})
    changes = ["ENV NVIDIA_MOFED=enabled", "ENV NVIDIA_VISIBLE_DEVICES=all", "ENV NVIDIA_TF32_OVERRIDE=1"]
    image = str((await base.commit(changes=changes))["Id"])
    try:
        started = await docker_world.engine.start(
            replace(spec, image=image, command=("/bin/sh", "-c", "export -p"))
        )
        output = b"\n".join(chunk.data for chunk in await logs_of(docker_world, started.engine_id)).decode()
        exported = sorted(line.removeprefix("export ") for line in output.splitlines())
        nvidia = [line for line in exported if line.startswith("NVIDIA_")]
        assert nvidia == ["NVIDIA_TF32_OVERRIDE='1'", "NVIDIA_VISIBLE_DEVICES='void'"]
        await docker_world.engine.remove(started.engine_id)
    finally:
        await base.delete(force=True)
        await docker.images.delete(image, force=True)
        await connection.close()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("serve-the-model",), "'serve-the-model' was not found"),
        (("/opt/serve", "--token", "canary"), "'/opt/serve' was not found"),
        (("/etc/not-executable",), "'/etc/not-executable' is not executable"),
        (("/etc",), "'/etc' is not executable"),
    ],
)
@pytest.mark.long
async def test_wrong_command(docker_world: DockerWorld, command: tuple[str, ...], words: str) -> None:
    spec = replace(await spec_of(docker_world, "prints"), command=command)
    with pytest.raises(StartError, match=words) as caught:
        await docker_world.engine.start(spec)
    assert caught.value.code == "start_command_not_found"
    assert "canary" not in str(caught.value)


async def test_engine_errors_quote_no_environment(docker_world: DockerWorld) -> None:
    spec = replace(await spec_of(docker_world, "prints"), environment={"": "canary-value-4711"})
    with pytest.raises(EngineError) as caught:
        await docker_world.engine.start(spec)
    error: BaseException | None = caught.value
    assert "canary" not in str(error)
    assert caught.value.__cause__ is None


async def test_published_on_loopback_only(docker_world: DockerWorld) -> None:
    spec = await spec_of(docker_world, "serves")
    await docker_world.engine.start(spec)

    async def answers() -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", spec.host_port)
        except OSError:
            return False
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        text = await reader.read()
        writer.close()
        return b"hello from busybox" in text

    await docker_world.until(answers)
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.2", spec.host_port)
