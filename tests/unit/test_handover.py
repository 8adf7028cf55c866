"""Which way a machine's GPUs go, why, and what a container gets of them."""

import asyncio
import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from gpu_machines import H200, LIBRARIES, NO_NVML, VERSION, FakeHost, nvml
from hypothesis import given
from hypothesis import strategies as st

from moorage.containers.start_limit import NOT_ITS_FAULT
from moorage.engines.base import GpuHandover, ReplicaSpec
from moorage.engines.docker.connection import DockerConnection
from moorage.engines.docker.create import create_body
from moorage.engines.docker.gpus import LIBRARIES_INSIDE, Gpus, _grant
from moorage.engines.hosts.host import GpuHost, HostReader
from moorage.kit.clock import VirtualClock
from moorage.kit.errors import EngineError, StartError
from moorage.kit.ids import ContainerId, InstallationId, OrganizationId, ProjectId, ReplicaId


async def test_the_runtime_comes_first(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.with_toolkit()
    host.with_cdi("0")
    found = (await host.read()).handover
    assert found.way is GpuHandover.RUNTIME
    assert found.reason == "the engine has NVIDIA's runtime"


@pytest.mark.parametrize("name", ["0", "GPU-0"])
async def test_then_cdi_by_the_names_of_its_specification(tmp_path: Path, name: str) -> None:
    host = FakeHost(tmp_path)
    host.with_cdi(name, "all")
    found = await host.read()
    assert (found.handover.way, found.handover.reason) == (
        GpuHandover.CDI,
        "the engine has no NVIDIA runtime",
    )
    assert found.cdi == {"GPU-0": f"nvidia.com/gpu={name}"}


async def test_a_newer_engine_tells_its_cdi_devices_itself(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.information["DiscoveredDevices"] = [{"Source": "cdi", "ID": "nvidia.com/gpu=GPU-0"}]
    assert (await host.read()).handover.way is GpuHandover.CDI


async def test_a_specification_in_yaml_is_read_and_a_broken_one_is_none(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.information["CDISpecDirs"] = ["/etc/cdi"]
    host.write("etc/cdi/nvidia.yaml", 'cdiVersion: "0.6.0"\nkind: nvidia.com/gpu\ndevices:\n  - name: "0"\n')
    assert (await host.read()).handover.way is GpuHandover.CDI
    host.write("etc/cdi/nvidia.yaml", "kind: [nvidia.com/gpu\n")
    assert (await host.read()).handover.way is GpuHandover.DIRECT


async def test_then_directly_and_it_says_why(tmp_path: Path) -> None:
    found = (await FakeHost(tmp_path).read()).handover
    assert (found.way, found.reason) == (GpuHandover.DIRECT, "the engine has no NVIDIA runtime and no CDI")


async def test_a_runtime_whose_program_is_gone_is_not_taken(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.with_toolkit()
    host.remove("usr/bin/nvidia-container-runtime")
    assert (await host.read()).handover.way is GpuHandover.DIRECT


async def test_what_is_missing_is_said_where_no_way_works(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.remove("dev/nvidia-uvm")
    found = await host.read()
    assert found.handover.way is GpuHandover.NONE
    assert (
        found.handover.reason
        == "the engine has no NVIDIA runtime and no CDI and the device node /dev/nvidia-uvm is missing"
    )
    assert (
        found.devices[0].unusable_because
        == f"it cannot be handed over to containers: {found.handover.reason}"
    )


async def test_the_operator_may_choose(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, wanted="cdi")
    found = (await host.read()).handover
    assert (found.way, found.reason) == (GpuHandover.NONE, "MOORAGE_GPU_HANDOVER is cdi, and no CDI")
    host.with_toolkit()
    host.wanted = "direct"
    assert (await host.read()).handover.way is GpuHandover.DIRECT


async def test_the_libraries_are_those_of_the_loaded_driver(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.libraries("535.10.01", "usr/local/nvidia/lib64")
    files = (await host.read()).files
    assert files.folder == str(tmp_path / LIBRARIES)
    assert files.libraries["libcuda.so.1"] == str(tmp_path / LIBRARIES / f"libcuda.so.{VERSION}")
    assert not any("glcore" in name for name in files.libraries), "nothing that draws"


@pytest.mark.parametrize("with_toolkit", [False, True])
async def test_files_of_another_driver_than_the_loaded_one_go_to_nobody(
    tmp_path: Path, with_toolkit: bool
) -> None:
    """The driver was upgraded and the machine not restarted. A controller that runs since before still gets NVML's answer:
    it has the old library in memory. A container would get the new one, which does not talk to the loaded driver."""
    host = FakeHost(tmp_path)
    if with_toolkit:
        host.with_toolkit()
    for file in (tmp_path / LIBRARIES).iterdir():
        file.unlink()
    host.libraries("590.10.01")
    found = await host.read()
    assert found.handover.way is GpuHandover.NONE
    assert found.handover.reason == f"the loaded driver is {VERSION} and its libraries are 590.10.01"
    assert found.devices[0].unusable_because is not None
    assert [(one.code, one.command) for one in found.findings] == [("driver_library_mismatch", "reboot")]


async def test_a_specification_whose_numbers_mean_other_gpus_by_now_is_not_used(tmp_path: Path) -> None:
    """It was written before a GPU was taken out: what it calls 0 is the node of another, perhaps of another's GPU."""
    host = FakeHost(tmp_path)
    host.with_cdi("0", nodes={"0": "/dev/nvidia1"})
    assert (await host.read()).handover.way is GpuHandover.DIRECT
    host.with_cdi("0", nodes={"0": "/dev/nvidia0"})
    assert (await host.read()).handover.way is GpuHandover.CDI
    # Also where the engine lists the names itself.
    host.information["DiscoveredDevices"] = [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]
    assert (await host.read()).handover.way is GpuHandover.CDI
    host.with_cdi("0", nodes={"0": "/dev/nvidia1"})
    assert (await host.read()).handover.way is GpuHandover.DIRECT
    # An id means one GPU for ever, and the node behind it does not.
    host.with_cdi("GPU-0", nodes={"GPU-0": "/dev/nvidia1"})
    host.information["DiscoveredDevices"] = [{"Source": "cdi", "ID": "nvidia.com/gpu=GPU-0"}]
    assert (await host.read()).handover.way is GpuHandover.DIRECT
    host.with_cdi("GPU-0", nodes={"GPU-0": "/dev/nvidia0"})
    assert (await host.read()).handover.way is GpuHandover.CDI


async def test_an_outdated_specification_is_said_with_the_command_that_renews_it(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.with_cdi("GPU-0", "0", nodes={"GPU-0": "/dev/nvidia1", "0": "/dev/nvidia0"})
    found = await host.read()
    assert found.handover.way is GpuHandover.DIRECT
    assert found.cdi == {}
    (finding,) = found.findings
    assert (finding.code, finding.broken) == ("cdi_outdated", False)
    assert (
        "/etc/cdi/nvidia.json is out of date (it says nvidia1 for GPU-0, which is nvidia0)" in finding.message
    )
    assert finding.command.endswith("nvidia-ctk cdi generate --output=/etc/cdi/nvidia.json")
    assert "out of date" in (found.handover.reason or "")
    host.wanted = "cdi"
    found = await host.read()
    assert found.handover.way is GpuHandover.NONE
    assert [(one.code, one.broken) for one in found.findings] == [("cdi_outdated", True)]


@pytest.mark.parametrize(
    "document",
    [
        # The name inside is right, the node outside is another's.
        {"devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/dev/nvidia1"}]}}]},
        # Another's beside its own.
        {"devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}, {"path": "/dev/nvidia1"}]}}]},
        # All containers get another's.
        {
            "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
            "containerEdits": {"deviceNodes": [{"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia1"}]},
        },
    ],
)  # fmt: skip
async def test_a_specification_that_brings_anothers_gpu_is_not_used(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    host = FakeHost(tmp_path)
    host.with_cdi("0")
    host.write("etc/cdi/nvidia.json", json.dumps({"kind": "nvidia.com/gpu", **document}))
    assert (await host.read()).handover.way is GpuHandover.DIRECT


async def test_a_specification_makes_no_nodes(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, wanted="cdi")
    host.with_cdi("0", "1", nodes={"0": "/dev/nvidia0", "1": "/dev/nvidia1"})
    other = replace(H200, device_id="GPU-1", index=1, minor=1, bus_id="00000000:4C:00.0")
    host.answer = nvml(H200, other)
    found = await host.read()
    assert found.handover.way is GpuHandover.CDI
    assert [one.unusable_because for one in found.devices] == [
        None,
        "its device node /dev/nvidia1 is missing",
    ]
    host.remove("dev/nvidia-uvm")
    found = await host.read()
    assert found.handover.way is GpuHandover.NONE
    assert [one.code for one in found.findings] == ["device_nodes_missing"]


async def test_without_an_engine_nothing_is_handed_over(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.information.clear()
    found = await host.read()
    assert (found.handover.way, found.handover.reason) == (GpuHandover.NONE, "no container engine answers")
    assert (
        found.devices[0].unusable_because
        == "it cannot be handed over to containers: no container engine answers"
    )
    # Whoever looked for the engine says that there is none.
    assert found.findings == ()


async def test_a_folder_that_only_the_linker_knows_is_found(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    for file in (tmp_path / LIBRARIES).iterdir():
        file.unlink()
    host.libraries(VERSION, "opt/driver")
    host.write("etc/ld.so.conf.d/nvidia.conf", "# the driver\n/opt/driver\n")
    assert (await host.read()).handover.way is GpuHandover.DIRECT


def spec_with(*device_ids: str, **environment: str) -> ReplicaSpec:
    return ReplicaSpec(
        ReplicaId("rep_a"), ContainerId("ctr_a"), ProjectId("prj_a"), OrganizationId("org_a"), 0, 1, "sha256:00",
        None, environment, 8000, 20000, 1000, 2**30, 2**30, device_ids,
    )  # fmt: skip


async def eight(root: Path) -> GpuHost:
    host = FakeHost(root)
    host.nodes(*(f"nvidia{index}" for index in range(8)))
    host.answer = nvml(
        *(
            replace(
                H200, device_id=f"GPU-{index}", index=index, minor=7 - index, bus_id=f"00000000:0{index}:00.0"
            )
            for index in range(8)
        )
    )
    return await host.read()


async def test_directly_a_container_gets_its_gpus_and_the_driver_and_nothing_else(tmp_path: Path) -> None:
    host = await eight(tmp_path)
    spec = spec_with("GPU-2", "GPU-5")
    body = create_body(
        spec,
        installation_id=InstallationId("ins_a"),
        network="bridge",
        dns=(),
        gpus=_grant(host, spec, {"LD_LIBRARY_PATH": "/opt/lib"}),
    )
    config = body["HostConfig"]
    nodes = [device["PathOnHost"] for device in config["Devices"]]
    # By its minor number, which need not be its index.
    assert nodes == [
        "/dev/nvidia5",
        "/dev/nvidia2",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
    ]
    assert all(device["CgroupPermissions"] == "rw" for device in config["Devices"])
    assert all(mount["ReadOnly"] and mount["Type"] == "bind" for mount in config["Mounts"])
    assert {mount["Target"].rpartition("/")[0] for mount in config["Mounts"]} == {LIBRARIES_INSIDE}
    assert f"LD_LIBRARY_PATH=/opt/lib:{LIBRARIES_INSIDE}" in body["Env"]
    assert "NVIDIA_VISIBLE_DEVICES=GPU-2,GPU-5" in body["Env"]
    hidden = [path for path in config["MaskedPaths"] if path.startswith("/proc/driver/nvidia")]
    # Every other GPU's; its own the driver's libraries may read.
    assert hidden == [f"/proc/driver/nvidia/gpus/0000:0{index}:00.0" for index in (0, 1, 3, 4, 6, 7)]
    assert config["CapDrop"] == ["ALL"]
    assert not config["Privileged"]
    assert "DeviceRequests" not in config


def test_without_a_gpu_there_is_no_device_no_mount_and_no_word_of_the_others() -> None:
    body = create_body(spec_with(), installation_id=InstallationId("ins_a"), network="bridge", dns=())
    assert "Devices" not in body["HostConfig"]
    assert "Mounts" not in body["HostConfig"]
    assert "/proc/driver/nvidia" in body["HostConfig"]["MaskedPaths"]


async def test_by_cdi_a_container_gets_the_devices_by_name(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.with_cdi("0")
    spec = spec_with("GPU-0")
    body = create_body(
        spec,
        installation_id=InstallationId("ins_a"),
        network="bridge",
        dns=(),
        gpus=_grant(await host.read(), spec, {}),
    )
    assert body["HostConfig"]["DeviceRequests"] == [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]


async def test_a_gpu_without_its_node_hides_no_other(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    others = [
        replace(H200, device_id=f"GPU-{minor}", index=minor, minor=minor, bus_id=f"00000000:0{minor}:00.0")
        for minor in (1, 2)
    ]
    host.answer = nvml(H200, *others)
    found = await host.read()
    assert found.handover.way is GpuHandover.DIRECT
    assert [one.unusable_because for one in found.devices] == [
        None,
        "its device node /dev/nvidia1 is missing",
        "its device node /dev/nvidia2 is missing",
    ]
    (finding,) = found.findings
    assert finding.message == "The NVIDIA driver is loaded, but /dev/nvidia1, /dev/nvidia2 are missing."
    assert finding.command == "nvidia-modprobe -u -c 1 -c 2"
    host.remove("dev/nvidia0", "dev/nvidia-uvm")
    found = await host.read()
    assert found.handover.way is GpuHandover.NONE
    # The toolkit would not make them either.
    assert [one.code for one in found.findings] == ["device_nodes_missing"]
    assert found.findings[0].command == "nvidia-modprobe -u -c 0 -c 1 -c 2"


@pytest.mark.parametrize("way", [GpuHandover.RUNTIME, GpuHandover.CDI, GpuHandover.DIRECT, GpuHandover.NONE])
async def test_neither_image_nor_user_orders_devices_from_nvidias_tools(
    tmp_path: Path, way: GpuHandover
) -> None:
    host = FakeHost(tmp_path)
    if way is GpuHandover.RUNTIME:
        host.with_toolkit()
    if way is GpuHandover.CDI:
        host.with_cdi("0")
    orders = {
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "all",
        "NVIDIA_MOFED": "enabled",
        "NVIDIA_NVSWITCH": "enabled",
        "NVIDIA_GDS": "enabled",
        "NVIDIA_GDRCOPY": "enabled",
        "NVIDIA_IMEX_CHANNELS": "all",
        "NVIDIA_MIG_CONFIG_DEVICES": "all",
        "NVIDIA_MIG_MONITOR_DEVICES": "all",
        "NVIDIA_REQUIRE_JETPACK": "csv-mounts=all",
        "DOCKER_RESOURCE_GPU": "all",
    }
    # One that a later version of the toolkit may know; where there is no GPU it does nothing at all ("void").
    future = {} if way is GpuHandover.NONE else {"NVIDIA_EVERYTHING": "enabled"}
    harmless = {
        "NVIDIA_REQUIRE_CUDA": "cuda>=12.4",
        "NVIDIA_DISABLE_REQUIRE": "1",
        "NVIDIA_TF32_OVERRIDE": "0",
        "NVIDIA_PYTORCH_VERSION": "25.01",
        "NVIDIA_API_KEY": "secret",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    device_ids = () if way is GpuHandover.NONE else ("GPU-0",)
    spec = spec_with(*device_ids, **orders, **harmless, NVIDIA_OF_THE_USER="enabled")
    image = {**orders, **future}
    grant = _grant(await host.read(), spec, {**image, **spec.environment}) if device_ids else None
    assert grant is None or grant.way is way
    body = create_body(spec, installation_id=InstallationId("ins_a"), network="bridge", dns=(), gpus=grant)
    inside = merged_by_docker(image, body["Env"])
    assert {name: inside[name] for name in harmless} == harmless
    ours = {name: value for name, value in inside.items() if name not in harmless}
    ours.pop("LD_LIBRARY_PATH", None)
    assert ours.pop("PORT") == "8000"
    if way is GpuHandover.NONE:
        assert ours == {"NVIDIA_VISIBLE_DEVICES": "void"}
    else:
        assert ours == {
            "NVIDIA_VISIBLE_DEVICES": "GPU-0",
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        }


def merged_by_docker(image: dict[str, str], entries: list[str]) -> dict[str, str]:
    """The image's environment, with what the create call says laid over it; a name alone takes one away. That Docker does
    so: `test_docker_profile.py`."""
    named = {entry.partition("=")[0] for entry in entries}
    kept = {name: value for name, value in image.items() if name not in named}
    return kept | dict(entry.split("=", 1) for entry in entries if "=" in entry)


@dataclass
class GpusOf(Gpus):
    """With an engine's words, and no engine."""

    information: dict[str, Any] = field(default_factory=dict)

    async def _information(self) -> dict[str, Any]:
        return {**self.information, "Name": "box"}

    async def _config(self, image: str) -> dict[str, Any]:
        return {}


async def test_a_gpu_that_broke_before_the_start_is_nobodys_fault(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    gpus = GpusOf(
        DockerConnection("unix:///nowhere.sock"),
        HostReader(tmp_path, host.ask),
        VirtualClock(),
        information=host.information,
    )
    assert (await gpus.grant(spec_with("GPU-0"))).way is GpuHandover.DIRECT
    host.log("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
    with pytest.raises(StartError) as broken:
        await gpus.grant(spec_with("GPU-0"))
    # A container that never served is given up for `gpu_not_detected`, and waits for another GPU for this one.
    assert (broken.value.code, broken.value.code in NOT_ITS_FAULT) == ("gpu_lost", True)
    assert "it has fallen off the bus" in broken.value.message
    # One that is not there at all any more.
    with pytest.raises(StartError) as gone:
        await gpus.grant(spec_with("GPU-9"))
    assert gone.value.code == "gpu_lost"
    # A library that hangs tells nothing of them.
    host.answer = NO_NVML["silent"]
    with pytest.raises(EngineError) as silent:
        await gpus.grant(spec_with("GPU-0"))
    assert not isinstance(silent.value, StartError)
    # A machine that hands over nothing any more.
    host.answer = NO_NVML["driver"]
    with pytest.raises(StartError) as nothing:
        await gpus.grant(spec_with("GPU-0"))
    assert nothing.value.code == "gpu_not_detected"


async def test_a_replica_waits_until_the_one_before_has_given_back_its_gpu() -> None:
    asked: list[frozenset[int]] = [frozenset({42}), frozenset({42}), frozenset()]
    clock = VirtualClock()

    async def users(_: Collection[str]) -> frozenset[int]:
        return asked.pop(0)

    gpus = Gpus(DockerConnection("unix:///nowhere.sock"), HostReader(), clock, users)
    waiting = asyncio.create_task(gpus.wait_until_free(("GPU-0",)))
    while not waiting.done():
        await clock.advance(0.1)
    await waiting
    assert asked == []


async def test_a_gpu_that_somebody_else_uses_is_said_to_be_busy() -> None:
    clock = VirtualClock()

    async def users(_: Collection[str]) -> frozenset[int]:
        return frozenset({42, 7})

    gpus = Gpus(DockerConnection("unix:///nowhere.sock"), HostReader(), clock, users)
    waiting = asyncio.create_task(gpus.wait_until_free(("GPU-0",)))
    while not waiting.done():
        await clock.advance(1.0)
    with pytest.raises(StartError) as busy:
        await waiting
    assert busy.value.code == "gpu_busy"
    assert "pid 7, 42" in busy.value.message


@given(st.text(max_size=40))
def test_a_cdi_file_of_anything_breaks_nothing(text: str) -> None:
    import tempfile

    from moorage.engines.hosts.facts import engine_facts

    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.json", "a.yaml"):
            (Path(folder) / name).write_text(text, errors="replace")
        engine_facts(Path(folder), {"CDISpecDirs": ["/"]}, is_local=True, sandbox=None)
