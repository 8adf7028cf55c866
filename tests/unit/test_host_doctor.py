"""Broken machines, each made of files and answers, and the one sentence and command that each gets."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_machines import H200, NO_NVML, VERSION, FakeHost, nvml

from moorage.engines.base import DiskSpace, GpuHandover
from moorage.engines.hosts.doctor import diagnose
from moorage.engines.hosts.host import HostReader
from moorage.engines.nvidia import GpuMachine, NvmlAnswer, NvmlFailure

Break = Callable[[FakeHost], None]
BROKEN: dict[str, tuple[Break, str, str]] = {}
"""By the finding's code: how the machine is broken, words of its sentence, words of the command."""


def broken(code: str, sentence: str, command: str) -> Callable[[Break], Break]:
    def register(change: Break) -> Break:
        BROKEN[code] = change, sentence, command
        return change

    return register


@broken("driver_missing", "no NVIDIA driver for the kernel", "apt-get install nvidia-driver")
def _(host: FakeHost) -> None:
    host.without_driver()
    host.pci(driver=None)


@broken("driver_not_loaded", "installed but not loaded", "modprobe nvidia")
def _(host: FakeHost) -> None:
    host.without_driver()
    host.pci(driver=None)
    host.write("lib/modules/6.18.44/modules.dep", "updates/dkms/nvidia.ko.xz: kernel/drivers/i2c.ko\n")


@broken("driver_nouveau", "held by the driver nouveau", "blacklist nouveau")
def _(host: FakeHost) -> None:
    host.without_driver()
    host.pci(driver="nouveau")


@broken("driver_vfio", "reserved for virtual machines", "driverctl unset-override 0000:3b:00.0")
def _(host: FakeHost) -> None:
    host.without_driver()
    host.pci(driver="vfio-pci")


@broken("driver_library_mismatch", "driver is 580.159.04, but its libraries are 580.95.05", "reboot")
def _(host: FakeHost) -> None:
    for name in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"):
        host.remove(f"usr/lib/x86_64-linux-gnu/{name}.so.580.159.04")
    host.libraries("580.95.05")
    host.answer = NO_NVML["mismatch"]


@broken(
    "library_missing", "its libraries (libcuda, libnvidia-ml) are not installed", "apt-get install libcuda1"
)
def _(host: FakeHost) -> None:
    for name in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"):
        for ending in ("so.580.159.04", "so.1", "so"):
            host.remove(f"usr/lib/x86_64-linux-gnu/{name}.{ending}")
    host.answer = NO_NVML["library"]


@broken("device_nodes_missing", "/dev/nvidia-uvm is missing", "nvidia-modprobe -u -c 0")
def _(host: FakeHost) -> None:
    host.remove("dev/nvidia-uvm")


@broken("toolkit_missing", "cannot be handed over to containers", "apt-get install nvidia-container-toolkit")
def _(host: FakeHost) -> None:
    host.wanted = "runtime"


@broken(
    "cdi_missing", "MOORAGE_GPU_HANDOVER is cdi, and its CDI", "nvidia-ctk cdi generate --output=/etc/cdi/"
)
def _(host: FakeHost) -> None:
    host.wanted = "cdi"
    host.information["CDISpecDirs"] = ["/etc/cdi"]


@broken("cdi_outdated", "is out of date (it says nvidia1 for 0, which is nvidia0)", "nvidia-ctk cdi generate")
def _(host: FakeHost) -> None:
    host.with_cdi("0", nodes={"0": "/dev/nvidia1"})


@broken("driver_shows_none", "shows no GPU, and none is left on the bus", "dmesg | grep NVRM")
def _(host: FakeHost) -> None:
    host.answer = NvmlAnswer(GpuMachine(VERSION, (13, 0), ()))
    for name in ("vendor", "class", "driver"):
        host.remove(f"sys/bus/pci/devices/0000:3b:00.0/{name}")


