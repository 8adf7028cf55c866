"""Root filesystems from the packages of the Debian or Ubuntu that this runs on: for the example, and for Moorage's own image.

Nothing is installed: packages are downloaded, unpacked into a folder, and none of their scripts runs. Nothing here needs root,
except `apt-get update` where the package lists are missing.
"""

import asyncio
import functools
import os
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from moorage.kit.errors import SetupError
from moorage.kit.package_lists import update_when_free

# What a rootfs has no use for: their files serve package installation only, and they pull in perl.
SKIPPED_PACKAGES = frozenset({"debconf", "dpkg", "readline-common", "install-info"})
# Half of the unpacked size: documentation, conversions between character sets that C programs use (Python has its
# own), leap-second time zones, Python's own tests.
PRUNED_PATTERNS = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/bug",
    "usr/share/zoneinfo/right",
    "usr/lib/*/gconv",
    "usr/lib/python3*/test",
    "usr/lib/python3*/pydoc_data",
)
APT_TIMEOUT_S = 300
COMMAND_TIMEOUT_S = 120


def is_debian_like() -> bool:
    return all(shutil.which(tool) for tool in ("apt-get", "apt-cache", "dpkg-deb"))


async def ensure_packages(
    cache_dir: Path, progress: Callable[[str], None], roots: Sequence[str] = ()
) -> Path:
    """The folder with the release's Python, `roots`, and every package that they need; downloaded once for each release and
    architecture."""
    release = platform.freedesktop_os_release()
    label = f"{release['ID']}-{release.get('VERSION_ID', 'rolling')}-{platform.machine()}"
    packages_dir = cache_dir / f"packages-{label}"
    if packages_dir.is_dir():
        return packages_dir
    # Only a complete download gets the final name, so a cache that exists can be trusted.
    partial_dir = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="download-", dir=cache_dir))
    try:
        try:
            await _download(partial_dir, progress, roots)
        except SetupError:
            progress("Package lists are missing or old: running apt-get update")
            environment = {**os.environ, "LC_ALL": "C"}
            update = ["apt-get", "update", "--quiet"]
            await update_when_free(lambda: run(update, APT_TIMEOUT_S, environment=environment))
            await _download(partial_dir, progress, roots)
        await asyncio.to_thread(partial_dir.replace, packages_dir)
    finally:
        await asyncio.to_thread(shutil.rmtree, partial_dir, ignore_errors=True)
    return packages_dir


async def _download(folder: Path, progress: Callable[[str], None], more: Sequence[str]) -> None:
    version = await python_version()
    roots = (f"python{version}-minimal", f"libpython{version}-stdlib", "busybox-static", "tzdata", *more)
    flags = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"]
    report = await run(
        ["apt-cache", "depends", "--recurse", *(f"--no-{flag}" for flag in flags), *roots], COMMAND_TIMEOUT_S
    )
    packages = closure(parse_dependencies(report), roots)
    progress(f"Downloading {len(packages)} packages")
    # As root apt would hand the download to a user who cannot write here, and complain about it.
    arguments = ["apt-get", "download", "--quiet", "-o", "APT::Sandbox::User=root", *packages]
    await run(arguments, APT_TIMEOUT_S, folder=folder)


async def python_version() -> str:
    """Of the release's own Python, e.g. `3.11`; the one that runs Moorage may be another."""
    report = await run(["apt-cache", "depends", "python3-minimal"], COMMAND_TIMEOUT_S)
    for line in report.splitlines():
        name = line.rpartition(" ")[2]
        if name.startswith("python3.") and name.endswith("-minimal"):
            return name.removeprefix("python").removesuffix("-minimal")
    raise SetupError("apt does not know which Python this release has; is `apt-get update` possible?")


def parse_dependencies(report: str) -> dict[str, list[str]]:
    """What `apt-cache depends` prints, as package → packages it needs; of alternatives the first.

    `libc6` starts a package, `  Depends: libgcc-s1` is a need, ` |Depends: a` is a need for which the next line
    would do too, `    b` and `<c>` tell who provides a name that no package has.
    """
    dependencies: dict[str, list[str]] = {}
    package = ""
    satisfied = False
    for line in report.splitlines():
        if not line.startswith((" ", "<")):
            package = line.strip()
            dependencies.setdefault(package, [])
            continue
        kind, separator, needed = line.partition(": ")
        if not separator or not package:
            continue
        is_real = not needed.startswith("<")
        if kind.strip(" |") in ("Depends", "PreDepends") and is_real and not satisfied:
            dependencies[package].append(needed.strip())
        satisfied = kind.startswith(" |") and (satisfied or is_real)
    return dependencies


