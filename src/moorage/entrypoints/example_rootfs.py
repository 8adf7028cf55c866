"""The example's root filesystem: Python, a shell, and the server.

Downloading (`ensure_packages`) is apart from building (`build_archive`), so that a second build needs no network.
"""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from moorage.entrypoints.debian_rootfs import arrange, compile_modules, matching, pack, unpack

_APPLETS = ("sh", "ls", "cat", "env", "id", "ps", "wget")


async def build_archive(
    packages_dir: Path, sources: Sequence[Path], build_dir: Path, progress: Callable[[str], None]
) -> tuple[Path, list[str]]:
    """Build the filesystem below `build_dir`; returns its tar archive and the command that starts the server."""
    root = build_dir / "root"
    progress(f"Unpacking {len(await asyncio.to_thread(matching, packages_dir, '*.deb'))} packages")
    await unpack(packages_dir, root)
    python = await asyncio.to_thread(arrange, root, _APPLETS)
    await asyncio.to_thread(_add_server, root, sources)
    progress("Compiling the Python modules, so that the server starts quickly")
    await compile_modules(root, python, (f"usr/lib/{python}", "app"))
    # A script that is named on the command line is compiled at every start (4 of 32 ms); a .pyc file is not.
    (main_module,) = await asyncio.to_thread(matching, root, f"app/__pycache__/{sources[0].stem}.*.pyc")
    await asyncio.to_thread(main_module.replace, root / "app" / f"{sources[0].stem}.pyc")
    archive = build_dir / "root.tar"
    await asyncio.to_thread(pack, root, archive)
    # No site-packages, no user's site, no PYTHON* variables: each costs time and the server needs none.
    return archive, ["/usr/bin/python3", "-E", "-s", "-S", f"/app/{sources[0].stem}.pyc"]


def _add_server(root: Path, sources: Sequence[Path]) -> None:
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n", encoding="utf-8"
    )
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n", encoding="utf-8")
    (root / "app").mkdir()
    for source in sources:
        shutil.copyfile(source, root / "app" / source.name)