@broken(
    "gpu_not_shown", "The GPU at 0000:4c:00.0 is on the bus, but the NVIDIA driver does not show it", "dmesg"
)
def _(host: FakeHost) -> None:
    host.pci("nvidia", "0000:4c:00.0")


@broken("driver_refuses_gpu", "loaded, but does not take the GPU at 0000:4c:00.0", "dmesg | grep NVRM")
def _(host: FakeHost) -> None:
    host.pci(None, "0000:4c:00.0")


@broken("device_node_unknown", "the driver does not name its device node", "nvidia-container-toolkit")
def _(host: FakeHost) -> None:
    host.answer = nvml(H200, replace(H200, device_id="GPU-1", index=1, minor=None, bus_id="00000000:4C:00.0"))


@broken("gpus_not_offered", "are not offered: no NVIDIA driver is loaded", "nvidia-smi; dmesg")
def _(host: FakeHost) -> None:
    """NVIDIA's module has the GPU, and neither /proc nor NVML tells of it."""
    host.without_driver()


async def test_a_library_of_the_driver_that_is_missing(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.remove("usr/lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so.1")
    host.remove("usr/lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so")
    host.remove("usr/lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so.580.159.04")

    (finding,) = await host.findings()
    assert "the driver's library libnvidia-ptxjitcompiler was not found" in finding.message
    assert finding.command == "apt-get install libnvidia-ptxjitcompiler1  # of version 580.159.04"


@broken(
    "toolkit_broken", "/usr/bin/nvidia-container-runtime is not there", "--reinstall nvidia-container-toolkit"
)
def _(host: FakeHost) -> None:
    host.with_toolkit()
    host.remove("usr/bin/nvidia-container-runtime")


@broken("gpu_vanishes_on_reload", "at the next `systemctl daemon-reload`", "create-dev-char-symlinks")
def _(host: FakeHost) -> None:
    host.information["CgroupDriver"] = "systemd"
    host.with_toolkit()
    # Nodes of a test have no number of their own: a link to one that has stands for it.
    host.remove("dev/nvidiactl")
    (host.root / "dev/nvidiactl").symlink_to("/dev/null")


@broken("xid", "reported Xid 119: its own processor (GSP) does not answer", "reboot")
def _(host: FakeHost) -> None:
    host.log("NVRM: Xid (PCI:0000:3b:00): 119, pid=7, name=python3, Timeout waiting for RPC from GSP!")


@broken("gpu_lost", "at 0000:3b:00 has fallen off the bus", "reboot")
def _(host: FakeHost) -> None:
    host.log("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.")


@broken("ecc_errors", "had 3 memory errors that could not be corrected", "nvidia-smi --gpu-reset -i 0")
def _(host: FakeHost) -> None:
    host.answer = nvml(replace(H200, uncorrected_errors=3))


@broken("ecc_reset_pending", "which it leaves out only after a reset", "nvidia-smi --gpu-reset -i 0")
def _(host: FakeHost) -> None:
    host.answer = nvml(replace(H200, rows_pending=True))


@broken("ecc_worn_out", "worn out: no spare row is left", "ROW_REMAPPER")
def _(host: FakeHost) -> None:
    host.answer = nvml(replace(H200, rows_failed=True))


@broken("persistence_off", "unloaded whenever nothing uses it", "nvidia-smi -pm 1")
def _(host: FakeHost) -> None:
    host.answer = nvml(replace(H200, persistent=False))


@broken("driver_too_old", "asks for cuda>=13.2; the driver 580.159.04 runs CUDA 13.0", "a newer driver")
def _(host: FakeHost) -> None:
    host.images["vllm/vllm-openai:v1"] = {"NVIDIA_REQUIRE_CUDA": "cuda>=13.2"}


@broken("cgroup_driver", "two managers of the same groups", "native.cgroupdriver=systemd")
def _(host: FakeHost) -> None:
    (host.root / "run/systemd/system").mkdir(parents=True)


@broken("kvm_missing", "there is no /dev/kvm", "modprobe kvm_intel")
def _(host: FakeHost) -> None:
    host.sandbox = "kata"
    host.information["Runtimes"]["kata"] = {"path": "/usr/bin/kata-runtime"}


@broken("nvproxy_missing", "set up without --nvproxy", "runsc install")
def _(host: FakeHost) -> None:
    host.sandbox = "runsc"
    host.information["Runtimes"]["runsc"] = {"path": "/usr/bin/runsc", "runtimeArgs": ["--platform=systrap"]}


@broken("driver_hangs", "does not answer: a GPU hangs", "dmesg")
def _(host: FakeHost) -> None:
    host.answer = NO_NVML["silent"]


@broken("driver_fails", "The NVIDIA driver fails: Unknown Error", "nvidia-smi")
def _(host: FakeHost) -> None:
    host.answer = NvmlAnswer(failure=NvmlFailure.OTHER, words="Unknown Error")


@broken("compute_prohibited", "compute mode is 'prohibited'", "nvidia-smi -c 0")
def _(host: FakeHost) -> None:
    host.answer = nvml(replace(H200, prohibited=True))


@broken("mig_mode", "is in MIG mode", "nvidia-smi -mig 0")
def _(host: FakeHost) -> None:
    host.answer = nvml(replace(H200, sliced=True))


@broken("fabric_not_ready", "until the fabric manager", "nvidia-fabricmanager")
def _(host: FakeHost) -> None:
    host.answer = nvml(replace(H200, fabric_pending=True))


@pytest.mark.parametrize("code", BROKEN)
async def test_a_broken_machine_gets_its_sentence_and_its_command(code: str, tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    change, sentence, command = BROKEN[code]
    change(host)
    found = {finding.code: finding for finding in await host.findings()}
    assert code in found, sorted(found)
    assert sentence in found[code].message
    assert command in found[code].command
    assert found[code].message.count(". ") == 0, "one sentence"
    assert len(found) == 1 or code in (
        "library_missing",
        "driver_library_mismatch",
    ), found


async def test_a_driver_that_shows_none_of_the_gpus_on_the_bus(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, answer=NvmlAnswer(GpuMachine(VERSION, (13, 0), ())))
    host.pci("nvidia", "0000:4c:00.0")
    found = await host.read()
    assert found.handover.reason == "the driver shows none"
    assert [(one.code, one.broken) for one in found.findings] == [("gpu_not_shown", True)]
    assert "The GPUs at 0000:3b:00.0, 0000:4c:00.0 are on the bus" in found.findings[0].message


async def test_a_second_gpu_that_is_reserved_for_virtual_machines_is_told_and_breaks_nothing(
    tmp_path: Path,
) -> None:
    host = FakeHost(tmp_path)
    host.pci("vfio-pci", "0000:4c:00.0")
    (finding,) = await host.findings()
    assert (finding.code, finding.broken) == ("driver_vfio", False)
    assert finding.command == "driverctl unset-override 0000:4c:00.0"


async def test_one_lost_gpu_is_told_once(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, answer=nvml(H200, lost=(1,)))
    host.pci("nvidia", "0000:4c:00.0")
    assert [one.code for one in await host.findings()] == ["gpu_lost"]
    host.pci("nvidia", "0000:5d:00.0")
    found = {one.code: one.message for one in await host.findings()}
    assert found.keys() == {"gpu_not_shown", "gpu_lost"}
    assert "1 of the machine's GPUs" in found["gpu_not_shown"]


async def test_nodes_are_missed_also_where_the_drivers_version_cannot_be_read(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.remove("proc/driver/nvidia/version", "dev/nvidia-uvm")
    found = await host.read()
    assert found.devices[0].unusable_because is not None
    assert [one.code for one in found.findings] == ["device_nodes_missing"]


async def test_nvidias_runtime_makes_the_nodes_itself(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.with_toolkit()
    host.remove("dev/nvidia-uvm", "dev/nvidia0")
    found = await host.read()
    assert ([one.unusable_because for one in found.devices], found.findings) == ([None], ())


async def test_libraries_of_the_right_version_that_programs_do_not_find(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, answer=NO_NVML["mismatch"])
    (finding,) = await host.findings()
    assert "but programs find others of another version first" in finding.message
    assert "ldconfig -p" in finding.command


@pytest.mark.parametrize("surroundings", ["plain", "toolkit", "cdi"])
@pytest.mark.parametrize("code", BROKEN)
async def test_no_gpu_is_out_of_use_without_a_finding(code: str, surroundings: str, tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    if surroundings == "cdi":
        host.with_cdi("0", nodes={"0": "/dev/nvidia0"})
    BROKEN[code][0](host)
    if surroundings == "toolkit" and code != "toolkit_broken":
        host.with_toolkit()
    for unreadable in (False, True):
        if unreadable and (tmp_path / "proc/driver/nvidia/version").exists():
            host.remove("proc/driver/nvidia/version")
        found = await host.read()
        is_offered = found.handover.way is not GpuHandover.NONE or found.handover.reason is None
        is_well = is_offered and all(one.unusable_because is None for one in found.devices)
        assert is_well or found.findings, found
        assert is_well or any(one.broken for one in found.findings) or code == "driver_vfio", found


def test_there_are_enough_of_them() -> None:
    print(f"\n{len(BROKEN)} broken machines")
    assert len(BROKEN) >= 12


async def test_a_machine_that_is_well_has_no_findings(tmp_path: Path) -> None:
    assert await FakeHost(tmp_path).findings() == ()


async def test_a_machine_without_a_gpu_has_none_either(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.without_driver()
    for name in ("vendor", "class", "driver"):
        host.remove(f"sys/bus/pci/devices/0000:3b:00.0/{name}")
    host.answer = NO_NVML["library"]
    assert await host.findings() == ()


async def test_a_full_disk(tmp_path: Path) -> None:
    facts = (await FakeHost(tmp_path).read()).facts
    full = replace(facts, disk=DiskSpace(100 * 2**30, 4 * 2**30))
    (finding,) = diagnose(full)
    assert (finding.code, finding.broken) == ("disk_full", True)
    assert "4.0 GiB left (4%)" in finding.message
    assert finding.command == "docker image prune && docker builder prune"
    assert diagnose(replace(facts, disk=DiskSpace(100 * 2**30, 6 * 2**30))) == ()


async def test_faults_of_programs_do_not_break_a_gpu(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.log("NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python3, MMU Fault")
    found = await host.read()
    assert [(one.code, one.broken) for one in found.findings] == [("xid_of_a_program", False)]
    assert [device.unusable_because for device in found.devices] == [None]


@pytest.mark.parametrize(
    ("number", "words", "code", "usable"),
    [
        (13, "", "xid_of_a_program", True),
        (48, "", "xid", False),
        (62, "", "xid", False),
        (63, "Row Remapper: New row marked for remapping, reset gpu to activate.", "xid_memory", True),
        (64, "Row Remapper: Failed to remap row", "xid", False),
        (74, "NVLink: fatal error detected on link 1", "xid_nvlink", True),
        (79, "GPU has fallen off the bus.", "gpu_lost", False),
        (94, "Contained: ECC error", "xid_memory", True),
        (95, "Uncontained: ECC error", "xid", False),
        (119, "Timeout waiting for RPC from GSP!", "xid", False),
        (120, "GSP task panic", "xid", False),
        (154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "xid", False),
        (154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "xid", False),
        (154, "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "xid_reset_advised", True),
        (154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", None, True),
        (154, "something new", "xid_other", True),
        (999, "", "xid_other", True),
    ],
)  # fmt: skip
async def test_what_nvidias_error_numbers_mean(
    tmp_path: Path, number: int, words: str, code: str | None, usable: bool
) -> None:
    host = FakeHost(tmp_path)
    host.log(f"NVRM: Xid (PCI:0000:3b:00): {number}, {words}")
    found = await host.read()
    assert [one.code for one in found.findings] == ([] if code is None else [code])
    assert [one.unusable_because is None for one in found.devices] == [usable]
    assert all(one.broken is not usable for one in found.findings)
    if number != 13:
        assert not any("fault of a program" in one.message for one in found.findings)


async def test_what_the_driver_asked_for_last_holds(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    asked = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from"
    host.log(f"{asked} 0x0 (None) to 0x4 (Drain and Reset)", f"{asked} 0x4 (Drain and Reset) to 0x1 (PF FLR)")
    (finding,) = await host.findings()
    assert "asks for a reset of it" in finding.message
    host.log(
        f"{asked} 0x0 (None) to 0x1 (GPU Reset Required)", f"{asked} 0x1 (GPU Reset Required) to 0x0 (None)"
    )
    assert await host.findings() == ()


async def test_a_fatal_error_keeps_replicas_away_until_the_driver_is_loaded_anew(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    other = replace(H200, device_id="GPU-1", index=1, minor=1, bus_id="00000000:4C:00.0")
    host.nodes("nvidia1")
    host.answer = nvml(H200, other)
    host.log("NVRM: Xid (PCI:0000:4c:00): 95, Uncontained ECC error")
    devices = (await host.read()).devices
    assert devices[0].unusable_because is None
    assert "Xid 95" in (devices[1].unusable_because or "")
    host.log(
        "NVRM: Xid (PCI:0000:4c:00): 95, Uncontained", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module 580"
    )
    assert [one.unusable_because for one in (await host.read()).devices] == [None, None]


async def test_while_the_driver_is_silent_its_gpus_are_there_and_not_used(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    answers = [nvml(), NO_NVML["silent"]]

    async def ask() -> NvmlAnswer:
        return answers.pop(0)

    reader = HostReader(tmp_path, ask)
    assert [one.unusable_because for one in (await reader.read(host.information)).devices] == [None]
    silent = await reader.read(host.information)
    assert [one.device_id for one in silent.devices] == ["GPU-0"]
    assert "does not answer" in (silent.devices[0].unusable_because or "")


async def test_a_gpu_that_stops_answering_is_still_there_and_not_used(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    other = replace(H200, device_id="GPU-1", index=1, minor=1, bus_id="00000000:4C:00.0")
    host.nodes("nvidia1")
    # First all is well, then one is lost, at last the machine was started anew without it.
    answers = [nvml(H200, other), nvml(H200, lost=(1,)), nvml(H200, lost=(1,)), nvml(H200)]

    async def ask() -> NvmlAnswer:
        return answers.pop(0)

    reader = HostReader(tmp_path, ask)
    assert [one.unusable_because for one in (await reader.read(host.information)).devices] == [None, None]
    for _ in range(2):
        lost = await reader.read(host.information)
        assert [one.unusable_because for one in lost.devices] == [None, "it no longer answers"]
        assert lost.machine is not None
        assert [gpu.device_id for gpu in lost.machine.gpus] == ["GPU-0"], "it is not granted to anybody"
        (finding,) = lost.findings
        assert (finding.code, finding.message) == ("gpu_lost", "GPU 1 no longer answers its driver.")
    assert [one.device_id for one in (await reader.read(host.information)).devices] == ["GPU-0"]


def test_the_command_works_where_nothing_of_moorage_runs(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "MOORAGE_HOME": str(tmp_path),
        "MOORAGE_DOCKER_HOST": f"unix://{tmp_path}/none.sock",
    }
    command = [sys.executable, "-m", "moorage.entrypoints.moor", "doctor", "host", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    said = json.loads(done.stdout)
    assert said["findings"][0]["code"] == "engine_missing"
    assert json.loads(done.stderr)["error"]["code"] == "host_broken"
