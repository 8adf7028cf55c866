"""A small root filesystem with Python in it, unpacked from the packages of the Debian or Ubuntu it runs on.

Downloading (`ensure_packages`) is apart from building (`build_archive`), so that a second build needs no network.
Nothing is installed: the packages are unpacked into a folder, and none of their scripts runs. Nothing here needs
root, except `apt-get update` where the package lists are missing.
"""

import asyncio
import functools
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from moorage.kit.errors import SetupError

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


async def ensure_packages(cache_dir: Path, progress: Callable[[str], None]) -> Path:
    """The folder with every package the image needs; downloaded once for each release and architecture."""
    release = platform.freedesktop_os_release()
    label = f"{release['ID']}-{release.get('VERSION_ID', 'rolling')}-{platform.machine()}"
    packages_dir = cache_dir / f"packages-{label}"
    if packages_dir.is_dir():
        return packages_dir
    # Only a complete download gets the final name, so a cache that exists can be trusted.
    partial_dir = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="download-", dir=cache_dir))
    try:
        try:
            await _download(partial_dir, progress)
        except SetupError:
            progress("Package lists are missing or old: running apt-get update")
            await _run(["apt-get", "update", "--quiet"], APT_TIMEOUT_S)
            await _download(partial_dir, progress)
        await asyncio.to_thread(partial_dir.replace, packages_dir)
    finally:
        await asyncio.to_thread(shutil.rmtree, partial_dir, ignore_errors=True)
    return packages_dir


async def _download(folder: Path, progress: Callable[[str], None]) -> None:
    version = await _python_version()
    roots = (f"python{version}-minimal", f"libpython{version}-stdlib", "busybox-static", "tzdata")
    flags = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"]
    report = await _run(
        ["apt-cache", "depends", "--recurse", *(f"--no-{flag}" for flag in flags), *roots], COMMAND_TIMEOUT_S
    )
    packages = closure(parse_dependencies(report), roots)
    progress(f"Downloading {len(packages)} packages")
    # As root apt would hand the download to a user who cannot write here, and complain about it.
    arguments = ["apt-get", "download", "--quiet", "-o", "APT::Sandbox::User=root", *packages]
    await _run(arguments, APT_TIMEOUT_S, folder=folder)


async def _python_version() -> str:
    """Of the release's own Python, e.g. `3.11`; the one that runs Moorage may be another."""
    report = await _run(["apt-cache", "depends", "python3-minimal"], COMMAND_TIMEOUT_S)
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


async def build_archive(
    packages_dir: Path, sources: Sequence[Path], build_dir: Path, progress: Callable[[str], None]
) -> tuple[Path, list[str]]:
    """Build the filesystem below `build_dir`; returns its tar archive and the command that starts the server."""
    root = build_dir / "root"
    packages = await asyncio.to_thread(_matching, packages_dir, "*.deb")
    progress(f"Unpacking {len(packages)} packages")
    for package in packages:
        await _run(["dpkg-deb", "--extract", str(package), str(root)], COMMAND_TIMEOUT_S)
    python = await asyncio.to_thread(_arrange, root, sources)
    progress("Compiling the Python modules, so that the server starts quickly")
    await _compile(root, python)
    # A script that is named on the command line is compiled at every start (4 of 32 ms); a .pyc file is not.
    (main_module,) = await asyncio.to_thread(_matching, root, f"app/__pycache__/{sources[0].stem}.*.pyc")
    await asyncio.to_thread(main_module.replace, root / "app" / f"{sources[0].stem}.pyc")
    archive = build_dir / "root.tar"
    await asyncio.to_thread(_pack, root, archive)
    # No site-packages, no user's site, no PYTHON* variables: each costs time and the server needs none.
    return archive, ["/usr/bin/python3", "-E", "-s", "-S", f"/app/{sources[0].stem}.pyc"]


def _matching(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


def _arrange(root: Path, sources: Sequence[Path]) -> str:
    """Make a filesystem of the unpacked packages; returns the name of its Python, e.g. `python3.11`."""
    _merge_into_usr(root)
    for pattern in PRUNED_PATTERNS:
        for pruned in _matching(root, pattern):
            shutil.rmtree(pruned)
    for folder in ("app", "dev", "etc", "proc", "run", "sys", "tmp"):
        (root / folder).mkdir(exist_ok=True)
    pythons = [path.name for path in root.glob("usr/bin/python3.*")]
    if len(pythons) != 1:
        raise SetupError(f"expected one Python among the packages, found {pythons}")
    (root / "usr/bin/python3").symlink_to(pythons[0])
    for applet in ("sh", "ls", "cat", "env", "id", "ps", "wget"):
        (root / "usr/bin" / applet).symlink_to("busybox")
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n", encoding="utf-8"
    )
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n", encoding="utf-8")
    for source in sources:
        shutil.copyfile(source, root / "app" / source.name)
    return pythons[0]


def _merge_into_usr(root: Path) -> None:
    """`/bin`, `/lib` … become links into `/usr`: some releases' packages use the one path, some the other."""
    for name in ("bin", "sbin", "lib", "lib64"):
        old, merged = root / name, root / "usr" / name
        merged.mkdir(parents=True, exist_ok=True)
        if old.is_dir():
            shutil.copytree(old, merged, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(old)
        old.symlink_to(f"usr/{name}")


async def _compile(root: Path, python: str) -> None:
    """With the unpacked Python itself, since byte code belongs to one version. Its own loader and libraries run
    it, because a chroot would need root."""
    loaders = await asyncio.to_thread(_matching, root, "usr/lib/*-linux-gnu*/ld-linux*.so.*")
    if not loaders:
        raise SetupError("found no dynamic loader among the packages")
    arguments = [str(loaders[0]), "--library-path", str(loaders[0].parent), str(root / "usr/bin" / python)]
    # Unchecked: the source is not even looked at when a module is imported. It cannot change in an image.
    arguments += ["-s", "-S", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    arguments += ["-s", str(root), "-p", "/", str(root / "usr/lib" / python), str(root / "app")]
    await _run(arguments, COMMAND_TIMEOUT_S, environment={"PYTHONHOME": str(root / "usr"), "LC_ALL": "C"})


def _pack(root: Path, archive: Path) -> None:
    with tarfile.open(archive, "w") as tar:
        tar.add(root, ".", filter=functools.partial(_normalized, sticky="./tmp"))


def _normalized(member: tarfile.TarInfo, *, sticky: str) -> tarfile.TarInfo:
    """The same for every builder: owned by root and readable by all, whatever their umask; no set-uid bits."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    executable = 0o111 if member.isdir() or member.mode & 0o100 else 0
    member.mode = 0o1777 if member.name == sticky else 0o644 | executable
    return member


async def _run(
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