def closure(dependencies: Mapping[str, Sequence[str]], roots: Sequence[str]) -> list[str]:
    needed: set[str] = set()
    waiting = list(roots)
    while waiting:
        package = waiting.pop()
        if package not in needed and package not in SKIPPED_PACKAGES:
            needed.add(package)
            waiting += dependencies.get(package, ())
    return sorted(needed)


async def unpack(packages_dir: Path, root: Path) -> None:
    for package in await asyncio.to_thread(matching, packages_dir, "*.deb"):
        await run(["dpkg-deb", "--extract", str(package), str(root)], COMMAND_TIMEOUT_S)


def arrange(root: Path, applets: Sequence[str]) -> str:
    """Make a filesystem of the unpacked packages; returns the name of its Python, e.g. `python3.11`."""
    _merge_into_usr(root)
    for pattern in PRUNED_PATTERNS:
        for pruned in matching(root, pattern):
            shutil.rmtree(pruned)
    for folder in ("dev", "etc", "proc", "run", "sys", "tmp"):
        (root / folder).mkdir(exist_ok=True)
    pythons = [path.name for path in root.glob("usr/bin/python3.*")]
    if len(pythons) != 1:
        raise SetupError(f"expected one Python among the packages, found {pythons}")
    (root / "usr/bin/python3").symlink_to(pythons[0])
    for applet in applets:
        (root / "usr/bin" / applet).symlink_to("busybox")
    return pythons[0]


async def compile_modules(root: Path, python: str, folders: Sequence[str]) -> None:
    """With the unpacked Python itself, since byte code belongs to one version. Its own loader and libraries run
    it, because a chroot would need root."""
    loaders = await asyncio.to_thread(matching, root, "usr/lib/*-linux-gnu*/ld-linux*.so.*")
    if not loaders:
        raise SetupError("found no dynamic loader among the packages")
    arguments = [str(loaders[0]), "--library-path", str(loaders[0].parent), str(root / "usr/bin" / python)]
    # Unchecked: the source is not even looked at when a module is imported. It cannot change in an image.
    arguments += ["-s", "-S", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    arguments += ["-s", str(root), "-p", "/", *(str(root / folder) for folder in folders)]
    await run(arguments, COMMAND_TIMEOUT_S, environment={"PYTHONHOME": str(root / "usr"), "LC_ALL": "C"})


def matching(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


def pack(root: Path, archive: Path) -> None:
    with tarfile.open(archive, "w") as tar:
        tar.add(root, ".", filter=functools.partial(_normalized, sticky="./tmp"))


def _normalized(member: tarfile.TarInfo, *, sticky: str) -> tarfile.TarInfo:
    """The same for every builder: owned by root and readable by all, whatever their umask; no set-uid bits."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    executable = 0o111 if member.isdir() or member.mode & 0o100 else 0
    member.mode = 0o1777 if member.name == sticky else 0o644 | executable
    return member


def _merge_into_usr(root: Path) -> None:
    """`/bin`, `/lib` … become links into `/usr`: some releases' packages use the one path, some the other."""
    for name in ("bin", "sbin", "lib", "lib64"):
        old, merged = root / name, root / "usr" / name
        merged.mkdir(parents=True, exist_ok=True)
        if old.is_dir():
            shutil.copytree(old, merged, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(old)
        old.symlink_to(f"usr/{name}")


async def run(
    arguments: Sequence[str],
    timeout_s: float,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a command to its end and return what it printed; `SetupError` with its last words if it fails."""
    process = await asyncio.create_subprocess_exec(
        *arguments,
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(timeout_s):
            output, problem = await process.communicate()
    except TimeoutError as exc:
        raise SetupError(f"`{' '.join(arguments[:2])}` did not end within {timeout_s:.0f} s") from exc
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        words = (problem or output).decode("utf-8", "replace").strip().splitlines() or ["no output"]
        raise SetupError(
            f"`{' '.join(arguments[:2])}` failed with exit code {process.returncode}: {words[-1]}"
        )
    return output.decode("utf-8", "replace")
