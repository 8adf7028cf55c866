"""`moor update` and `moor canary`: a new version beside the one that serves, and what becomes of it."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.command import ContainerArgument, command
from moorage_cli.commands.containers import NoWaitOption
from moorage_cli.commands.editing import apply_draft, body_of, given_up
from moorage_cli.commands.outcome import report_deployment, waiting
from moorage_cli.commands.scaling import ShowUnlessTold
from moorage_cli.errors import CliError, UsageError
from moorage_cli.session import Session
from moorage_cli.waiting import wait_until_applied, wait_until_canary_serves

if TYPE_CHECKING:
    from moorage_cli.api.types import ApplyRequest, CanaryRequest, Container, RolloutRead, Version

app = typer.Typer(
    cls=ShowUnlessTold,
    no_args_is_help=True,
    help="Canaries: compare a new version with the present one on a share of the requests, then promote or abort it.",
)
PromoteAfterOption = Annotated[
    int | None,
    typer.Option(
        "--promote-after",
        metavar="MINUTES",
        min=1,
        max=1440,
        help="Promote it once it has served well for this long. Default: you decide.",
    ),
]
_SECONDS = 60


def register(parent: typer.Typer) -> None:
    command(parent)(update)


def update(
    session: Session,
    container: ContainerArgument,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="As for `moor edit`.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="A file of settings in TOML, as for `moor deploy`.")
    ] = None,
    canary: Annotated[
        int | None,
        typer.Option(
            min=1, max=50, metavar="PERCENT", help="Percentage of requests that the new version gets."
        ),
    ] = None,
    promote_after: PromoteAfterOption = None,
    no_wait: NoWaitOption = False,
) -> None:
    """Apply new settings, or the draft, without an outage. The old version serves until the new one has served well.

    With --canary the new version gets a share of the requests until it is promoted or aborted.
    """
    if promote_after is not None and canary is None:
        raise UsageError("--promote-after needs --canary.")
    found = session.container(container)
    body = body_of(session, found, changes, file)
    if body:
        session.api.save_draft(found["id"], body)
    if canary is None:
        apply_draft(session, found, "rolling", no_wait)
        return
    wanted: ApplyRequest = {"strategy": "canary", "share": canary}
    if promote_after is not None:
        wanted["promote_after_s"] = promote_after * _SECONDS
    applied = session.api.apply_draft(found["id"], wanted)
    if not no_wait and applied["rollout"] is not None:
        ended = waiting(session, applied, wait_until_canary_serves, "The canary still starts.")
        assert ended is not None, "wait_until_canary_serves gives the container back"
        given_up(session, ended)
        applied = ended
    _show(session, applied)


@command(app)
def show(session: Session, container: ContainerArgument) -> None:
    """Show both versions side by side."""
    found = session.container(container)
    _refuse_without(found)
    _show(session, found)


@command(app)
def share(
    session: Session,
    container: ContainerArgument,
    percent: Annotated[int, typer.Argument(min=1, max=50, metavar="PERCENT")],
    promote_after: PromoteAfterOption = None,
) -> None:
    """Change the canary's share of the requests."""
    found = session.container(container)
    body: CanaryRequest = {"share": percent}
    if promote_after is not None:
        body["promote_after_s"] = promote_after * _SECONDS
    _show(session, session.api.change_canary(found["id"], body))


@command(app)
def promote(session: Session, container: ContainerArgument, no_wait: NoWaitOption = False) -> None:
    """Let the canary take over, without an outage."""
    found = session.container(container)
    promoted = session.api.promote_canary(found["id"])
    _end(session, promoted, "The canary still takes over.", no_wait=no_wait)


@command(app)
def abort(session: Session, container: ContainerArgument, no_wait: NoWaitOption = False) -> None:
    """Stop the canary. The other version serves all requests, and the draft is kept."""
    found = session.container(container)
    aborted = session.api.abort_canary(found["id"])
    _end(session, aborted, "The canary still stops.", no_wait=no_wait)


def _end(session: Session, container: "Container", meanwhile: str, *, no_wait: bool) -> None:
    if no_wait:
        session.output.answer(container, f"{container['name']} is {container['state']}.")
        return
    ended = waiting(session, container, wait_until_applied, meanwhile)
    assert ended is not None, "wait_until_applied gives the container back"
    given_up(session, ended, but="rolled_back")
    report_deployment(session, ended)


def _refuse_without(found: "Container") -> None:
    if found["rollout"] is None or found["rollout"]["strategy"] != "canary":
        raise CliError(
            f"{found['name']} has no canary.",
            code="no_canary",
            hint=f"Begin one with `moor update {shlex.quote(found['name'])} --canary 10`.",
        )


def _show(session: Session, container: "Container") -> None:
    if session.output.as_json:
        session.output.result(container)
        return
    rollout, name = container["rollout"], shlex.quote(container["name"])
    if rollout is None:
        session.output.line(f"{container['name']} is {container['state']}.")
        return
    both = (rollout["from_version"], rollout["version"])
    listed = session.api.list_versions(container["id"])
    found = {one["version"]: one for one in listed if one["version"] in both}
    rows = [_row(found[number], number == rollout["version"], rollout) for number in both if number in found]
    heads = ("VERSION", "SHARE", "ANSWERS", "ERRORS", "P50 (MS)", "P95 (MS)", "REPLICAS")
    session.output.table(heads, rows, "")
    after_s = rollout["promote_after_s"]
    by = f"It takes over after {after_s / _SECONDS:g} min without trouble, or w" if after_s else "W"
    session.output.line(f"{by}ith `moor canary promote {name}`; `moor canary abort {name}` ends it.")


def _row(one: "Version", on_trial: bool, rollout: "RolloutRead") -> list[str]:
    share = rollout["share"] or 0
    percent = share if on_trial else 100 - share
    answers, errors = one["answers"] or 0, one["errors"] or 0
    return [
        str(one["version"]),
        f"{percent} %",
        f"{answers:,}",
        f"{100 * errors / answers:.2f} %" if answers else "-",
        *(
            "-" if one[name] is None else f"{one[name]:,.0f}"
            for name in ("response_p50_ms", "response_p95_ms")
        ),
        str(one["replicas_ready"]),
    ]
