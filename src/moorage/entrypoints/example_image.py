"""Builds `local/chat:latest`, the example that a first deployment can use with no registry in reach.

`ensure_example_image` is idempotent: an image that carries the fingerprint of the current recipe and sources in its
label is left alone. On Debian and Ubuntu its root filesystem comes from the machine's own packages
(`example_rootfs`); elsewhere the engine builds `examples/chat/Dockerfile`, for which it must reach a registry.

An image that is replaced loses its tag only. A deployment pins its image by id, so the old one may still be wanted;
`docker image prune` removes it once nothing uses it.
"""

import asyncio
import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import aiohttp

from moorage.entrypoints import debian_rootfs, example_rootfs
from moorage.kit.errors import SetupError
from moorage.kit.shipped import shipped_root

EXAMPLE_IMAGE = "local/chat:latest"
FINGERPRINT_LABEL = "dev.moorage.example-fingerprint"
SOURCE_NAMES = ("server.py", "wire.py")
IMPORT_TIMEOUT_S = 300
BUILD_TIMEOUT_S = 900
INSPECT_TIMEOUT_S = 30


async def ensure_example_image(
    docker_host: str, cache_dir: Path, progress: Callable[[str], None]
) -> str | None:
    """Have the example in the engine at `docker_host` (`unix:///…` or `tcp://…`) and return its tag.

    None where the example's sources are missing.
    Raises `SetupError` where the image cannot be built.
    """
    sources_dir = example_sources_dir()
    if sources_dir is None:
        return None
    fingerprint = await asyncio.to_thread(_fingerprint, sources_dir)
    async with _engine_session(docker_host) as engine:
        if await _fingerprint_in_engine(engine) == fingerprint:
            return EXAMPLE_IMAGE
        progress(f"Building the example image {EXAMPLE_IMAGE}")
        await asyncio.to_thread(cache_dir.mkdir, parents=True, exist_ok=True)
        if debian_rootfs.is_debian_like():
            await _import_rootfs(engine, sources_dir, cache_dir, fingerprint, progress)
        else:
            progress(
                "There is no apt here, so the engine builds examples/chat/Dockerfile, which needs a registry"
            )
            await _build_dockerfile(engine, sources_dir, fingerprint)
        if await _fingerprint_in_engine(engine) != fingerprint:
            raise SetupError(f"the engine at {docker_host} took {EXAMPLE_IMAGE} but does not show it")
    return EXAMPLE_IMAGE


def example_sources_dir() -> Path | None:
    """`examples/chat` of the checkout or of the wheel that this module runs from."""
    sources_dir = shipped_root() / "examples" / "chat"
    return sources_dir if all((sources_dir / name).is_file() for name in SOURCE_NAMES) else None


def _fingerprint(sources_dir: Path) -> str:
    # The modules of the recipe count as well: nobody has to remember to raise a version.
    recipe = (
        Path(__file__),
        Path(debian_rootfs.__file__),
        Path(example_rootfs.__file__),
        sources_dir / "Dockerfile",
    )
    digest = hashlib.sha256()
    for path in (*recipe, *(sources_dir / name for name in SOURCE_NAMES)):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _engine_session(docker_host: str) -> aiohttp.ClientSession:
    scheme, separator, address = docker_host.partition("://")
    if separator and scheme == "unix":
        return aiohttp.ClientSession("http://engine", connector=aiohttp.UnixConnector(path=address))
    if separator and scheme in ("tcp", "http"):
        return aiohttp.ClientSession(f"http://{address}")
    raise SetupError(f"the container engine's address must start with unix:// or tcp://, not {docker_host!r}")


async def _fingerprint_in_engine(engine: aiohttp.ClientSession) -> str | None:
    timeout = aiohttp.ClientTimeout(total=INSPECT_TIMEOUT_S)
    try:
        async with engine.get(f"/images/{EXAMPLE_IMAGE}/json", timeout=timeout) as response:
            if response.status == 404:
                return None
            if response.status != 200:
                problem = await response.text()
                raise SetupError(f"the container engine cannot look up {EXAMPLE_IMAGE}: {problem.strip()}")
            image = await response.json()
    except (aiohttp.ClientError, TimeoutError) as exc:
        raise SetupError(f"the container engine does not answer: {exc or type(exc).__name__}") from exc
    labels = (image.get("Config") or {}).get("Labels") or {}
    fingerprint = labels.get(FINGERPRINT_LABEL)
    return fingerprint if isinstance(fingerprint, str) else None


async def _import_rootfs(
    engine: aiohttp.ClientSession,
    sources_dir: Path,
    cache_dir: Path,
    fingerprint: str,
    progress: Callable[[str], None],
) -> None:
    packages_dir = await debian_rootfs.ensure_packages(cache_dir, progress)
    sources = [sources_dir / name for name in SOURCE_NAMES]
    build_dir = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="build-", dir=cache_dir))
    try:
        archive, command = await example_rootfs.build_archive(packages_dir, sources, build_dir, progress)
        progress("Importing it into the container engine")
        repository, _, tag = EXAMPLE_IMAGE.rpartition(":")
        parameters = [("fromSrc", "-"), ("repo", repository), ("tag", tag)]
        parameters += [("changes", change) for change in _image_settings(command, fingerprint)]
        with archive.open("rb") as body:
            await _post_archive(engine, "/images/create", parameters, body, IMPORT_TIMEOUT_S)
    finally:
        await asyncio.to_thread(shutil.rmtree, build_dir, ignore_errors=True)


def _image_settings(command: list[str], fingerprint: str) -> list[str]:
    return [
        "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "ENV LANG=C.UTF-8",
        "EXPOSE 8000/tcp",
        "USER 65534:65534",
        "WORKDIR /app",
        f"CMD {json.dumps(command)}",
        f"LABEL {FINGERPRINT_LABEL}={fingerprint}",
    ]


async def _build_dockerfile(engine: aiohttp.ClientSession, sources_dir: Path, fingerprint: str) -> None:
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for name in ("Dockerfile", *SOURCE_NAMES):
            archive.add(sources_dir / name, name)
    context.seek(0)
    parameters = [
        ("t", EXAMPLE_IMAGE),
        ("rm", "1"),
        ("forcerm", "1"),
        ("labels", json.dumps({FINGERPRINT_LABEL: fingerprint})),
    ]
    await _post_archive(engine, "/build", parameters, context, BUILD_TIMEOUT_S)


async def _post_archive(
    engine: aiohttp.ClientSession,
    path: str,
    parameters: list[tuple[str, str]],
    body: IO[bytes],
    timeout_s: float,
) -> None:
    """Send a tar archive and follow the engine's report, where an error can come long after the status 200."""
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    headers = {"Content-Type": "application/x-tar"}
    try:
        async with engine.post(
            path, params=parameters, data=body, headers=headers, timeout=timeout
        ) as response:
            report = await response.text()
    except (aiohttp.ClientError, TimeoutError) as exc:
        raise SetupError(
            f"the container engine did not take {EXAMPLE_IMAGE}: {exc or type(exc).__name__}"
        ) from exc
    lines = [json.loads(line) for line in report.splitlines() if line.startswith("{")]
    problem = next((line[key] for line in lines for key in ("error", "message") if key in line), None)
    if problem is None and response.status >= 300:
        problem = f"status {response.status}"
    if problem is not None:
        raise SetupError(
            f"the container engine did not take {EXAMPLE_IMAGE}: {' '.join(str(problem).split())}"
        )
