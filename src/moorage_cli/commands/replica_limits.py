"""`moor replica-limit …` for whoever deploys, `moor operator replica-limit …` for whoever decides."""

from typing import Annotated

import typer

from moorage_cli.client import Record
from moorage_cli.command import command
from moorage_cli.session import Session, path_part
from moorage_cli.times import shown_time

app = typer.Typer(help="More replicas than the project may have.", no_args_is_help=True)
operator_app = typer.Typer(help="Requests for more replicas.", no_args_is_help=True)
RequestArgument = Annotated[str, typer.Argument(metavar="REQUEST", help="Its id, rlr_….")]
AnswerOption = Annotated[str | None, typer.Option("--answer", help="A word to whoever asked.")]


@command(app, "ask")
def ask(
    session: Session,
    replicas: Annotated[int, typer.Argument(min=1, help="The most that one container should have.")],
    note: Annotated[str | None, typer.Option("--note", help="Why they are needed.")] = None,
) -> None:
    """Ask the operator for more replicas ahead of a deployment; a deployment asks by itself."""
    path = f"/projects/{session.project['id']}/replica-limit-requests"
    made: Record = session.client.post(path, {"replicas": replicas, "note": note})
    if session.output.as_json:
        session.output.result(made)
    else:
        session.output.line(
            f"Asked for {replicas} replicas: {made['id']}. `moor replica-limit list` shows the answer."
        )


@command(app, "list")
def list_own(session: Session) -> None:
    """List what the project asked for, and the answers."""
    _list(session, f"/projects/{session.project['id']}/replica-limit-requests", None)


@command(operator_app, "list")
def list_all(
    session: Session,
    everything: Annotated[bool, typer.Option("--all", help="Also what is decided.")] = False,
) -> None:
    """List what waits for a decision."""
    _list(session, "/operator/replica-limit-requests", None if everything else "pending")


@command(operator_app, "grant")
def grant(session: Session, request: RequestArgument, answer: AnswerOption = None) -> None:
    """Raise the project's limit; what waits for it goes on by itself."""
    _decide(session, request, "approve", answer)


@command(operator_app, "refuse")
def refuse(session: Session, request: RequestArgument, answer: AnswerOption = None) -> None:
    """Leave the limit as it is."""
    _decide(session, request, "refuse", answer)


def _list(session: Session, path: str, state: str | None) -> None:
    items = list(session.client.pages(path, {"state": state} if state else None))
    if session.output.as_json:
        session.output.result(items)
        return
    rows = [
        [
            one["id"],
            one["state"],
            str(one["replicas"]),
            one["container_id"] or "any",
            one["project_id"],
            shown_time(one["created_at"]),
            one["note"] or "",
            one["answer"] or "",
        ]
        for one in items
    ]
    columns = ("REQUEST", "STATE", "REPLICAS", "CONTAINER", "PROJECT", "ASKED", "NOTE", "ANSWER")
    session.output.table(columns, rows, "Nobody asked for more replicas.")


def _decide(session: Session, request: str, verb: str, answer: str | None) -> None:
    path = f"/operator/replica-limit-requests/{path_part(request)}/{verb}"
    decided: Record = session.client.post(path, {"answer": answer})
    if session.output.as_json:
        session.output.result(decided)
        return
    limit = decided["current_limit"]
    session.output.line(
        f"{decided['id']} is {decided['state']}; a container of the project may have {limit}."
    )
