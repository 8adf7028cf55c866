"""What is known of a machine that may have GPUs: its files, its engine, NVML's answer. Values, and how they are read.

Files are read below a root and NVML's answer is given, so that a test can make any broken machine.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from moorage.engines.base import DiskSpace
from moorage.engines.hosts.driver_files import DriverFiles, read_driver_files
from moorage.engines.hosts.kernel_log import read_xids
from moorage.engines.hosts.xids import Xid
from moorage.engines.nvidia import NvmlAnswer

NVIDIA_RUNTIME = "nvidia"
_NVIDIA = "0x10de"
_DISPLAYS = ("0x0300", "0x0302")
_PROGRAM_FOLDERS = ("usr/bin", "usr/local/bin", "usr/sbin", "usr/local/nvidia/toolkit", "opt/bin", "bin")
_TOOLKIT = ("nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-container-cli", "nvidia-ctk")
_CDI_KIND = "nvidia.com/gpu"


@dataclass(frozen=True)
class PciGpu:
    bus_id: str
    driver: str | None
    """The kernel's module that has it."""


@dataclass(frozen=True)
class EngineFacts:
    """What an engine says of itself that matters here."""

    version: str = ""
    answers: bool = True
    is_local: bool = True
    """It runs on this machine and sees its files."""
    runtimes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    cgroup_driver: str = ""
    cgroup_version: str = ""
    cdi_names: frozenset[str] = frozenset()
    """GPUs that it can hand over by CDI: `0`, `GPU-…`, `all`."""
    cdi_nodes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By such a name: the machine's device nodes behind it, where the specification could be read."""
    cdi_files: Mapping[str, str] = field(default_factory=dict)
    """By such a name: the file that says so."""
    has_cdi: bool = False
    data_folder: str | None = None
    sandbox: str | None = None
    """The runtime that containers are started with, where the settings name one."""

    @property
    def nvidia_runtime_path(self) -> str:
        runtime = self.runtimes.get(NVIDIA_RUNTIME, {})
        return str(runtime.get("path") or "nvidia-container-runtime")


@dataclass(frozen=True)
class HostFacts:
    nvml: NvmlAnswer
    files: DriverFiles = field(default_factory=DriverFiles)
    engine: EngineFacts = field(default_factory=EngineFacts)
    pci: tuple[PciGpu, ...] = ()
    module_installed: bool = False
    """NVIDIA's module is on the disk, for the kernel that runs."""
    toolkit: frozenset[str] = frozenset()
    """Programs of NVIDIA's container toolkit that are here."""
    has_runtime_program: bool = False
    """The program that the engine would start as NVIDIA's runtime is here."""
    device_links: frozenset[str] = frozenset()
    """Names in /dev/char."""
    device_numbers: Mapping[str, str] = field(default_factory=dict)
    """Of the driver's nodes: as /dev/char would name them."""
    xids: tuple[Xid, ...] = ()
    runs_systemd: bool = False
    has_kvm: bool = False
    disk: DiskSpace | None = None
    """Where the engine keeps images and containers."""
    images: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By name: what each says about the driver that it needs."""


def read_facts(root: Path, nvml: NvmlAnswer, engine: EngineFacts) -> HostFacts:
    files = read_driver_files(root)
    return HostFacts(
        nvml=nvml,
        files=files,
        engine=engine,
        pci=tuple(_pci_gpus(root)),
        module_installed=_module_installed(root),
        toolkit=frozenset(name for name in _TOOLKIT if _program(root, name) is not None),
        has_runtime_program=_program(root, engine.nvidia_runtime_path) is not None,
        device_links=frozenset(_names(root / "dev/char")),
        device_numbers=_device_numbers(root, files.nodes),
        xids=read_xids(root),
        runs_systemd=(root / "run/systemd/system").is_dir(),
        has_kvm=(root / "dev/kvm").exists(),
        disk=_space(root, engine.data_folder),
    )


def engine_facts(
    root: Path, information: Mapping[str, Any], *, is_local: bool, sandbox: str | None
) -> EngineFacts:
    """From Docker's `info`. Since 28.2 it lists CDI devices itself; before, what it would find is read here."""
    listed = [str(one.get("ID", "")) for one in information.get("DiscoveredDevices") or ()]
    named = {one.partition("=")[2] for one in listed if one.startswith(f"{_CDI_KIND}=")}
    folders = information.get("CDISpecDirs") or ()
    specified: dict[str, frozenset[str]] = {}
    files: dict[str, str] = {}
    for folder in folders if is_local else ():
        for file, devices in _cdi_devices(root / str(folder).lstrip("/")):
            specified |= devices
            files |= dict.fromkeys(devices, f"{folder}/{file.name}")
    return EngineFacts(
        version=str(information.get("ServerVersion", "")),
        answers=bool(information),
        is_local=is_local,
        runtimes=information.get("Runtimes") or {},
        cgroup_driver=str(information.get("CgroupDriver", "")),
        cgroup_version=str(information.get("CgroupVersion", "")),
        cdi_names=frozenset(named or specified),
        cdi_nodes=specified,
        cdi_files=files,
        has_cdi=bool(folders or listed),
        data_folder=information.get("DockerRootDir"),
        sandbox=sandbox,
    )


