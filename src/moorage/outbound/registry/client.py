"""The pre-flight of an image: does its registry have it for us, and what is it?

One question, asked before anything is pulled or billed, so that a typing error costs seconds and its answer
is a sentence. The steps are those of a pull without the layers: manifest (after a token, where the registry
wants one), the entry of an index for our architecture, the image's configuration. A pull begins with the same steps
(`pulls/`) and goes on from there.

When it fails it raises `ImageError` with the container's reason as its code. Where registry and image could
both be at fault, the sentence says so. It never holds a password, a token, or text of the registry's choosing.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from moorage.kit.clock import Clock
from moorage.outbound.addresses import (
    AddressRefusedError,
    Lookup,
    Reach,
    registry_origin,
    system_lookup,
)
from moorage.outbound.registry.credentials import RegistryCredentials
from moorage.outbound.registry.manifest import (
    ACCEPTED_TYPES,
    ImageConfig,
    Index,
    Manifest,
    Platform,
    UnusableImageError,
    choose_entry,
    digest_of,
    parse_config,
    parse_manifest,
)
from moorage.outbound.registry.sentences import ImageName, Sentences
from moorage.outbound.registry.session import RegistrySession
from moorage.outbound.transport import Transport, TransportError

MAX_MANIFEST_BYTES = 4 << 20
MAX_CONFIG_BYTES = 4 << 20


@dataclass(frozen=True)
class Document:
    """Something small of an image, as the registry gave it and with the digest that it really has."""

    digest: str
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class ImageFacts:
    digest: str
    """Of what the name stands for now, an index where there is one: `repository@digest` never changes again."""
    platforms: tuple[str, ...]
    """All that the image is built for, e.g. `linux/amd64`."""
    size_bytes: int
    """What a pull transfers: the compressed layers of our platform."""
    exposed_ports: tuple[int, ...]
    entrypoint: tuple[str, ...] | None
    command: tuple[str, ...] | None
    user: str
    labels: Mapping[str, str]
    environment: Mapping[str, str] = field(repr=False)
    """The image's own `ENV`; says e.g. which CUDA it was built with."""


@dataclass(frozen=True)
class ResolvedImage:
    facts: ImageFacts
    manifest: Manifest
    """Of our platform."""
    manifest_document: Document
    config_document: Document


async def preflight_image(
    reference: str,
    credentials: RegistryCredentials | None,
    *,
    architecture: str,
    allowed_registries: tuple[str, ...],
    max_image_bytes: int,
    clock: Clock,
    lookup: Lookup = system_lookup,
    tls: ssl.SSLContext | None = None,
) -> ImageFacts:
    """`reference` is complete: `host/repository:tag` or `host/repository@digest`. Takes at most 15 s."""
    image = ImageName.parse(reference)
    with transport_errors_of(image, credentials):
        async with registry_session(
            image, credentials, allowed_registries, clock=clock, lookup=lookup, tls=tls
        ) as (session, _):
            return (await resolve_image(session, architecture, max_image_bytes)).facts


@asynccontextmanager
async def registry_session(
    image: ImageName,
    credentials: RegistryCredentials | None,
    allowed_registries: tuple[str, ...],
    *,
    clock: Clock,
    lookup: Lookup,
    tls: ssl.SSLContext | None,
) -> AsyncIterator[tuple[RegistrySession, Transport]]:
    registry = registry_origin(image.host)
    async with Transport(Reach(registry, allowed_registries, lookup), clock, tls) as transport:
        yield RegistrySession(image, registry, credentials, transport), transport


@contextmanager
def transport_errors_of(image: ImageName, credentials: RegistryCredentials | None) -> Iterator[None]:
    try:
        yield
    except (TransportError, AddressRefusedError) as exc:
        raise Sentences(image, credentials).unreachable(str(exc)) from exc


async def resolve_image(session: RegistrySession, architecture: str, max_image_bytes: int) -> ResolvedImage:
    document, manifest = await _manifest(session, session.image.reference)
    digest = document.digest
    platforms: tuple[Platform, ...] = ()
    if isinstance(manifest, Index):
        platforms = manifest.platforms
        entry = choose_entry(manifest, architecture)
        if entry is None:
            raise session.sentences.wrong_architecture(architecture, platforms)
        document, manifest = await _manifest(session, entry.digest)
        if isinstance(manifest, Index):
            raise session.sentences.misbehaves("an index inside an index")
    if manifest.size_bytes > max_image_bytes:
        raise session.sentences.too_large(manifest.size_bytes, max_image_bytes)
    config_document, config = await _config(session, manifest)
    if not config.platform.runs_on(architecture):
        raise session.sentences.wrong_architecture(architecture, platforms or (config.platform,))
    facts = ImageFacts(
        digest=digest,
        platforms=tuple(str(platform) for platform in platforms or (config.platform,)),
        size_bytes=manifest.size_bytes,
        exposed_ports=config.exposed_ports,
        entrypoint=config.entrypoint,
        command=config.command,
        user=config.user,
        labels=config.labels,
        environment=config.environment,
    )
    return ResolvedImage(facts, manifest, document, config_document)


async def _manifest(session: RegistrySession, reference: str) -> tuple[Document, Index | Manifest]:
    answer = await session.get(f"manifests/{reference}", MAX_MANIFEST_BYTES, ACCEPTED_TYPES)
    if refusal := session.refusal(answer):
        raise refusal
    digest = await asyncio.to_thread(digest_of, answer.body)
    claimed = answer.headers.get("Docker-Content-Digest", digest)
    if (":" in reference and reference != digest) or (claimed.startswith("sha256:") and claimed != digest):
        raise session.sentences.misbehaves("a manifest that does not have the digest it should")
    try:
        content_type = answer.headers.get("Content-Type", "")
        # Beside the loop, as the digest: megabytes that somebody else wrote.
        manifest = await asyncio.to_thread(parse_manifest, answer.body, content_type)
    except UnusableImageError as exc:
        raise session.sentences.unusable(str(exc)) from exc
    except ValueError as exc:
        raise session.sentences.misbehaves(f"a manifest that cannot be understood ({exc})") from exc
    return Document(digest, answer.body), manifest


async def _config(session: RegistrySession, manifest: Manifest) -> tuple[Document, ImageConfig]:
    answer = await session.get(f"blobs/{manifest.config_digest}", MAX_CONFIG_BYTES, "*/*")
    if answer.status == 404:
        raise session.sentences.incomplete()
    if refusal := session.refusal(answer):
        raise refusal
    if await asyncio.to_thread(digest_of, answer.body) != manifest.config_digest:
        raise session.sentences.misbehaves("a configuration that does not have the digest it should")
    try:
        config = await asyncio.to_thread(parse_config, answer.body)
    except UnusableImageError as exc:
        raise session.sentences.unusable(str(exc)) from exc
    except ValueError as exc:
        raise session.sentences.misbehaves(f"a configuration that cannot be understood ({exc})") from exc
    return Document(manifest.config_digest, answer.body), config
