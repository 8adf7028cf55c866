"""Machines with GPUs, whole or broken, made of files in a folder, of an engine's words and of NVML's answer."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moorage.engines.base import HostFinding
from moorage.engines.hosts.host import GpuHost, HostReader
from moorage.engines.nvidia import Gpu, GpuMachine, NvmlAnswer, NvmlFailure

VERSION = "580.159.04"
MODULE = (
    f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build  (builder@host)\n"
)
LIBRARIES = "usr/lib/x86_64-linux-gnu"
H200 = Gpu(
    "GPU-0",
    "NVIDIA H200",
    143771 * 2**20,
    minor=0,
    bus_id="00000000:3B:00.0",
    uncorrected_errors=0,
    persistent=True,
)
NO_NVML = {
    "library": NvmlAnswer(failure=NvmlFailure.NO_LIBRARY),
    "driver": NvmlAnswer(failure=NvmlFailure.NO_DRIVER),
    "mismatch": NvmlAnswer(failure=NvmlFailure.MISMATCH),
    "silent": NvmlAnswer(failure=NvmlFailure.SILENT),
}


def nvml(*gpus: Gpu, driver: str = VERSION, lost: tuple[int, ...] = ()) -> NvmlAnswer:
    return NvmlAnswer(GpuMachine(driver, (13, 0), gpus or (H200,), lost))


@dataclass
class FakeHost:
    """A machine that is well: one H200, its driver, its nodes; Docker 20.10 without anything of NVIDIA's."""

    root: Path
    answer: NvmlAnswer = field(default_factory=nvml)
    information: dict[str, Any] = field(
        default_factory=lambda: {
            "ServerVersion": "20.10.24",
            "Runtimes": {"runc": {"path": "runc"}},
            "CgroupDriver": "cgroupfs",
            "CgroupVersion": "2",
            "DockerRootDir": "/var/lib/docker",
        }
    )
    images: dict[str, Mapping[str, str]] = field(default_factory=dict)
    wanted: str = "auto"
    sandbox: str | None = None

    def __post_init__(self) -> None:
        self.pci(driver="nvidia")
        self.write("proc/driver/nvidia/version", MODULE)
        self.write("proc/sys/kernel/osrelease", "6.18.44\n")
        self.nodes("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
        self.libraries(VERSION)
        (self.root / "var/lib/docker").mkdir(parents=True)

    def write(self, path: str, text: str = "") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def remove(self, *paths: str) -> None:
        for path in paths:
            (self.root / path).unlink()

    def pci(self, driver: str | None, bus_id: str = "0000:3b:00.0") -> None:
        device = f"sys/bus/pci/devices/{bus_id}"
        self.write(f"{device}/vendor", "0x10de\n")
        self.write(f"{device}/class", "0x030200\n")
        link = self.root / device / "driver"
        link.unlink(missing_ok=True)
        if driver is not None:
            link.symlink_to(f"../../../bus/pci/drivers/{driver}")

    def nodes(self, *names: str) -> None:
        for name in names:
            self.write(f"dev/{name}")

    def libraries(self, version: str, folder: str = LIBRARIES) -> None:
        for name in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"):
            file = self.write(f"{folder}/{name}.so.{version}")
            for link in (f"{name}.so.1", f"{name}.so"):
                (file.parent / link).unlink(missing_ok=True)
                (file.parent / link).symlink_to(file.name)
        self.write(f"{folder}/libnvidia-glcore.so.{version}")

    def without_driver(self) -> None:
        self.remove("proc/driver/nvidia/version", *(f"dev/{one}" for one in os.listdir(self.root / "dev")))
        self.answer = NO_NVML["driver"]

    def with_toolkit(self) -> None:
        for name in (
            "nvidia-container-runtime",
            "nvidia-container-runtime-hook",
            "nvidia-container-cli",
            "nvidia-ctk",
        ):
            self.write(f"usr/bin/{name}")
        self.information["Runtimes"]["nvidia"] = {"path": "/usr/bin/nvidia-container-runtime"}

    def with_cdi(self, *names: str, nodes: Mapping[str, str] | None = None) -> None:
        """An engine of version 25 to 28.1, which does not tell what it finds in its folders."""
        self.information["CDISpecDirs"] = ["/etc/cdi", "/var/run/cdi"]
        document = {
            "cdiVersion": "0.6.0",
            "kind": "nvidia.com/gpu",
            "devices": [
                {"name": name}
                | ({"containerEdits": {"deviceNodes": [{"path": nodes[name]}]}} if nodes is not None else {})
                for name in names
            ],
        }
        self.write("etc/cdi/nvidia.json", json.dumps(document))

    def log(self, *lines: str) -> None:
        self.write("dev/kmsg", "".join(f"4,{at},{at}000,-;{line}\n" for at, line in enumerate(lines)))

    async def ask(self) -> NvmlAnswer:
        return self.answer

    async def read(self) -> GpuHost:
        reader = HostReader(self.root, self.ask, self.wanted, self.sandbox)
        return await reader.read(self.information, self.images)

    async def findings(self) -> tuple[HostFinding, ...]:
        return (await self.read()).findings
