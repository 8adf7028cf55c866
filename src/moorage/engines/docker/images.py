"""Having an image here and pinning it: pulls from registries, and the operator's own `local/…` images.

A remote image is always asked for at its registry, with the credentials of whoever deploys it. Nothing is
found in the cache by name, because a private image in the cache is nobody else's (KEP-2535).
"""

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from aiodocker.exceptions import DockerError

from moorage.engines.base import Image, ImageRequest, PullProgress, RegistryCredentials
from moorage.engines.docker.connection import DockerConnection, json_messages
from moorage.kit.errors import EngineError, ImageError

_LOCAL_REFERENCE = re.compile(r"local/[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?")
_RESERVED = re.compile(r"(?:(?:index\.|registry-1\.)?docker\.io/)?local/")
_PULL_IDLE_TIMEOUT_S = 900.0
"""Silence while a pull runs. Unpacking one layer of 50 GB says nothing for minutes."""
_ASK_TIMEOUT_S = 60.0

# In the order they are looked for: "not found" occurs in messages of the other kinds too.
_PULL_ERRORS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("image_architecture_mismatch", ("no matching manifest", "does not match the specified platform")),
    ("disk_full", ("no space left on device",)),
    (
        "registry_unreachable",
        (
            "connection refused",
            "no such host",
            "i/o timeout",
            "network is unreachable",
            "no route to host",
            "client.timeout exceeded",
            "tls handshake timeout",
            "x509:",
            "server gave http response to https client",
            "connection reset",
            "unexpected eof",
            "temporary failure in name resolution",
            "server misbehaving",
            "proxyconnect",
            "503 service unavailable",
            "502 bad gateway",
            "toomanyrequests",
        ),
    ),
    # Docker Hub says "pull access denied … repository does not exist or may require 'docker login'" for both
    # cases; whoever gave no credentials most likely mistyped, which `_classify` decides.
    (
        "registry_auth_failed",
        (
            "unauthorized",
            "no basic auth credentials",
            "authentication required",
            "access denied",
            "access to the resource is denied",
            "403 forbidden",
        ),
    ),
    (
        "image_not_found",
        ("manifest unknown", "not found", "name unknown", "invalid reference format", "name invalid"),
    ),
)

_ADVICE = {
    "image_architecture_mismatch": "The image {image} is not built for this machine's processor ({detail}).",
    "disk_full": "The machine has no disk space left to pull {image}; tell the operator.",
    "registry_unreachable": "The registry of {image} cannot be reached ({detail}). Check its name, or try again later.",
    "registry_auth_failed": "The registry refused {image}: check the user name, the password and that they may read this image.",
    "image_not_found": "The image {image} does not exist at its registry, or is private and needs credentials. Check name and tag.",
}


async def ensure_image(
    connection: DockerConnection, request: ImageRequest, on_progress: Callable[[PullProgress], None]
) -> Image:
    if request.local:
        image = await _local_image(connection, request.reference)
    else:
        image = await _pulled_image(connection, request, on_progress)
    async with connection.call("ask for the engine's version") as docker:
        engine_architecture = str((await docker.version())["Arch"])
    if image.architecture and image.architecture != engine_architecture:
        detail = f"it is {image.architecture}, the machine is {engine_architecture}"
        raise _image_error("image_architecture_mismatch", request.reference, detail)
    return image


async def _local_image(connection: DockerConnection, reference: str) -> Image:
    # Only what the operator tagged `local/…` is offered; nothing else of the cache, by name or by digest.
    inspected = (
        await _inspect(connection, reference) if _LOCAL_REFERENCE.fullmatch(reference) is not None else None
    )
    if inspected is None:
        raise ImageError(
            f"There is no image {reference} on this machine: local images are those that the operator tagged local/….",
            code="image_not_found",
        )
    return _image(inspected, digest=None)


