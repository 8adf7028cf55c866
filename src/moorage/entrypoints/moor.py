"""The `moor` command: the CLI over HTTP, and the commands that run Moorage on this machine."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

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
def backup(file: Annotated[Path, typer.Argument(help="Where to write it; must not exist.")]) -> None:
    """Write the whole database into one file, while everything runs. Keep `secret-keys` of the data folder as well."""
    from moorage.entrypoints.backup import backup as run_backup

    if file.exists():
        raise SettingsError(f"{file} exists already. Name another file.")
    asyncio.run(run_backup(load_settings(), file))
    _say(f"The database is in {file}.")


@app.command(rich_help_panel="Run Moorage")
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `moor backup` wrote.", exists=True)],
) -> None:
    """Read such a file into a database that is empty, and bring it to this version's tables."""
    from moorage.entrypoints.backup import restore as run_restore
    from moorage.entrypoints.migrate import migrate as run_migrate
    from moorage.kit.postgres import database_dsn

    async def run() -> None:
        settings = load_settings()
        await run_restore(settings, file)
        await run_migrate(database_dsn(settings))

    asyncio.run(run())
    _say("The database is restored and at this version.")


@app.command(rich_help_panel="Run Moorage")
def config() -> None:
    """Print the effective settings, secrets masked."""
    typer.echo(json.dumps(masked(load_settings()), indent=2))


@app.command("sign-in-link", rich_help_panel="Run Moorage")
def sign_in_link() -> None:
    """Print a new one-time link for the operator."""
    from moorage.entrypoints.bootstrap import operator_sign_in_link
    from moorage.kit.database import Database
    from moorage.kit.postgres import database_dsn

    async def make() -> str:
        settings = load_settings()
        database = Database(database_dsn(settings), pool_size=2)
        try:
            async with database.transaction() as session:
                return await operator_sign_in_link(session, settings)
        finally:
            await database.close()

    typer.echo(asyncio.run(make()))


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


def _say(line: str) -> None:
    typer.echo(line)


if __name__ == "__main__":
    main()
