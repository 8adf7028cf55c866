"""Having an image here and pinning it: pulls from registries, and the operator's own `local/…` images.

A remote image is always asked for at its registry, with the credentials of whoever deploys it. Nothing is
found in the cache by name, because a private image in the cache is nobody else's (KEP-2535). It is not Docker that
asks: Docker is given a ticket of the pull proxy (`outbound/pulls`), and never hears the image's name or a password.
"""

import asyncio
import base64
import json
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from aiodocker.exceptions import DockerError

from moorage.engines.base import Image, ImageRequest, PulledImage, PullProgress
from moorage.engines.docker.connection import DockerConnection, json_messages
from moorage.engines.nvidia import gpu_environment
from moorage.engines.pull_failures import pull_failure
from moorage.kit.errors import EngineError, ImageError
from moorage.outbound.pulls.proxy import PullProxy
from moorage.outbound.pulls.ticket import PULL_FOLDER, PullOrder, Ticket

_LOCAL_REFERENCE = re.compile(r"local/[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?")
_RESERVED = re.compile(r"(?:(?:index\.|registry-1\.)?docker\.io/)?local/")
_KEPT_AS = "moorage/pulled"
"""Each pulled image is tagged with its id, because Docker drops what has no name."""
_TICKET_NAME = re.compile(rf"127\.0\.0\.1:[0-9]+/{PULL_FOLDER}/[0-9a-f]+@sha256:[0-9a-f]{{64}}")
_CONNECT_TIMEOUT_S = 2.0
_PULL_IDLE_TIMEOUT_S = 900.0
"""Silence while a pull runs. Unpacking one layer of 50 GB says nothing for minutes."""


async def ensure_image(
    connection: DockerConnection,
    pulls: PullProxy | None,
    request: ImageRequest,
    on_progress: Callable[[PullProgress], None],
) -> Image:
    async with connection.call("ask for the engine's version") as docker:
        architecture = str((await docker.version())["Arch"])
    if not request.local:
        return await _pulled_image(connection, pulls, request, architecture, on_progress)
    image = await _local_image(connection, request.reference)
    if image.architecture and image.architecture != architecture:
        raise ImageError(
            f"The image {request.reference} is not built for this machine's processor "
            f"(it is {image.architecture}, the machine is {architecture}).",
            code="image_architecture_mismatch",
        )
    return image


async def _local_image(connection: DockerConnection, reference: str) -> Image:
    # Only what the operator tagged `local/…` is offered; nothing else of the cache, by name or by digest.
    inspected = (
        await _inspect(connection, reference) if _LOCAL_REFERENCE.fullmatch(reference) is not None else None
    )
    if inspected is None:
        raise ImageError(
            f"There is no image {reference} on this machine. Local images are those that the operator tagged local/….",
            code="image_not_found",
        )
    return _image(inspected, digest=None)


async def _pulled_image(
    connection: DockerConnection,
    pulls: PullProxy | None,
    request: ImageRequest,
    architecture: str,
    on_progress: Callable[[PullProgress], None],
) -> Image:
    order = pull_order(request, architecture)
    if pulls is None:
        raise EngineError(f"pull {request.reference}: this engine was given no way to pull images")
    async with pulls.ticket(order) as ticket:
        await _pull(connection, request.reference, ticket, on_progress)
        return await _keep(connection, request.reference, ticket)


def pull_order(request: ImageRequest, architecture: str) -> PullOrder:
    """Raises `ImageError` for a name that no registry has."""
    if _RESERVED.match(request.reference) is not None:
        raise ImageError(
            f"The name {request.reference} is reserved for local images.", code="image_not_found"
        )
    name, tag, digest = split_reference(request.reference)
    reference = f"{name}@{digest}" if digest else f"{name}:{tag}"
    return PullOrder(reference, request.credentials, architecture, request.organization_id)


