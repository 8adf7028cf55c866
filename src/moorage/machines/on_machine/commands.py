"""`moor-node join`, `tunnel`, `renew-key` and `leave`: what a machine does about its membership."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from moorage.kit.errors import EngineError, MoorageError, SetupError
from moorage.kit.logging import configure_logging
from moorage.machines.on_machine.facts import facts, host_name
from moorage.machines.on_machine.files import DEFAULT_FOLDER, MachineFiles
from moorage.machines.on_machine.installation import Installation, InstallationError
from moorage.machines.on_machine.replicas import end_replicas
from moorage.machines.on_machine.services import remove_services
from moorage.machines.on_machine.tunnel import MachineTunnel
from moorage.tunnel.keys import public_key_of

Folder = Annotated[Path, typer.Option(help="Where this machine keeps who it is.")]
CaFile = Annotated[str | None, typer.Option(help="Certificates to trust instead of the system's.")]
_REFUSED = "authentication_failed"


def register(app: typer.Typer) -> None:
    for command in (join, tunnel, renew_key, leave):
        app.command()(command)


def join(
    url: Annotated[str, typer.Option(help="Of the installation, https://…")],
    token: Annotated[str, typer.Option(envvar="MOORAGE_JOIN_TOKEN", help="Of `moor machines add`.")],
    folder: Folder = DEFAULT_FOLDER,
    ca_file: CaFile = None,
) -> None:
    """Join an installation. Run again, it goes on where it failed."""
    files = MachineFiles(folder)
    files.prepare()
    membership = asyncio.run(_join(files, Installation(url, ca_file=ca_file), token))
    typer.echo(f"Joined as {membership} ({url}).")


def tunnel(folder: Folder = DEFAULT_FOLDER, ca_file: CaFile = None) -> None:
    """Keep this machine's end of the tunnel open, until told to end."""
    configure_logging("info", as_json=True)
    asyncio.run(_tunnel(MachineFiles(folder), ca_file).keep())


def renew_key(folder: Folder = DEFAULT_FOLDER, ca_file: CaFile = None) -> None:
    """Give this machine a new key in the tunnel."""
    asyncio.run(_tunnel(MachineFiles(folder), ca_file).renew_key())


def leave(
    folder: Folder = DEFAULT_FOLDER,
    ca_file: CaFile = None,
    force: Annotated[bool, typer.Option(help="Also if the installation does not answer.")] = False,
) -> None:
    """Undo joining. Drain the machine first (`moor machines drain`), or what runs here ends now."""
    files = MachineFiles(folder)
    if not files.is_joined:
        files.forget()
        typer.echo("This machine has not joined an installation.")
        return
    asyncio.run(_leave(files, _tunnel(files, ca_file), force))
    typer.echo("This machine has left.")


def main() -> None:
    app = typer.Typer(no_args_is_help=True, add_completion=False, help="This machine's membership.")
    register(app)
    try:
        app()
    except MoorageError as exc:
        print(exc.message, file=sys.stderr)
        sys.exit(1)


async def _join(files: MachineFiles, installation: Installation, token: str) -> str:
    if files.is_joined:
        known = files.membership()
        if known["url"] != installation.url:
            raise SetupError(
                f"This machine is part of {known['url']}. Run `moor-node leave` first to join another installation."
            )
        if await _is_still_known(files, installation):
            files.forget_credential()
            name: str = known["name"]
            return name
        # Removed by the operator, or joined after the backup that the installation was restored from.
        files.forget()
    secrets = files.secrets()
    membership = await installation.join(
        {
            "token": token,
            "hostname": host_name(),
            "public_key": public_key_of(files.private_key()),
            "credential": secrets["credential"],
            "secret": secrets["secret"],
            "facts": await asyncio.to_thread(facts),
        }
    )
    # The membership comes after what the node role needs of the credential, and before that is forgotten: whatever is
    # missing after a crash, the next run brings.
    files.write_node_settings(membership)
    files.keep_membership(installation.url, membership)
    files.forget_credential()
    joined: str = membership["name"]
    return joined


async def _is_still_known(files: MachineFiles, installation: Installation) -> bool:
    """An installation that does not answer has not said otherwise."""
    asks = replace(installation, machine_id=files.membership()["id"], secret=files.secrets()["secret"])
    try:
        await asks.membership()
    except InstallationError as exc:
        return exc.code != _REFUSED
    return True


async def _leave(files: MachineFiles, tunnel: MachineTunnel, force: bool) -> None:
    try:
        await tunnel.installation.leave()
    except InstallationError as exc:
        # The operator removed it already, or nobody is there to be told.
        if exc.code != _REFUSED and not force:
            raise
    await asyncio.to_thread(remove_services)
    try:
        await end_replicas(files.docker_host(), files.membership()["installation_id"])
    except EngineError as exc:
        if not force:
            raise SetupError(
                f"What runs here could not be ended ({exc.message}). See `docker version`; or leave with --force."
            ) from exc
    await tunnel.take_down()
    files.forget()


def _tunnel(files: MachineFiles, ca_file: str | None) -> MachineTunnel:
    membership = files.membership()
    installation = Installation(membership["url"], membership["id"], files.secrets()["secret"], ca_file)
    return MachineTunnel(files, installation)
