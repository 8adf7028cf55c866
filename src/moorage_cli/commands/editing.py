"""`moor fix`: change a container's settings, and start it with them."""

import typer

from moorage_cli.client import Record
from moorage_cli.command import ContainerArgument, command
from moorage_cli.commands.containers import NoWaitOption
from moorage_cli.commands.outcome import report_deployment, wait_for_deployment
from moorage_cli.errors import CliError
from moorage_cli.session import Session


def register(app: typer.Typer) -> None:
    command(app)(fix)


def fix(session: Session, container: ContainerArgument, no_wait: NoWaitOption = False) -> None:
    """Accept the fix that a failed container offers, and start it again."""
    found = session.container(container)
    offered = found["fix"]
    if offered is None:
        raise CliError(
            f"{found['name']} offers no fix: the mend is not a setting that Moorage could guess.",
            code="no_fix",
            hint="See `moor describe`, then change its settings and start it.",
        )
    # With what was read just now, so that nothing else is accepted than what is shown here.
    started: Record = session.client.post(f"/containers/{found['id']}/fix", offered)
    session.output.note(
        f"Changed {offered['field']} from {offered['from']} to {offered['to']}; starting {found['name']}."
    )
    if no_wait:
        _show_state(session, started)
    else:
        report_deployment(session, wait_for_deployment(session, started))


def _show_state(session: Session, container: Record) -> None:
    if session.output.as_json:
        session.output.result(container)
    else:
        session.output.line(f"{container['name']} is {container['state']}.")
