"""`moor preflight`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from moorage_cli.amounts import shown_bytes
from moorage_cli.command import command
from moorage_cli.container_file import DeployOptions, registry_of
from moorage_cli.errors import CliError
from moorage_cli.proposals import options_of
from moorage_cli.session import Session

if TYPE_CHECKING:
    from moorage_cli.api.types import PreflightRequest


def register(app: typer.Typer) -> None:
    command(app)(preflight)


def preflight(
    session: Session,
    image: Annotated[str, typer.Option(help="The image, e.g. ghcr.io/acme/chat:1.2.")],
    provider: Annotated[
        str | None, typer.Option(help="The registry's provider.", show_default="by image")
    ] = None,
    username: Annotated[str | None, typer.Option(help="The user name at a private registry.")] = None,
    password_file: Annotated[
        Path | None, typer.Option(help="File with the registry's password; - is stdin.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="The port that its server listens on.")] = None,
) -> None:
    """Check an image with its registry before you deploy it. Nothing is pulled or charged."""
    options = DeployOptions(image=image, provider=provider, username=username, password_file=password_file)
    registry = registry_of({"image": image}, options)
    body = cast("PreflightRequest", {"image": image, "registry": registry, "port": port})
    found = session.api.preflight(session.project["id"], body)
    if not found["ok"]:
        raise CliError(found["message"], code=found["reason"] or "image_not_usable")
    if session.output.as_json:
        session.output.result(found)
        return
    size = shown_bytes(found["size_bytes"]) if found["size_bytes"] is not None else ""
    pairs = [
        ("image", found["image"]),
        ("digest", found["digest"] or ""),
        ("platforms", ", ".join(found["platforms"])),
        ("size", size),
        ("exposes", ", ".join(str(one) for one in found["exposed_ports"])),
        ("port", str(found["port"] or "")),
        ("entry point", shlex.join(found.get("entrypoint") or ())),
    ]
    session.output.pairs([(name, value) for name, value in pairs if value])
    if found["proposal"] is not None:
        session.output.line(found["proposal"]["message"])
        session.output.line(f"Deploy it with {options_of({**found['proposal']})}, or with --as-proposed.")
    for warning in found["warnings"]:
        session.output.line(warning, style="yellow")
    session.output.line(found["message"])
