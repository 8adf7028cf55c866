"""The NVIDIA driver's part of a machine's files: device nodes, and the libraries that programs load.

Everything is read below a root, so that a test can make a machine of its own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CONTROL_NODES = ("nvidiactl", "nvidia-uvm")
"""Without these nothing computes."""
OPTIONAL_NODES = ("nvidia-uvm-tools",)
_FOLDERS = (
    "usr/local/nvidia/lib64",
    "usr/local/nvidia/lib",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/nvidia/current",
    "usr/lib/aarch64-linux-gnu/nvidia/current",
    "usr/lib64",
    "usr/lib64/nvidia",
    "usr/lib",
    "usr/lib/wsl/lib",
    "run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "run/nvidia/driver/usr/lib/aarch64-linux-gnu",
)
_PROGRAM_FOLDERS = ("usr/local/nvidia/bin", "usr/bin", "usr/lib/wsl/lib", "run/nvidia/driver/usr/bin")
_NEEDED = ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler")
_LIBRARIES = (
    *_NEEDED,
    "libcudadebugger",
    "libnvidia-allocator",
    "libnvidia-cfg",
    "libnvidia-gpucomp",
    "libnvidia-nvvm",
    "libnvidia-nvvm70",
    "libnvidia-opencl",
    "libnvidia-pkcs11",
    "libnvidia-pkcs11-openssl3",
)
"""What computes and tells, and nothing that draws."""
_NAME = re.compile(r"(lib[a-z0-9-]+)\.so(\.[\d.]+)?")
_MODULE_VERSION = re.compile(r"Kernel Module(?:\s+for\s+\S+)?\s+(\d+\.\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class DriverFiles:
    module_version: str | None = None
    """Of the kernel's module; None where it is not loaded."""
    library_version: str | None = None
    folder: str | None = None
    """Where the libraries are."""
    libraries: dict[str, str] = field(default_factory=dict)
    """Each name that programs load, and the file that is meant."""
    smi: str | None = None
    nodes: frozenset[str] = frozenset()
    """Names in /dev that are NVIDIA's."""

    @property
    def missing_libraries(self) -> tuple[str, ...]:
        there = {name.partition(".so")[0] for name in self.libraries}
        return tuple(name for name in _NEEDED if name not in there)

    @property
    def missing_control_nodes(self) -> tuple[str, ...]:
        return tuple(name for name in CONTROL_NODES if name not in self.nodes)

    def has_node(self, minor: int | None) -> bool:
        return minor is not None and f"nvidia{minor}" in self.nodes


def read_driver_files(root: Path = Path("/")) -> DriverFiles:
    module = module_version(root)
    folder = _library_folder(root, module)
    libraries = dict(_libraries(folder)) if folder is not None else {}
    return DriverFiles(
        module_version=module,
        library_version=_version_of(libraries.get("libcuda.so.1") or libraries.get("libnvidia-ml.so.1")),
        folder=str(folder) if folder is not None else None,
        libraries=libraries,
        smi=next(
            (str(found) for at in _PROGRAM_FOLDERS if (found := root / at / "nvidia-smi").is_file()), None
        ),
        nodes=frozenset(_node_names(root)),
    )


def module_version(root: Path) -> str | None:
    try:
        found = _MODULE_VERSION.search((root / "proc/driver/nvidia/version").read_text())
    except OSError:
        return None
    return found[1] if found is not None else None


def _node_names(root: Path) -> Iterator[str]:
    try:
        for entry in (root / "dev").iterdir():
            if entry.name.startswith("nvidia"):
                yield entry.name
    except OSError:
        return


def _library_folder(root: Path, module: str | None) -> Path | None:
    """The one whose libraries are of the loaded module's version; else the first that has any."""
    having = [root / at for at in (*_FOLDERS, *_configured_folders(root)) if _has_libraries(root / at)]
    matching = [at for at in having if _version_of(str((at / "libcuda.so.1").resolve())) == module]
    return next(iter((*matching, *having)), None)


def _configured_folders(root: Path) -> Iterator[str]:
    """Those that the machine's own linker looks into."""
    for file in sorted((root / "etc/ld.so.conf.d").glob("*.conf")):
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        yield from (line.strip().lstrip("/") for line in lines if line.strip().startswith("/"))


def _has_libraries(folder: Path) -> bool:
    return (folder / "libcuda.so.1").exists() or (folder / "libnvidia-ml.so.1").exists()


def _libraries(folder: Path) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir()):
        named = _NAME.fullmatch(entry.name)
        if named is not None and named[1] in _LIBRARIES and entry.is_file():
            yield entry.name, str(entry.resolve())


def _version_of(library: str | None) -> str | None:
    found = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)?)$", library or "")
    return found[1] if found is not None else None
