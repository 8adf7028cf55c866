"""The `moor` command: the CLI over HTTP, and the commands that run Moorage on this machine."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from moorage.entrypoints.kubernetes.commands import app as kubernetes
from moorage.kit.errors import MoorageError, SettingsError
from moorage.kit.logging import configure_logging
from moorage.kit.parent import end_with_parent
from moorage.kit.settings import load_settings, masked
from moorage_cli.app import app
from moorage_cli.commands import doctor
from moorage_cli.session import Session

EXIT_WRONG_USE = 2

app.add_typer(kubernetes, name="kubernetes", rich_help_panel="Run Moorage")


@app.command(rich_help_panel="Run Moorage")
def up() -> None:
    """Run everything on this machine: database, engine, API, controller, gateway."""
    from moorage.entrypoints.up import up as run_up

    settings = load_settings()
    configure_logging("warning", as_json=False)
    asyncio.run(run_up(settings, _say))


@app.command(rich_help_panel="Run Moorage")
def down() -> None:
    """Stop everything on this machine, users' containers included. The data stays."""
    from moorage.entrypoints.up import down as run_down

    asyncio.run(run_down(load_settings(), _say))


@app.command(rich_help_panel="Run Moorage")
def clean(yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Stop everything and remove the data folder."""
    from moorage.entrypoints.up import clean as run_clean

    settings = load_settings()
    if not yes:
        typer.confirm(f"Remove {settings.home} with all data?", abort=True)
    asyncio.run(run_clean(settings, _say))


@app.command(rich_help_panel="Run Moorage")
def serve(
    role: Annotated[str, typer.Option(help="api, controller or gateway")],
    exit_with_parent: Annotated[bool, typer.Option("--exit-with-parent", hidden=True)] = False,
    in_container: Annotated[
        bool, typer.Option("--in-container", help="Run as the first process of a gateway's container.")
    ] = False,
) -> None:
    """Run one role in this process."""
    from moorage.entrypoints.roles import serve as run_role

    settings = load_settings()
    configure_logging(settings.log_level, as_json=settings.log_format == "json")
    if exit_with_parent:
        end_with_parent()
    if in_container and role == "gateway":
        from moorage.entrypoints.gateway_container import run as run_container

        run_container(settings)
        return
    run_role(settings, role)


@app.command(rich_help_panel="Run Moorage")
def migrate(
    without_dump: Annotated[
        bool, typer.Option("--without-dump", help="Do not write the database to a file first.")
    ] = False,
) -> None:
    """Bring the database to this version's tables. Dumps a database of an earlier version to the data folder
    first."""
    from moorage.entrypoints.migrate import migrate_installation

    asyncio.run(migrate_installation(load_settings(), _say, dump_first=not without_dump))
    _say("The database is at this version.")


@app.command(rich_help_panel="Run Moorage")
def bootstrap(
    wait: Annotated[float, typer.Option(help="Seconds that the database may take to answer.", min=0)] = 60,
    without_dump: Annotated[
        bool, typer.Option("--without-dump", help="Do not write the database to a file first.")
    ] = False,
    accept_keys: Annotated[
        bool,
        typer.Option(
            "--accept-keys",
            help="Continue with other secret keys. Secrets sealed with the old ones stay unreadable.",
        ),
    ] = False,
) -> None:
    """Create an installation, or bring one to this version, so that every role can start. Safe to repeat."""
    from moorage.entrypoints.bootstrap_job import bootstrap_installation

    job = bootstrap_installation(
        load_settings(), _say, wait_s=wait, dump_first=not without_dump, accept=accept_keys
    )
    asyncio.run(job)


@app.command("new-keys", rich_help_panel="Run Moorage")
def new_keys(
    folder: Annotated[Path, typer.Argument(help="The folder to write `secret-keys` and `operator-key` to.")],
) -> None:
    """Create the keys that all copies of an installation share; mount them into each. Existing keys are not
    overwritten."""
    from moorage.entrypoints.bootstrap import make_keys

    for file in make_keys(folder):
        _say(f"Made {file}.")


@app.command(rich_help_panel="Run Moorage")
def backup(
    file: Annotated[
        Path | None, typer.Argument(help="Where to write the database. The file must not exist.")
    ] = None,
) -> None:
    """Write the database to FILE. Without FILE, write the database, the keys and the settings, encrypted, to the
    backup folder. Moorage keeps running."""
    from moorage.entrypoints.backup import backup as run_backup
    from moorage.entrypoints.full_backup import back_up_everything

    if file is None:
        written, gone = asyncio.run(back_up_everything(load_settings()))
        for old in gone:
            _say(f"Removed the old backup {old}.")
        _say(f"Wrote everything to {written}. Only the recovery key opens it.")
        return
    if file.exists():
        raise SettingsError(f"{file} exists already. Name another file.")
    asyncio.run(run_backup(load_settings(), file))
    _say(f"Wrote the database to {file}. Keep `secret-keys` of the data folder as well.")


@app.command(rich_help_panel="Run Moorage")
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `moor backup` wrote.", exists=True)],
    key: Annotated[
        Path | None,
        typer.Option(help="The file with the recovery key, for an encrypted backup.", exists=True),
    ] = None,
) -> None:
    """Restore a backup into an empty database, and bring it to this version's tables."""
    from moorage.entrypoints.backup import restore as run_restore
    from moorage.entrypoints.full_backup import is_full_backup, restore_everything
    from moorage.entrypoints.migrate import migrate as run_migrate
    from moorage.kit.postgres import database_dsn

    async def run() -> None:
        settings = load_settings()
        if not is_full_backup(file):
            await run_restore(settings, file)
        elif key is None:
            raise SettingsError(f"{file} is encrypted. Name the file of the recovery key with --key.")
        else:
            for target in await restore_everything(settings, file, key):
                _say(f"Restored {target}.")
        await run_migrate(database_dsn(settings))

    asyncio.run(run())
    _say("The database is restored and at this version.")


@app.command(rich_help_panel="Run Moorage")
def install(yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Make Moorage a service of this machine, or repair the service. Lists its steps first. Needs root."""
    from moorage.entrypoints.service.install import install as run_install

    asyncio.run(run_install(_say, _confirmation(yes)))


@app.command(rich_help_panel="Run Moorage")
def uninstall(
    data: Annotated[
        Literal["keep", "remove"],
        typer.Option(help="Whether to keep or remove the data folder, the settings and the backups."),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Stop the service and remove it from this machine. Lists its steps first. Needs root."""
    from moorage.entrypoints.service.install import uninstall as run_uninstall

    asyncio.run(run_uninstall(_say, _confirmation(yes), with_data=data == "remove"))


@app.command(rich_help_panel="Run Moorage")
def upgrade(
    wanted: Annotated[
        str | None,
        typer.Argument(
            metavar="[VERSION | FILE]",
            help="A version in /opt/moorage/versions, or the file of a wheel, a Debian package or a bundle. Default: the newest version there.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    older: Annotated[
        bool, typer.Option("--older", help="Allow a version older than the one that runs.")
    ] = False,
    within: Annotated[
        float,
        typer.Option(help="Seconds that each role may take to serve before the upgrade goes back.", min=5),
    ] = 120,
) -> None:
    """Bring the service to another version while endpoints keep answering. If that version does not serve, it goes
    back by itself. Lists its steps first. Needs root."""
    from moorage.entrypoints.service.places import Installation
    from moorage.entrypoints.service.upgrade.command import run_upgrade

    done = run_upgrade(
        wanted, _say, _confirmation(yes), older=older, within_s=within, installation=Installation()
    )
    asyncio.run(done)


@app.command(hidden=True)
def units() -> None:
    """For an upgrade: write this version's units."""
    from moorage.entrypoints.service.install import write_units

    asyncio.run(write_units(_say))


@app.command(hidden=True)
def ready(
    role: Annotated[str, typer.Option(help="keep, gateway, controller or api")],
    pid: Annotated[int, typer.Option(help="The id of its process.")],
    since: Annotated[float, typer.Option(help="When it was asked to start, in seconds since 1970.")],
) -> None:
    """For an upgrade: say whether a role of this version serves, or what is missing."""
    from moorage.entrypoints.service.readiness import missing_of

    missing = asyncio.run(missing_of(load_settings(), role, pid, since))
    if missing is not None:
        typer.echo(missing, err=True)
        raise typer.Exit(1)


@app.command(rich_help_panel="Run Moorage")
def keep() -> None:
    """For the service: prepare this machine for the roles, and keep its database running."""
    from moorage.entrypoints.service.keep import keep as run_keep
    from moorage.entrypoints.service.places import Installation

    settings = load_settings()
    configure_logging(settings.log_level, as_json=settings.log_format == "json")
    asyncio.run(run_keep(settings, _say, Installation()))


@app.command(rich_help_panel="Run Moorage")
def config() -> None:
    """Print the effective settings with secrets masked."""
    typer.echo(json.dumps(masked(load_settings()), indent=2))


@app.command("sign-in-link", rich_help_panel="Run Moorage")
def sign_in_link() -> None:
    """Print a new one-time link for the operator."""
    from moorage.entrypoints.foundation import new_sign_in_link

    typer.echo(asyncio.run(new_sign_in_link(load_settings())))


def _look_at_host(session: Session) -> None:
    from moorage.entrypoints.host_doctor import look_at_host

    look_at_host(session)


def main() -> None:
    doctor.look_at_host = _look_at_host
    # A traceback in a log file is for reading, not for a terminal's frames and colours.
    app.pretty_exceptions_enable = False
    try:
        app()
    except MoorageError as error:
        typer.echo(f"moor: {error.message}", err=True)
        sys.exit(EXIT_WRONG_USE)


def _confirmation(yes: bool) -> Callable[[str], None]:
    def confirm(question: str) -> None:
        if not yes:
            typer.confirm(question, abort=True)

    return confirm


def _say(line: str) -> None:
    typer.echo(line)


if __name__ == "__main__":
    main()