async def _pull(
    connection: DockerConnection,
    reference: str,
    ticket: Ticket,
    on_progress: Callable[[PullProgress], None],
) -> None:
    """Ends as soon as it cannot succeed: Docker would ask for the same layer again for a minute."""
    pulling = asyncio.ensure_future(_pull_by_ticket(connection, reference, ticket, on_progress))
    refused = asyncio.wrap_future(ticket.refused)
    try:
        await asyncio.wait((pulling, refused), return_when=asyncio.FIRST_COMPLETED)
        if not refused.done():
            await pulling
    except DockerError as exc:
        # `from None`: what Docker says of a failed unpacking quotes the image's files.
        raise ticket.trouble or pull_failure(reference, exc.message) from None
    finally:
        pulling.cancel()
        await asyncio.gather(pulling, return_exceptions=True)
        refused.cancel()
    if ticket.refused.done():
        raise ticket.refused.result()


async def _pull_by_ticket(
    connection: DockerConnection,
    reference: str,
    ticket: Ticket,
    on_progress: Callable[[PullProgress], None],
) -> None:
    progress = _Progress()
    async with connection.stream(
        f"pull {reference}",
        "POST",
        "images/create",
        parameters={"fromImage": ticket.name, "tag": ticket.manifest_digest},
        headers={"X-Registry-Auth": _authentication(ticket)},
        idle_timeout_s=_PULL_IDLE_TIMEOUT_S,
    ) as content:
        async for message in json_messages(content):
            if "error" in message:
                raise DockerError(500, str(message["error"]))
            if progress.take(message):
                on_progress(progress.sum())


async def _keep(connection: DockerConnection, reference: str, ticket: Ticket) -> Image:
    """Exchange the name that the image was pulled under for one that lasts."""
    what = f"keep {reference}"
    pulled_as = f"{ticket.name}@{ticket.manifest_digest}"
    inspected = await _inspect(connection, pulled_as)
    if inspected is None:
        raise EngineError(f"{what}: the image is gone right after it was pulled")
    image_id = str(inspected["Id"])
    async with connection.call(what) as docker:
        await docker.images.tag(image_id, _KEPT_AS, tag=image_id.removeprefix("sha256:"))
    for name in (pulled_as, *await _left_behind(inspected, ticket)):
        async with connection.call(what) as docker:
            try:
                await docker.images.delete(name, noprune=True)
            except DockerError as exc:
                if exc.status != 404:
                    raise
    return _image(inspected, digest=ticket.digest)


async def pulled_images(connection: DockerConnection) -> list[PulledImage]:
    return await connection.listed(
        "list the pulled images",
        "images/json",
        {"filters": json.dumps({"reference": [f"{_KEPT_AS}:*"]})},
        lambda image: PulledImage(str(image["Id"]), int(image["Size"])),
    )


async def remove_image(connection: DockerConnection, engine_ref: str) -> bool:
    name = f"{_KEPT_AS}:{engine_ref.removeprefix('sha256:')}"
    async with connection.call(f"remove the image {engine_ref}") as docker:
        try:
            await docker.images.delete(name)
        except DockerError as exc:
            if exc.status == HTTPStatus.CONFLICT:
                return False
            if exc.status != HTTPStatus.NOT_FOUND:
                raise
    return True


async def _left_behind(inspected: Mapping[str, Any], ticket: Ticket) -> list[str]:
    """Names from tickets of a proxy that is gone: it was killed between the pull and here. Another installation's,
    which uses the same engine, is not gone."""
    names = [str(name) for name in inspected.get("RepoDigests") or () if _TICKET_NAME.fullmatch(str(name))]
    proxies = {name.partition("/")[0] for name in names} - {ticket.name.partition("/")[0]}
    gone = {proxy for proxy in proxies if not await _listens(proxy)}
    return [name for name in names if name.partition("/")[0] in gone]


async def _listens(address: str) -> bool:
    host, _, port = address.partition(":")
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, int(port))
    except ConnectionRefusedError:
        return False
    except (OSError, TimeoutError):
        return True
    writer.close()
    return True


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


def _authentication(ticket: Ticket) -> str:
    parts = {
        "username": ticket.credentials.username,
        "password": ticket.credentials.password,
        "serveraddress": ticket.name.partition("/")[0],
    }
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
        gpu_environment=gpu_environment((inspected.get("Config") or {}).get("Env")),
    )
