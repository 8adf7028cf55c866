"""The pre-flight: what a deployment of an image would find, before anything is pulled or paid.

The same question is asked by a person who fills in a form and by each pull (`outbound/pulls`); what the pull is told is
what every replica of that deployment runs.
"""

from collections.abc import Sequence

from moorage.containers.known_images import propose
from moorage.containers.schemas import PreflightResult, SettingsProposal
from moorage.containers.spec import chosen_port, is_encodable
from moorage.containers.states import Reason
from moorage.kit.clock import Clock
from moorage.kit.errors import ImageError
from moorage.kit.settings import Settings
from moorage.outbound.registry.client import ImageFacts, preflight_image
from moorage.outbound.registry.credentials import RegistryCredentials

LARGE_IMAGE_BYTES = 20 * 2**30


async def look_ahead(
    image: str,
    credentials: RegistryCredentials | None,
    port: int | None,
    *,
    architectures: Sequence[str],
    settings: Settings,
    clock: Clock,
) -> PreflightResult:
    """Whether it runs on one of these, the commonest first."""
    for architecture in architectures[:-1]:
        result = await _look_ahead(
            image, credentials, port, architecture=architecture, settings=settings, clock=clock
        )
        if result.reason != Reason.IMAGE_ARCHITECTURE_MISMATCH:
            return result
    return await _look_ahead(
        image, credentials, port, architecture=architectures[-1], settings=settings, clock=clock
    )


async def _look_ahead(
    image: str,
    credentials: RegistryCredentials | None,
    port: int | None,
    *,
    architecture: str,
    settings: Settings,
    clock: Clock,
) -> PreflightResult:
    try:
        facts = await preflight_image(
            image,
            credentials,
            architecture=architecture,
            allowed_registries=settings.allowed_registries,
            max_image_bytes=settings.max_image_bytes,
            clock=clock,
        )
    except ImageError as exc:
        return PreflightResult(
            ok=False, reason=exc.code, message=exc.message, image=image, proposal=proposal_json(image)
        )
    return PreflightResult(
        ok=True,
        message="The image exists.",
        image=image,
        digest=facts.digest,
        platforms=list(facts.platforms),
        size_bytes=facts.size_bytes,
        exposed_ports=list(facts.exposed_ports),
        port=chosen_port(port, facts.exposed_ports),
        entrypoint=shown_entrypoint(facts.entrypoint),
        warnings=_warnings(facts, port),
        proposal=proposal_json(image, facts.exposed_ports),
    )


def proposal_json(image: str, exposed_ports: Sequence[int] = ()) -> SettingsProposal | None:
    proposal = propose(image, exposed_ports)
    return SettingsProposal.model_validate(proposal, from_attributes=True) if proposal is not None else None


def shown_entrypoint(entrypoint: tuple[str, ...] | None) -> list[str] | None:
    """None where it cannot be told: an image may hold half a character."""
    found = list(entrypoint or ())
    return found if all(is_encodable(part) for part in found) else None


def pinned(image: str, digest: str) -> str:
    """`ghcr.io/acme/chat:1` at sha256:… → `ghcr.io/acme/chat@sha256:…`: no tag can move it any more."""
    host, slash, path = image.partition("/")
    repository = path.partition("@")[0].partition(":")[0]
    return f"{host}{slash}{repository}@{digest}"


def _warnings(facts: ImageFacts, port: int | None) -> list[str]:
    warnings = []
    if port is not None and facts.exposed_ports and port not in facts.exposed_ports:
        shown = ", ".join(str(exposed) for exposed in facts.exposed_ports)
        warnings.append(f"The image exposes {shown}, not {port}. Set the port to where the server listens.")
    if port is None and len(facts.exposed_ports) > 1:
        warnings.append("The image exposes several ports. Set the server's port; 8000 is assumed.")
    if facts.size_bytes > LARGE_IMAGE_BYTES:
        warnings.append(f"The image is {facts.size_bytes / 2**30:.0f} GiB; its first start takes a while.")
    return warnings
