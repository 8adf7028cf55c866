"""`moor versions` and `moor rollback`: what a container's settings were, what became of them, and the way back."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.command import ContainerArgument, command
from moorage_cli.commands.containers import NoWaitOption
from moorage_cli.commands.outcome import report_deployment, wait_for_deployment, waiting
from moorage_cli.errors import CliError, UsageError
from moorage_cli.session import Session
from moorage_cli.waiting import wait_until_applied

if TYPE_CHECKING:
    from moorage_cli.api.types import Container, Version

_MASK = "***"


def register(app: typer.Typer) -> None:
    command(app)(versions)
    command(app)(rollback)


def versions(session: Session, container: ContainerArgument) -> None:
    """List every version of a container's settings, newest first: who made it, when, what changed, and what became of
    it."""
    found = session.container(container)
    listed = list(session.api.list_versions(found["id"]))
    if session.output.as_json:
        session.output.result(listed)
        return
    rows = [
        [
            str(one["version"]),
            _outcome(found, one),
            _changes(one),
            _short(one["digest"]),
            one["strategy"] or "-",
            one["created_by"],
            one["created_at"][:16].replace("T", " "),
            _lasted(one["served_s"]),
        ]
        for one in listed
    ]
    heads = ("VERSION", "OUTCOME", "CHANGED", "DIGEST", "STRATEGY", "BY", "WHEN (UTC)", "SERVED")
    session.output.table(heads, rows, "There are no versions.")
    for one in listed:
        if one["reason"]:
            session.output.line(f"Version {one['version']}: {one['reason']}")


def rollback(
    session: Session,
    container: ContainerArgument,
    version: Annotated[
        int | None,
        typer.Argument(metavar="VERSION", help="See `moor versions`. Default: the one that served before."),
    ] = None,
    no_wait: NoWaitOption = False,
) -> None:
    """Roll back to a version, without an outage: its settings, its secrets and the exact image that it ran.

    During an update this goes back at once to the version that still serves.
    """
    found = session.container(container)
    wanted = version if version is not None else _before(session, found)
    started = session.api.roll_back(found["id"], {"version": wanted})
    session.output.note(f"{found['name']} goes back to version {wanted}.")
    if no_wait:
        session.output.answer(started, f"{started['name']} is {started['state']}.")
        return
    if started["rollout"] is None:
        report_deployment(session, wait_for_deployment(session, started))
        return
    ended = waiting(session, started, wait_until_applied, "It still goes back.")
    assert ended is not None, "wait_until_applied gives the container back"
    failure = ended["draft"] and ended["draft"]["failure"]
    if failure and failure["reason"] != "rolled_back":
        if session.output.as_json:
            session.output.result(ended)
        raise CliError(
            f"Version {wanted} did not start ({failure['reason']}), so {found['name']} runs as before. "
            f"{failure['message']}",
            code=failure["reason"],
            hint=f"See `moor versions {shlex.quote(found['name'])}`.",
        )
    report_deployment(session, ended)


def _before(session: Session, found: "Container") -> int:
    if found["rollout"] is not None:
        return int(found["rollout"]["from_version"])
    for one in session.api.list_versions(found["id"]):
        if one["can_roll_back"] and one["outcome"] == "replaced" and one["served_s"] > 0:
            return int(one["version"])
    raise UsageError(f"No other version of {found['name']} has served. Name one of `moor versions`.")


def _outcome(found: "Container", one: "Version") -> str:
    rollout = found["rollout"]
    if rollout is not None and rollout["version"] == one["version"]:
        figures = f", {one['errors']} of {one['answers']} answers failed" if one["answers"] else ""
        share = f", {rollout['share']} % of the requests" if rollout.get("share") else ""
        return f"on trial{share}{figures}"
    return one["outcome"] or "-"


def _changes(one: "Version") -> str:
    if not one["changes"]:
        return "created" if one["version"] == 1 else "-"
    return ", ".join(
        f"{change['field']} changed"
        if _MASK in (change["from"], change["to"])
        else f"{change['field']}: {_value(change['from'])} → {_value(change['to'])}"
        for change in one["changes"]
    )


def _value(value: object) -> str:
    return "-" if value is None else str(value)


def _short(digest: str | None) -> str:
    return "-" if digest is None else f"{digest[:11]}…{digest[-4:]}"


def _lasted(seconds: float) -> str:
    if seconds <= 0:
        return "never"
    for unit, each in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= each:
            return f"{seconds / each:.1f} {unit}"
    return f"{seconds:.0f} s"
