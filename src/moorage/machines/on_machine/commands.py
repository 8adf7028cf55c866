"""`moor-node join`, `tunnel`, `check`, `renew-key` and `leave`: what a machine does about its membership."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from moorage.engines.docker.daemon import SYSTEM_HOST
from moorage.kit.errors import MoorageError, SetupError
from moorage.kit.ids import InstallationId
from moorage.kit.logging import configure_logging
from moorage.machines.on_machine.containers import end_containers
from moorage.machines.on_machine.facts import facts, has_gpus, host_name
from moorage.machines.on_machine.files import DEFAULT_FOLDER, MachineFiles
from moorage.machines.on_machine.installation import Installation, InstallationError
from moorage.machines.on_machine.program import remove_program
from moorage.machines.on_machine.sandbox import set_up_sandbox, take_sandbox_away
from moorage.machines.on_machine.services import has_systemd, remove_services
from moorage.machines.on_machine.tunnel import MachineTunnel
from moorage.tunnel.keys import public_key_of

Folder = Annotated[Path, typer.Option(help="Where this machine keeps who it is.")]
CaFile = Annotated[str | None, typer.Option(help="Certificates to trust instead of the system's.")]
_UNKNOWN_HERE = "authentication_failed"
"""To the installation this machine is nobody, or nobody any more."""
_NO_ENTRY = "join_token_refused"
NEEDS_ANOTHER_COMMAND = 3
"""How `join` ends where the same command cannot help; the join script knows it."""


def register(app: typer.Typer) -> None:
    for command in (sandbox, join, tunnel, check, renew_key, leave):
        app.command()(command)


def sandbox(docker_host: Annotated[str, typer.Option(help="The engine's socket.")] = SYSTEM_HOST) -> None:
    """Set up the sandbox that containers of strangers run in on a machine that is lent, and try it."""
    asyncio.run(set_up_sandbox(docker_host, with_gpus=has_gpus()))
    typer.echo("Containers run in a sandbox here. A trial container did not see this machine's kernel.")


def join(
    url: Annotated[str, typer.Option(help="Of the installation, https://…")],
    token: Annotated[str, typer.Option(envvar="MOORAGE_JOIN_TOKEN", help="Of `moor machines add`.")],
    folder: Folder = DEFAULT_FOLDER,
    ca_file: CaFile = None,
) -> None:
    """Join an installation. If it fails, run it again; it continues where it stopped."""
    files = MachineFiles(folder)
    files.prepare()
    before = files.membership()["id"] if files.is_joined else None
    try:
        name = asyncio.run(_join(files, Installation(url, ca_file=ca_file), token))
    except InstallationError as exc:
        if exc.code != _NO_ENTRY:
            raise
        print(exc.message, file=sys.stderr)
        raise typer.Exit(NEEDS_ANOTHER_COMMAND) from exc
    did = "Has joined before, as" if files.membership()["id"] == before else "Joined as"
    typer.echo(f"{did} {name} ({url}).")


def tunnel(folder: Folder = DEFAULT_FOLDER, ca_file: CaFile = None) -> None:
    """Keep this machine's end of the tunnel open until stopped."""
    configure_logging("info", as_json=True)
    asyncio.run(_tunnel(MachineFiles(folder), ca_file).keep())


def check(
    folder: Folder = DEFAULT_FOLDER,
    ca_file: CaFile = None,
    wait_s: Annotated[float, typer.Option(min=0.0, help="Seconds that it may take to open.")] = 0.0,
) -> None:
    """Say whether the tunnel to the installation is open and, if not, what to check."""
    files = MachineFiles(folder)
    asyncio.run(_check(_tunnel(files, ca_file), wait_s))
    typer.echo(f"The tunnel to {_dialled(files)} is open.")


def renew_key(folder: Folder = DEFAULT_FOLDER, ca_file: CaFile = None) -> None:
    """Give this machine a new key in the tunnel."""
    asyncio.run(_tunnel(MachineFiles(folder), ca_file).renew_key())


