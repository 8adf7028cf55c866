"""The pre-flight of an image: does its registry have it for us, and what is it?

One question, asked before anything is pulled or billed, so that a typing error costs seconds and its answer
is a sentence. The steps are those of a pull without the layers: manifest (after a token, where the registry
wants one), the entry of an index for our architecture, the image's configuration.

When it fails it raises `ImageError` with the container's reason as its code. Where registry and image could
both be at fault, the sentence says so. It never holds a password, a token, or text of the registry's choosing.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from yarl import URL

from moorage.engines.base import RegistryCredentials
from moorage.kit.clock import Clock
from moorage.registry import auth
from moorage.registry.addresses import (
    AddressRefusedError,
    Lookup,
    Origin,
    Reach,
    origin_of,
    registry_origin,
    strict_url,
    system_lookup,
)
from moorage.registry.manifest import (
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
from moorage.registry.sentences import ImageName, Sentences
from moorage.registry.transport import Answer, Transport, TransportError

MAX_MANIFEST_BYTES = 4 << 20
MAX_CONFIG_BYTES = 8 << 20
MAX_TOKEN_BYTES = 64 << 10


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


async def preflight_image(
    reference: str,
    credentials: RegistryCredentials | None,
    *,
    architecture: str,
    allowed_registries: tuple[str, ...],
    clock: Clock,
    lookup: Lookup = system_lookup,
    tls: ssl.SSLContext | None = None,
) -> ImageFacts:
    """`reference` is complete: `host/repository:tag` or `host/repository@digest`. Takes at most 15 s."""
    image = ImageName.parse(reference)
    try:
        registry = registry_origin(image.host)
        reach = Reach(registry, allowed_registries, lookup)
        async with Transport(reach, clock, tls) as transport:
            return await _Preflight(image, registry, credentials, transport).run(architecture)
    except (TransportError, AddressRefusedError) as exc:
        raise Sentences(image, credentials).unreachable(str(exc)) from exc


class _Preflight:
    def __init__(
        self,
        image: ImageName,
        registry: Origin,
        credentials: RegistryCredentials | None,
        transport: Transport,
    ) -> None:
        self._image = image
        self._registry = registry
        self._credentials = credentials
        self._transport = transport
        self._authorization: str | None = None
        self._signed_in = False
        self._sentences = Sentences(image, credentials)

    async def run(self, architecture: str) -> ImageFacts:
        digest, manifest = await self._manifest(self._image.reference)
        platforms: tuple[Platform, ...] = ()
        if isinstance(manifest, Index):
            platforms = manifest.platforms
            entry = choose_entry(manifest, architecture)
            if entry is None:
                raise self._sentences.wrong_architecture(architecture, platforms)
            _, manifest = await self._manifest(entry.digest)
            if isinstance(manifest, Index):
                raise self._sentences.misbehaves("an index inside an index")
        config = await self._config(manifest)
        if not config.platform.runs_on(architecture):
            raise self._sentences.wrong_architecture(architecture, platforms or (config.platform,))
        return ImageFacts(
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

    async def _manifest(self, reference: str) -> tuple[str, Index | Manifest]:
        answer = await self._get(f"manifests/{reference}", MAX_MANIFEST_BYTES, ACCEPTED_TYPES)
        self._check_found(answer)
        digest = digest_of(answer.body)
        claimed = answer.headers.get("Docker-Content-Digest", digest)
        if (":" in reference and reference != digest) or (
            claimed.startswith("sha256:") and claimed != digest
        ):
            raise self._sentences.misbehaves("a manifest that does not have the digest it should")
        try:
            return digest, parse_manifest(answer.body, answer.headers.get("Content-Type", ""))
        except UnusableImageError as exc:
            raise self._sentences.unusable(str(exc)) from exc
        except ValueError as exc:
            raise self._sentences.misbehaves(f"a manifest that cannot be understood ({exc})") from exc

    async def _config(self, manifest: Manifest) -> ImageConfig:
        answer = await self._get(f"blobs/{manifest.config_digest}", MAX_CONFIG_BYTES, "*/*")
        if answer.status == 404:
            raise self._sentences.incomplete()
        self._check_found(answer)
        if digest_of(answer.body) != manifest.config_digest:
            raise self._sentences.misbehaves("a configuration that does not have the digest it should")
        try:
            return parse_config(answer.body)
        except ValueError as exc:
            raise self._sentences.misbehaves(f"a configuration that cannot be understood ({exc})") from exc

    async def _get(self, path: str, max_bytes: int, accept: str) -> Answer:
        """Answers a 401 once, and only the registry's own: a host that it sends us on to gets no say."""
        base = f"{self._registry.scheme}://{self._registry.host}:{self._registry.port}"
        url = URL(f"{base}/v2/{self._image.repository}/{path}", encoded=True)
        answer = await self._transport.get(
            url, max_bytes=max_bytes, accept=accept, authorization=self._authorization
        )
        if answer.status != 401 or answer.origin != self._registry or self._authorization is not None:
            return answer
        challenges = auth.parse_challenges(answer.headers.getall("WWW-Authenticate", []))
        challenge = auth.choose_challenge(challenges)
        if challenge is None:
            raise self._sentences.misbehaves(
                "a demand to sign in that says no way how (neither Bearer nor Basic)"
            )
        self._authorization = await self._authorize(challenge)
        return await self._transport.get(
            url, max_bytes=max_bytes, accept=accept, authorization=self._authorization
        )

    async def _authorize(self, challenge: auth.Challenge) -> str:
        if challenge.scheme == "bearer":
            return auth.bearer_authorization(await self._token(challenge))
        if self._credentials is None:
            raise self._sentences.needs_credentials()
        return auth.basic_authorization(self._credentials)

    async def _token(self, challenge: auth.Challenge) -> str:
        try:
            realm = strict_url(challenge.parameters["realm"])
            realm_origin = origin_of(realm)
        except AddressRefusedError as exc:
            raise self._sentences.misbehaves(f"an address for tokens that is not allowed ({exc})") from exc
        if self._credentials and not auth.may_receive_credentials(self._registry.host, realm_origin.host):
            # Not even asked without the password: the pull that follows would send it there.
            raise self._sentences.foreign_realm(realm_origin)
        answer = await self._transport.get(
            realm.update_query(auth.token_query(challenge, self._image.repository)),
            max_bytes=MAX_TOKEN_BYTES,
            accept="application/json",
            authorization=auth.basic_authorization(self._credentials) if self._credentials else None,
            max_redirects=0,
        )
        if answer.status in (401, 403):
            raise self._sentences.denied()
        if answer.status != 200:
            raise self._sentences.odd_status(answer.origin, answer.status)
        try:
            token = auth.parse_token(answer.body)
        except ValueError as exc:
            raise self._sentences.misbehaves(f"no token ({exc})") from exc
        self._signed_in = self._credentials is not None
        return token

    def _check_found(self, answer: Answer) -> None:
        if answer.status == 200:
            return
        if answer.status == 404:
            raise self._sentences.not_found()
        if answer.status in (401, 403) and answer.origin == self._registry:
            raise self._sentences.denied(signed_in=self._signed_in)
        raise self._sentences.odd_status(answer.origin, answer.status)
