"""`moor status`: does Moorage serve, and is all well?"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from moorage_cli.amounts import shown_bytes
from moorage_cli.api.calls import Api
from moorage_cli.client import ApiClient
from moorage_cli.command import command
from moorage_cli.errors import ApiError, CliError, ExitCode
from moorage_cli.output import Output
from moorage_cli.session import Session
from moorage_cli.times import parse_time, shown_age

if TYPE_CHECKING:
    from moorage_cli.api.types import Health, InstallationStatus, PartRead

    class Parts(InstallationStatus):
        health: Health


Rows = list[list[str | Text]]
STYLES = {"ok": "green", "warning": "yellow", "failing": "bold red"}


def register(app: typer.Typer) -> None:
    command(app)(status)


def status(session: Session) -> None:
    """Show whether Moorage is ready, and to the operator the state of each part. Exit codes: 0 ready, 3 not ready, 4
    unreachable."""
    # Without retries: somebody wants to know how it is now.
    client = ApiClient(session.url, session.token, retry_for_s=0)
    try:
        is_ready = client.is_ready()
        parts, why_not = _operator_status(client, session.token)
    finally:
        client.close()
    if session.output.as_json:
        session.output.result({"url": session.url, "ready": is_ready, "operator": parts})
    else:
        _show(session, is_ready, parts)
        if why_not is not None:
            session.output.note(why_not)
    if not is_ready:
        raise typer.Exit(ExitCode.NOT_READY)


def _operator_status(client: ApiClient, token: str | None) -> "tuple[Parts | None, str | None]":
    if token is None:
        return None, "To see the parts, sign in as the operator (`moor login`)."
    try:
        api = Api(client)
        return {**api.operator_status(), "health": api.operator_health()}, None
    except ApiError as exc:
        if exc.exit_code is ExitCode.FORBIDDEN:
            return None, None
        return None, f"The parts cannot be shown: {exc.message}"
    except CliError as exc:
        # Ready or not is known by now, and is what was asked for.
        return None, f"The parts cannot be shown: {exc.message}"


def _show(session: Session, is_ready: bool, parts: "Parts | None") -> None:
    output = session.output
    verdict = Text("ready", style="green") if is_ready else Text("not ready", style="bold red")
    pairs: list[tuple[str, str | Text]] = [("Moorage", session.url), ("status", verdict)]
    if parts is not None:
        pairs.insert(1, ("version", parts["version"]))
        counts = ", ".join(f"{count} {state}" for state, count in sorted(parts["containers"].items()))
        state = parts["health"]["state"]
        pairs += [("health", Text(state, style=STYLES.get(state, ""))), ("containers", counts or "none")]
    output.pairs(pairs)
    if parts is not None:
        output.line()
        _show_health(output, parts["health"]["parts"])
        _show_parts(output, parts)


def _show_health(output: Output, parts: "list[PartRead]") -> None:
    now = datetime.now(UTC)
    rows: Rows = [
        [
            one["name"],
            Text(one["state"], style=STYLES.get(one["state"], "")),
            f"{shown_age(parse_time(one['since']), now)} ago" if one["since"] else "-",
            one["message"],
        ]
        for one in parts
    ]
    output.table(("PART", "STATE", "SINCE", "MESSAGE"), rows, "There are no parts.")
    for one in parts:
        if one["what_to_do"]:
            output.note(f"{one['name']}: {one['what_to_do']}")


def _show_parts(output: Output, parts: "Parts") -> None:
    now = datetime.now(UTC)
    gateways: Rows = [
        [
            one["id"],
            _ok(one["alive"]),
            f"{shown_age(parse_time(one['seen_at']), now)} ago",
            str(one["servers"]),
        ]
        for one in parts["gateways"]
    ]
    nodes: Rows = [
        [
            one["name"],
            f"{one['cpu_millis'] / 1000:g}",
            shown_bytes(one["memory_bytes"]),
            ", ".join(gpu["model"] for gpu in one["gpus"]) or "-",
        ]
        for one in parts["nodes"]
    ]
    sections: list[tuple[tuple[str, ...], Rows]] = [
        (("GATEWAY", "STATUS", "SEEN", "SERVERS"), gateways),
        (("MACHINE", "VCPU", "MEMORY", "GPUS"), nodes),
    ]
    for columns, rows in sections:
        if rows:  # the checks above say what is missing
            output.line()
            output.table(columns, rows, "")


def _ok(is_ok: bool) -> Text:
    return Text("ok", style="green") if is_ok else Text("failing", style="bold red")