def leave(
    folder: Folder = DEFAULT_FOLDER,
    ca_file: CaFile = None,
    force: Annotated[
        bool, typer.Option("--force", help="Leave even if the installation, or Docker here, does not answer.")
    ] = False,
    copied: Annotated[
        bool,
        typer.Option(
            "--copied",
            help="This disk is a copy: do not tell the installation, because the original machine stays.",
        ),
    ] = False,
) -> None:
    """Undo the join. Packages stay. Containers here end at once, so drain the machine first (`moor machines
    drain`)."""
    files = MachineFiles(folder)
    if not files.is_joined:
        files.forget()
        typer.echo("This machine has not joined an installation.")
        return
    ended = asyncio.run(_leave(files, _tunnel(files, ca_file), force, copied=copied))
    if ended:
        typer.echo(f"Ended {ended} {'container' if ended == 1 else 'containers'} of the installation.")
    if not has_systemd():
        typer.echo("There is no systemd here. Stop the two programs that you started.")
    typer.echo("This machine has left. Installed packages stay.")
    remove_program()


def main() -> None:
    app = typer.Typer(no_args_is_help=True, add_completion=False, help="This machine's membership.")
    register(app)
    try:
        app()
    except MoorageError as exc:
        print(exc.message, file=sys.stderr)
        sys.exit(1)


async def _join(files: MachineFiles, installation: Installation, token: str) -> str:
    """The machine's name."""
    if files.is_joined and (known := await _known_as(files, installation)) is not None:
        files.forget_credential()
        return known
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


async def _known_as(files: MachineFiles, installation: Installation) -> str | None:
    """The name of a machine that joined before; none where the operator has removed it since, and it may join anew."""
    known = files.membership()
    if known["url"] != installation.url:
        raise SetupError(
            f"This machine is part of {known['url']}. Run `moor-node leave` first to join another installation."
        )
    try:
        await _tunnel(files, installation.ca_file).installation.membership()
    except InstallationError as exc:
        if exc.code != _UNKNOWN_HERE:
            raise
        files.forget()
        return None
    name: str = known["name"]
    return name


async def _check(tunnel: MachineTunnel, wait_s: float) -> None:
    deadline_s = tunnel.clock.monotonic() + wait_s
    while not await tunnel.is_open():
        if tunnel.clock.monotonic() >= deadline_s:
            raise SetupError(
                f"The tunnel is not open: {_dialled(tunnel.files)} does not answer. Check that UDP packets "
                "get there (firewalls on both sides and between), that this machine's clock is right, and "
                "`journalctl -u moorage-tunnel`."
            )
        await tunnel.clock.sleep(1.0)


def _dialled(files: MachineFiles) -> str:
    return ", ".join(hub["endpoint"] for hub in files.membership()["hubs"]) or "the installation"


async def _leave(files: MachineFiles, tunnel: MachineTunnel, force: bool, *, copied: bool = False) -> int:
    """How many containers were ended. Safe to repeat: what failed is done by the next run."""
    if not copied:
        await _tell_installation(tunnel.installation, force)
    await asyncio.to_thread(remove_services)
    ended = await _end_containers(files, force)
    await asyncio.to_thread(take_sandbox_away)
    await tunnel.take_down()
    files.forget()
    return ended


async def _tell_installation(installation: Installation, force: bool) -> None:
    try:
        await installation.leave()
    except InstallationError as exc:
        # The operator removed it already, or nobody is there to be told.
        if exc.code != _UNKNOWN_HERE and not force:
            raise


async def _end_containers(files: MachineFiles, force: bool) -> int:
    try:
        return await end_containers(files.docker_host, InstallationId(files.membership()["installation_id"]))
    except SetupError as exc:
        if not force:
            raise
        print(exc.message, file=sys.stderr)
        return 0


def _tunnel(files: MachineFiles, ca_file: str | None) -> MachineTunnel:
    membership = files.membership()
    installation = Installation(membership["url"], membership["id"], files.secrets()["secret"], ca_file)
    return MachineTunnel(files, installation)
