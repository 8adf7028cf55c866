"""`moor sessions list` and `end`."""

from typing import Annotated

import typer

from moorage_cli.command import command
from moorage_cli.errors import UsageError
from moorage_cli.session import Session
from moorage_cli.times import shown_time

app = typer.Typer(help="Where you are signed in.", no_args_is_help=True)


@command(app, "list")
def list_them(session: Session) -> None:
    """List where you are signed in, most recently used first."""
    items = session.api.list_sessions()["items"]
    if session.output.as_json:
        session.output.result(items)
        return
    rows = [
        [
            "*" if one["current"] else "",
            one["client"],
            shown_time(one["last_used_at"]),
            shown_time(one["expires_at"]),
            one["id"],
        ]
        for one in items
    ]
    session.output.table(("", "CLIENT", "LAST USED", "UNTIL", "ID"), rows, "You have no sessions.")


@command(app, "end")
def end(
    session: Session,
    session_id: Annotated[str | None, typer.Argument(metavar="ID", help="Which one.")] = None,
    others: Annotated[bool, typer.Option("--others", help="End all sessions but this one.")] = False,
) -> None:
    """Sign out elsewhere: one session, or all others."""
    if (session_id is None) == (not others):
        raise UsageError("Give a session's id or --others.")
    if session_id is None:
        session.api.end_other_sessions()
    else:
        session.api.end_session(session_id)
    session.output.answer({"ended": session_id or "others"}, f"Ended {session_id or 'all other sessions'}.")
