"""`moor replica-limit …` for whoever deploys, `moor operator replica-limit …` for whoever decides."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.command import command
from moorage_cli.session import Session
from moorage_cli.times import shown_time

if TYPE_CHECKING:
    from moorage_cli.api.types import OperatorReplicaLimitRequest, ReplicaLimitRequest

app = typer.Typer(help="Ask for more replicas than the project may have.", no_args_is_help=True)
operator_app = typer.Typer(help="Requests for more replicas.", no_args_is_help=True)
RequestArgument = Annotated[str, typer.Argument(metavar="REQUEST", help="Its id, rlr_….")]
AnswerOption = Annotated[str | None, typer.Option("--answer", help="A note to whoever asked.")]


@command(app, "ask")
def ask(
    session: Session,
    replicas: Annotated[int, typer.Argument(min=1, help="The most that one container should have.")],
    note: Annotated[str | None, typer.Option("--note", help="Why they are needed.")] = None,
) -> None:
    """Ask the operator for more replicas before you deploy. A deployment over the limit asks by itself."""
    made = session.api.request_limit(session.project["id"], {"replicas": replicas, "note": note})
    if session.output.as_json:
        session.output.result(made)
    else:
        session.output.line(
            f"Asked for {replicas} replicas: {made['id']}. `moor replica-limit list` shows the answer."
        )


@command(app, "list")
def list_own(session: Session) -> None:
    """List what the project asked for, and the answers."""
    _list(session, list(session.api.list_limit_requests(session.project["id"])))


@command(operator_app, "list")
def list_all(
    session: Session,
    everything: Annotated[bool, typer.Option("--all", help="Include decided requests.")] = False,
) -> None:
    """List requests that wait for a decision."""
    _list(session, list(session.api.list_all_limit_requests(state=None if everything else "pending")))


@command(operator_app, "grant")
def grant(session: Session, request: RequestArgument, answer: AnswerOption = None) -> None:
    """Raise the project's limit. Deployments that wait for it continue by themselves."""
    _say(session, session.api.approve_limit_request(request, {"answer": answer}))


@command(operator_app, "refuse")
def refuse(session: Session, request: RequestArgument, answer: AnswerOption = None) -> None:
    """Refuse a request. The limit stays."""
    _say(session, session.api.refuse_limit_request(request, {"answer": answer}))


def _list(session: Session, items: "Sequence[ReplicaLimitRequest | OperatorReplicaLimitRequest]") -> None:
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
    session.output.table(columns, rows, "Nobody has asked for more replicas.")


def _say(session: Session, decided: "OperatorReplicaLimitRequest") -> None:
    if session.output.as_json:
        session.output.result(decided)
        return
    limit = decided["current_limit"]
    session.output.line(
        f"{decided['id']} is {decided['state']}; a container of the project may have {limit}."
    )
