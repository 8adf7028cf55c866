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
        bool, typer.Option("--in-container", help="As the first process of a gateway's container.")
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
    """Bring the database to this version's tables. One of an earlier version is first written to the data folder."""
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
        typer.Option("--accept-keys", help="Go on with other secret keys; what was sealed stays sealed."),
    ] = False,
) -> None:
    """Make a new installation, or bring one to this version, so that every role can start. Safe to repeat."""
    from moorage.entrypoints.bootstrap_job import bootstrap_installation

    job = bootstrap_installation(
        load_settings(), _say, wait_s=wait, dump_first=not without_dump, accept=accept_keys
    )
    asyncio.run(job)


@app.command("new-keys", rich_help_panel="Run Moorage")
def new_keys(folder: Annotated[Path, typer.Argument(help="Gets `secret-keys` and `operator-key`.")]) -> None:
    """Make the keys that copies of one installation share, to be mounted into each. Overwrites none."""
    from moorage.entrypoints.bootstrap import make_keys

    for file in make_keys(folder):
        _say(f"Made {file}.")


@app.command(rich_help_panel="Run Moorage")
def backup(
    file: Annotated[Path | None, typer.Argument(help="Where to write the database; must not exist.")] = None,
) -> None:
    """Write the database into FILE; or, without one, the database, the keys and the settings, encrypted, into the folder for backups. While
    everything runs."""
    from moorage.entrypoints.backup import backup as run_backup
    from moorage.entrypoints.full_backup import back_up_everything

    if file is None:
        written, gone = asyncio.run(back_up_everything(load_settings()))
        for old in gone:
            _say(f"Removed {old}, which was old.")
        _say(f"Everything is in {written}, for the recovery key alone.")
        return
    if file.exists():
        raise SettingsError(f"{file} exists already. Name another file.")
    asyncio.run(run_backup(load_settings(), file))
    _say(f"The database is in {file}. Keep `secret-keys` of the data folder as well.")


@app.command(rich_help_panel="Run Moorage")
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `moor backup` wrote.", exists=True)],
    key: Annotated[
        Path | None, typer.Option(help="The file of the recovery key, for an encrypted backup.", exists=True)
    ] = None,
) -> None:
    """Read such a file into a database that is empty, and bring it to this version's tables."""
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
                _say(f"Put back {target}.")
        await run_migrate(database_dsn(settings))

    asyncio.run(run())
    _say("The database is restored and at this version.")


@app.command(rich_help_panel="Run Moorage")
def install(yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Make Moorage a service of this machine, or repair what is missing of it. Says first what it will do. As root."""
    from moorage.entrypoints.service.install import install as run_install

    asyncio.run(run_install(_say, _confirmation(yes)))


@app.command(rich_help_panel="Run Moorage")
def uninstall(
    data: Annotated[
        Literal["keep", "remove"],
        typer.Option(help="What becomes of the data folder, the settings and the backups."),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Stop the service and take it off this machine. Says first what it will do. As root."""
    from moorage.entrypoints.service.install import uninstall as run_uninstall

    asyncio.run(run_uninstall(_say, _confirmation(yes), with_data=data == "remove"))


@app.command(rich_help_panel="Run Moorage")
def upgrade(
    wanted: Annotated[
        str | None,
        typer.Argument(
            metavar="[VERSION | FILE]",
            help="A version in /opt/moorage/versions, or the file of a wheel, a Debian package or a bundle; the newest there by default.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    older: Annotated[bool, typer.Option("--older", help="To a version before the one that runs.")] = False,
    within: Annotated[
        float, typer.Option(help="Seconds that each role may take to serve before all goes back.", min=5)
    ] = 120,
) -> None:
    """Bring the service to another version while endpoints answer, and back by itself if that one does not serve. Says first what it
    will do. As root."""
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
    pid: Annotated[int, typer.Option(help="Of its process.")],
    since: Annotated[float, typer.Option(help="When it was asked to start, in seconds since 1970.")],
) -> None:
    """For an upgrade: whether a role of this version serves; else what is missing."""
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
    """Print the effective settings, secrets masked."""
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