async def _pulled_image(
    connection: DockerConnection, request: ImageRequest, on_progress: Callable[[PullProgress], None]
) -> Image:
    if _RESERVED.match(request.reference) is not None:
        # Docker would file docker.io/local/chat under local/chat, over the operator's own image.
        raise ImageError(
            f"The name {request.reference} is reserved for local images.", code="image_not_found"
        )
    name, tag, digest = split_reference(request.reference)
    parameters = {"fromImage": name, "tag": digest or tag}
    headers = {"X-Registry-Auth": _authentication(name, request.credentials)} if request.credentials else None
    what = f"pull {request.reference}"
    progress, pulled_digest = _Progress(), ""
    try:
        if digest:
            await _ask_registry(connection, what, f"{name}@{digest}", headers)
        async with connection.stream(
            what,
            "POST",
            "images/create",
            parameters=parameters,
            headers=headers,
            idle_timeout_s=_PULL_IDLE_TIMEOUT_S,
        ) as content:
            async for message in json_messages(content):
                if "error" in message:
                    raise _classify(request, str(message["error"]))
                if str(message.get("status", "")).startswith("Digest: "):
                    pulled_digest = str(message["status"]).removeprefix("Digest: ").strip()
                if progress.take(message):
                    on_progress(progress.sum())
    except DockerError as exc:
        raise _classify(request, exc.message) from exc
    if not pulled_digest:
        raise EngineError(f"{what}: the Docker engine ended the pull without a digest")
    # By digest and not by tag: another pull may have moved the tag meanwhile.
    inspected = await _inspect(connection, f"{name}@{pulled_digest}")
    if inspected is None:
        raise EngineError(f"{what}: the image is gone right after it was pulled")
    return _image(inspected, digest=pulled_digest)


async def _ask_registry(
    connection: DockerConnection, what: str, reference: str, headers: Mapping[str, str] | None
) -> None:
    """Docker keeps the manifests that it pulled. For a digest that it knows it asks nobody, and would hand a private
    image to whoever can name it; a tag it always looks up."""
    async with connection.stream(
        what,
        "GET",
        f"distribution/{reference}/json",
        parameters={},
        headers=headers,
        idle_timeout_s=_ASK_TIMEOUT_S,
    ) as content:
        await content.read()


def split_reference(reference: str) -> tuple[str, str, str]:
    """`host:5000/name:tag@sha256:…` → name with host, tag (`latest` where there is none), digest or ""."""
    rest, _, digest = reference.partition("@")
    slash = rest.rfind("/")
    colon = rest.rfind(":")
    if colon > slash:
        return rest[:colon], rest[colon + 1 :], digest
    return rest, "latest", digest


class _Progress:
    """Sums over the layers. What is there already, or is done, counts as a whole."""

    def __init__(self) -> None:
        self._done: dict[str, int] = {}
        self._total: dict[str, int] = {}

    def take(self, message: Mapping[str, Any]) -> bool:
        layer, status = str(message.get("id", "")), message.get("status")
        if status == "Downloading":
            detail = message.get("progressDetail") or {}
            self._done[layer] = int(detail.get("current", 0))
            self._total[layer] = max(int(detail.get("total", 0)), self._done[layer])
            return True
        if status in ("Download complete", "Pull complete") and layer in self._total:
            self._done[layer] = self._total[layer]
            return True
        return False

    def sum(self) -> PullProgress:
        return PullProgress(sum(self._done.values()), sum(self._total.values()))


def _classify(request: ImageRequest, message: str) -> ImageError:
    text = message.lower()
    for code, phrases in _PULL_ERRORS:
        if any(phrase in text for phrase in phrases):
            missing = "repository does not exist" in text and request.credentials is None
            return _image_error(
                "image_not_found" if missing else code, request.reference, _last_clause(message)
            )
    return ImageError(
        f"The image {request.reference} could not be pulled: {message}", code="registry_unreachable"
    )


def _image_error(code: str, reference: str, detail: str) -> ImageError:
    return ImageError(_ADVICE[code].format(image=reference, detail=detail), code=code)


def _last_clause(message: str) -> str:
    # "Get https://…: dial tcp 10.0.0.1:443: connect: connection refused" → "connection refused"
    return message.rstrip().rsplit(": ", 1)[-1]


def _authentication(name: str, credentials: RegistryCredentials) -> str:
    server = name.partition("/")[0]
    parts = {"username": credentials.username, "password": credentials.password, "serveraddress": server}
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


async def _inspect(connection: DockerConnection, reference: str) -> Mapping[str, Any] | None:
    async with connection.call(f"look at image {reference}") as docker:
        try:
            return dict(await docker.images.inspect(reference))
        except DockerError as exc:
            if exc.status == 404:
                return None
            raise


def _image(inspected: Mapping[str, Any], digest: str | None) -> Image:
    exposed = (inspected.get("Config") or {}).get("ExposedPorts") or {}
    ports = sorted(int(port.partition("/")[0]) for port in exposed if not port.endswith(("/udp", "/sctp")))
    return Image(
        engine_ref=inspected["Id"],
        digest=digest,
        size_bytes=int(inspected["Size"]),
        architecture=str(inspected.get("Architecture") or ""),
        exposed_ports=tuple(ports),
    )
