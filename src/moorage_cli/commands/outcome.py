"""How waiting for a container ends: the words, the exit code, and the way on."""

import shlex
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

import typer

from moorage_cli.client import ApiClient
from moorage_cli.errors import CliError, ExitCode
from moorage_cli.progress import ProgressDisplay
from moorage_cli.session import Session
from moorage_cli.terminal_text import plain
from moorage_cli.waiting import wait_until_running

if TYPE_CHECKING:
    from moorage_cli.api.types import Container

LAST_LINES = 10

Example = Callable[["Container"], str]
"""A first request, to be copied."""

Wait = Callable[[ApiClient, "Container", ProgressDisplay], "Container | None"]


def wait_for_deployment(session: Session, container: "Container") -> "Container":
    waited = waiting(session, container, wait_until_running, "The deployment continues.")
    assert waited is not None, "wait_until_running gives the container back"
    return waited


def waiting(session: Session, container: "Container", wait: Wait, goes_on: str) -> "Container | None":
    """Ctrl-C ends the watching, not what is watched."""
    try:
        with ProgressDisplay(session.output) as display:
            return wait(session.client, container, display)
    except KeyboardInterrupt:
        name = shlex.quote(container["name"])
        session.output.note(f"{goes_on} Follow it with `moor describe {name}` or `moor logs -f {name}`.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def chat_example(container: "Container") -> str:
    return (
        f"{_curl(container, '/api/v1/chat/completions')} \\\n"
        '  -H "Authorization: Bearer $MOORAGE_API_KEY" -H "Content-Type: application/json" \\\n'
        """  -d '{"messages": [{"role": "user", "content": "Hello!"}]}'"""
    )


def any_example(container: "Container") -> str:
    """Of a server that is not known to chat: the path that its health check asks is there."""
    if container["api_path"] == "/v1":
        return chat_example(container)
    path = container["health_check"]["path"] or "/"
    return f'{_curl(container, path)} -H "Authorization: Bearer $MOORAGE_API_KEY"'


def report_deployment(session: Session, container: "Container", example: Example = chat_example) -> None:
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
    output.block(f"export MOORAGE_API_KEY=$(moor keys create)\n{example(container)}")


def failure(container: "Container") -> CliError:
    reason = f" ({container['reason']})" if container.get("reason") else ""
    message = container.get("message") or ""
    return CliError(
        f"{container['name']} is {container['state']}{reason}. {message}".strip(),
        code=container.get("reason") or "not_running",
        hint=f"Its logs: `moor logs {shlex.quote(container['name'])}`.",
    )


def show_last_lines(session: Session, container: "Container") -> None:
    """Usually the reason stands there. Without them the failure is still told."""
    try:
        newest_first = list(
            islice(session.api.list_logs_containers(container["id"], limit=LAST_LINES), LAST_LINES)
        )
    except CliError as exc:
        session.output.note(f"The last log lines cannot be read: {exc.message}")
        return
    lines = newest_first[::-1]
    if lines:
        session.output.line("The last log lines:", style="bold")
    for line in lines:
        mark = "*" if line["stream"] == "moorage" else " "
        session.output.line(f"{mark} {plain(line['text'])}")


def _curl(container: "Container", path: str) -> str:
    # A key that was just made is known to the gateway a moment later.
    return f"curl -sS --fail --retry 5 --retry-all-errors {shlex.quote(container['endpoint_url'] + path)}"
