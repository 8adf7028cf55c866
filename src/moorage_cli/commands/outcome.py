"""How waiting for a container ends: the words, the exit code, and the way on."""

import shlex
from collections.abc import Callable

import typer

from moorage_cli.client import ApiClient, Record
from moorage_cli.errors import CliError, ExitCode
from moorage_cli.progress import ProgressDisplay
from moorage_cli.session import Session
from moorage_cli.terminal_text import plain
from moorage_cli.waiting import wait_until_running

LAST_LINES = 10

Wait = Callable[[ApiClient, Record, ProgressDisplay], Record | None]


def wait_for_deployment(session: Session, container: Record) -> Record:
    waited = waiting(session, container, wait_until_running, "The deployment goes on without you.")
    assert waited is not None, "wait_until_running gives the container back"
    return waited


def waiting(session: Session, container: Record, wait: Wait, goes_on: str) -> Record | None:
    """Ctrl-C ends the watching, not what is watched."""
    try:
        with ProgressDisplay(session.output) as display:
            return wait(session.client, container, display)
    except KeyboardInterrupt:
        name = shlex.quote(container["name"])
        session.output.note(f"{goes_on} Follow it with `moor describe {name}` or `moor logs -f {name}`.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def report_deployment(session: Session, container: Record) -> None:
    output = session.output
    if output.as_json:
        output.result(container)
    if container["state"] != "RUNNING":
        if not output.as_json:
            show_last_lines(session, container)
        raise failure(container)
    if output.as_json:
        return
    output.line(f"{container['name']} is RUNNING.", style="green")
    output.line(f"Endpoint: {container['endpoint_url']}")
    output.line()
    output.block(
        "export MOORAGE_API_KEY=$(moor keys create)\n"
        f"curl {container['endpoint_url']}/api/v1/chat/completions \\\n"
        '  -H "Authorization: Bearer $MOORAGE_API_KEY" -H "Content-Type: application/json" \\\n'
        """  -d '{"messages": [{"role": "user", "content": "Hello!"}]}'"""
    )


def failure(container: Record) -> CliError:
    reason = f" ({container['reason']})" if container.get("reason") else ""
    message = container.get("message") or ""
    return CliError(
        f"{container['name']} is {container['state']}{reason}. {message}".strip(),
        code=container.get("reason") or "not_running",
        hint=f"Its logs: `moor logs {shlex.quote(container['name'])}`.",
    )


def show_last_lines(session: Session, container: Record) -> None:
    """Usually the reason stands there. Without them the failure is still told."""
    try:
        page = session.client.get(f"/containers/{container['id']}/logs", {"limit": LAST_LINES})
    except CliError as exc:
        session.output.note(f"The last log lines cannot be had: {exc.message}")
        return
    lines = list(reversed(page["items"]))
    if lines:
        session.output.line("The last log lines:", style="bold")
    for line in lines:
        mark = "*" if line["stream"] == "moorage" else " "
        session.output.line(f"{mark} {plain(line['text'])}")