def _program(root: Path, name_or_path: str) -> Path | None:
    """Where a program is, as the engine would find it."""
    if name_or_path.startswith("/"):
        path = root / name_or_path.lstrip("/")
        return path if path.exists() else None
    return next((at for folder in _PROGRAM_FOLDERS if (at := root / folder / name_or_path).exists()), None)


def _cdi_devices(folder: Path) -> Iterator[tuple[Path, dict[str, frozenset[str]]]]:
    """For each file: its devices by name, with the nodes of the machine that each brings along."""
    for file in sorted(folder.glob("*")):
        if file.suffix not in (".json", ".yaml", ".yml"):
            continue
        try:
            text = file.read_text()
            document = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
        except (OSError, ValueError, yaml.YAMLError):
            continue  # The engine cannot read it either.
        if isinstance(document, dict) and document.get("kind") == _CDI_KIND:
            # What all of them bring along stands beside them.
            common = _edited_nodes(document)
            yield (
                file,
                {
                    str(device["name"]): common | _edited_nodes(device)
                    for device in _dictionaries(document.get("devices"))
                    if "name" in device
                },
            )


def _edited_nodes(part: Mapping[str, Any]) -> frozenset[str]:
    edits = part.get("containerEdits")
    nodes = _dictionaries(edits.get("deviceNodes")) if isinstance(edits, dict) else []
    # `path` is the name inside; outside it is the same where nothing else is said.
    return frozenset(str(node.get("hostPath") or node.get("path")) for node in nodes)


def _dictionaries(document: Any) -> list[dict[str, Any]]:
    return [one for one in document if isinstance(one, dict)] if isinstance(document, list) else []


def _pci_gpus(root: Path) -> Iterator[PciGpu]:
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        try:
            vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor == _NVIDIA and kind.startswith(_DISPLAYS):
            link = device / "driver"
            yield PciGpu(device.name, os.path.basename(os.readlink(link)) if link.is_symlink() else None)


def _module_installed(root: Path) -> bool:
    try:
        release = (root / "proc/sys/kernel/osrelease").read_text().strip()
        listed = (root / "lib/modules" / release / "modules.dep").read_text()
    except OSError:
        return False
    return re.search(r"^\S*/nvidia\.ko\S*:", listed, re.MULTILINE) is not None


def _device_numbers(root: Path, nodes: frozenset[str]) -> dict[str, str]:
    numbers = {}
    for name in nodes:
        try:
            device = (root / "dev" / name).stat().st_rdev
        except OSError:
            continue
        if device:
            numbers[name] = f"{os.major(device)}:{os.minor(device)}"
    return numbers


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def _space(root: Path, data_folder: str | None) -> DiskSpace | None:
    if data_folder is None:
        return None
    try:
        space = os.statvfs(root / data_folder.lstrip("/"))
    except OSError:
        return None
    return DiskSpace(space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize)
