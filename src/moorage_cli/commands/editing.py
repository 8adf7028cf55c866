"""`moor fix` and `moor edit`: change a container's settings, and start it with them."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from moorage_cli.amounts import shown_price
from moorage_cli.command import ContainerArgument, command
from moorage_cli.commands.containers import NoWaitOption
from moorage_cli.commands.outcome import report_deployment, wait_for_deployment, waiting
from moorage_cli.container_file import load_container_file
from moorage_cli.errors import CliError, UsageError
from moorage_cli.session import Session
from moorage_cli.settings_changes import changes_of
from moorage_cli.waiting import wait_until_applied

if TYPE_CHECKING:
    from moorage_cli.api.types import (
        ApplyRequest,
        Container,
        ContainerPatch,
        Draft,
        RollingNeeds,
        SettingsPatch,
    )


def register(app: typer.Typer) -> None:
    command(app)(edit)
    command(app)(fix)


def edit(
    session: Session,
    container: ContainerArgument,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help=(
                "A setting, e.g. port=9000 or env.TOKEN=…; repeatable. Empty means none. env.TOKEN alone "
                "takes the value from your shell."
            ),
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="A file of settings in TOML, as for `moor deploy`.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Apply the draft.")] = False,
    strategy: Annotated[
        str,
        typer.Option(
            help="With --apply: `replace` stops and starts it; `rolling` lets the old version serve until the new one "
            "has served well for a while. A canary is begun with `moor update`."
        ),
    ] = "replace",
    discard: Annotated[bool, typer.Option("--discard", help="Discard the draft.")] = False,
    no_wait: NoWaitOption = False,
) -> None:
    """Change settings: at once while a container is stopped, as a draft while it runs. Without --set, show the draft.

    If an applied draft does not become healthy, the previous settings come back.
    """
    found = session.container(container)
    body = body_of(session, found, changes, file)
    if discard:
        if body or apply:
            raise UsageError("--discard goes with no other option.")
        session.api.discard_draft(found["id"])
        session.output.note(f"Discarded the draft of {found['name']}.")
        return
    if body and found["state"] in ("STOPPED", "FAILED"):
        found = session.api.edit_container(found["id"], cast("ContainerPatch", body))
        _after_edit(session, found, start=apply, no_wait=no_wait)
        return
    draft = session.api.save_draft(found["id"], body) if body else session.api.get_draft(found["id"])
    if not apply:
        _show_draft(session, found, draft)
        return
    if not session.output.as_json:
        _show_changes(session, draft)
    apply_draft(session, found, strategy, no_wait)


def fix(session: Session, container: ContainerArgument, no_wait: NoWaitOption = False) -> None:
    """Accept the fix that a failed container offers, and start it again."""
    found = session.container(container)
    offered = found["fix"]
    if offered is None:
        why = "Moorage knows no setting that would help"
        if found["state"] != "FAILED":
            why = f"it has not failed; it is {found['state']}"
        raise CliError(
            f"{found['name']} offers no fix: {why}.",
            code="no_fix",
            hint="See `moor describe`, then change its settings with `moor edit`.",
        )
    # With what was read just now, so that nothing else is accepted than what is shown here.
    started = session.api.apply_fix(found["id"], offered)
    session.output.note(
        f"Changed {offered['field']} from {offered['from']} to {offered['to']}; starting {found['name']}."
    )
    _started(session, started, no_wait)


def body_of(
    session: Session, found: "Container", changes: list[str] | None, file: Path | None
) -> "SettingsPatch":
    body = load_container_file(file, session.environment) if file is not None else {}
    body.pop("name", None)
    # The API says what is wrong with a file's settings better than a type could.
    return cast("SettingsPatch", {**body, **changes_of(changes or [], found, session.environment)})


def _after_edit(session: Session, edited: "Container", *, start: bool, no_wait: bool) -> None:
    if start:
        _started(session, session.api.start_container(edited["id"]), no_wait)
    elif session.output.as_json:
        session.output.result(edited)
    else:
        name = shlex.quote(edited["name"])
        session.output.line(f"Changed. Start it with `moor start {name}`.")


def apply_draft(session: Session, found: "Container", strategy: str, no_wait: bool) -> None:
    # The API knows which strategies there are, and says so.
    applied = session.api.apply_draft(found["id"], cast("ApplyRequest", {"strategy": strategy}))
    if no_wait:
        _show_state(session, applied)
        return
    if applied["draft"] is None:
        report_deployment(session, wait_for_deployment(session, applied))
        return
    ended = waiting(session, applied, wait_until_applied, "The draft is still being applied.")
    assert ended is not None, "wait_until_applied gives the container back"
    given_up(session, ended)
    report_deployment(session, ended)


def given_up(session: Session, ended: "Container", *, but: str | None = None) -> None:
    """Says so if the new settings were, for another reason than this."""
    failure = ended["draft"] and ended["draft"]["failure"]
    if failure and failure["reason"] != but:
        if session.output.as_json:
            session.output.result(ended)
        raise CliError(
            f"The new settings failed ({failure['reason']}), so {ended['name']} runs with the previous ones. "
            f"{failure['message']}",
            code=failure["reason"],
            hint="The draft is kept. Fix it with `moor edit --set`, or discard it with --discard.",
        )


def _started(session: Session, started: "Container", no_wait: bool) -> None:
    if no_wait:
        _show_state(session, started)
    else:
        report_deployment(session, wait_for_deployment(session, started))


def _show_state(session: Session, container: "Container") -> None:
    session.output.answer(container, f"{container['name']} is {container['state']}.")


def _show_draft(session: Session, found: "Container", draft: "Draft") -> None:
    if session.output.as_json:
        session.output.result(draft)
        return
    _show_changes(session, draft)
    failure = draft["failure"]
    if failure:
        session.output.line(f"The last try failed ({failure['reason']}): {failure['message']}")
    if draft["applying"]:
        session.output.line("It is being applied.")
    elif draft["changes"]:
        name = shlex.quote(found["name"])
        session.output.line(
            f"Apply it with `moor edit {name} --apply`, which stops and starts {found['name']}; with "
            f"`--strategy rolling` {_needs(draft['rolling'])}."
        )


def _show_changes(session: Session, draft: "Draft") -> None:
    rows = [[one["field"], _value(one["from"]), _value(one["to"])] for one in draft["changes"]]
    session.output.table(("SETTING", "FROM", "TO"), rows, "There is no draft: nothing would change.")
    cost = draft["least_cost_per_hour_microusd"]
    if rows:
        before, after = shown_price(cost["from"]), shown_price(cost["to"])
        changed = f"{before} → {after}" if before != after else f"{after}, as before"
        session.output.line(f"USD per hour, at least: {changed}")


def _needs(rolling: "RollingNeeds") -> str:
    cost = rolling["cost_microusd"]
    paid = f"costs USD {shown_price(cost)} for its first hours" if cost else "costs nothing more"
    room = "there is room" if rolling["room_for"] >= rolling["beside_at_least"] else "there is no room now"
    return f"both versions serve side by side for a while, which {paid}; {room} for it"


def _value(value: object) -> str:
    return "-" if value is None else str(value)
