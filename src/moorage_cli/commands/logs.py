"""`moor logs`."""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TextIO, cast

import typer

from moorage_cli import completion
from moorage_cli.client import ApiClient, Record
from moorage_cli.command import command
from moorage_cli.errors import ApiError, CliError, UnreachableError, UsageError
from moorage_cli.output import Output
from moorage_cli.session import Session
from moorage_cli.terminal_text import safe_line, uncoloured
from moorage_cli.times import shown_log_time, time_before

if TYPE_CHECKING:
    from moorage_cli.api.types import LogLine

DEFAULT_LINES = 200
MAX_LINES = 10_000
PAGE_LINES = 1000
"""The most that the API gives at once."""
RECONNECT_PAUSE_S = 1.0
GIVE_UP_AFTER_S = 60.0


class Stream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    MOORAGE = "moorage"


@dataclass(frozen=True)
class Wanted:
    path: str
    """`/containers/{id}/logs`, or `/projects/{id}/logs` for all containers at once."""
    instance: str | None
    stream: str | None
    text: str | None
    from_time: str | None
    to_time: str | None
    lines: int

    def filters(self) -> Record:
        return {"instance": self.instance, "stream": self.stream, "text": self.text}


def register(app: typer.Typer) -> None:
    command(app)(logs)


def logs(
    session: Session,
    container: Annotated[
        str | None,
        typer.Argument(
            metavar="CONTAINER",
            help="A container's name or id. Default: all containers of the project.",
            autocompletion=completion.containers,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Keep printing new lines as they come.")
    ] = False,
    replica: Annotated[
        str | None, typer.Option(help="Only lines of this replica: its id, or the end of it.")
    ] = None,
    stream: Annotated[Stream | None, typer.Option(help="Only this stream.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="10m|TIME", help="Only lines from this time on.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="10m|TIME", help="Only lines before this time.")
    ] = None,
    grep: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only lines that contain this text.")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--lines",
            min=0,
            max=MAX_LINES,
            show_default="200, or all --since",
            help="Only the newest N lines.",
        ),
    ] = None,
) -> None:
    """Show log lines, oldest first. Those of the whole project include deleted containers."""
    if follow and until is not None:
        raise UsageError("--follow does not end, so it cannot be used with --until.")
    now = datetime.now(UTC)
    default_lines = DEFAULT_LINES if since is None else MAX_LINES
    container_id = session.container(container)["id"] if container is not None else None
    wanted = Wanted(
        path=f"/containers/{container_id}/logs"
        if container_id
        else f"/projects/{session.project['id']}/logs",
        instance=_replica_id(session, container_id, replica) if replica is not None else None,
        stream=stream.value if stream is not None else None,
        text=grep,
        from_time=time_before(since, now, "--since").isoformat() if since is not None else None,
        to_time=time_before(until, now, "--until").isoformat() if until is not None else None,
        lines=default_lines if count is None else count,
    )
    write = LineWriter(session.output, sys.stdout, None if container_id else ContainerNames(session))
    history = _history(session, wanted) if not follow or since is not None else []
    for line in history:
        write(line)
    if follow:
        try:
            for line in _follow(session, wanted, history, with_history=since is not None):
                write(line)
        except KeyboardInterrupt:
            return  # how following is meant to end


class LineWriter:
    """Straight to stdout, because ten thousand lines through a layout would take seconds."""

    def __init__(self, output: Output, file: TextIO, names: "ContainerNames | None") -> None:
        self._output = output
        self._file = file
        self._names = names

    def __call__(self, line: "LogLine") -> None:
        if self._output.as_json:
            self._output.record(line)
        elif self._output.is_terminal and not self._output.is_plain:
            self._file.write(f"\x1b[2m{self._prefix(line)}\x1b[0m {_marked(line)}\n")
            self._file.flush()
        else:
            self._file.write(f"{self._prefix(line)} {uncoloured(str(line['text']))}\n")
            self._file.flush()

    def _prefix(self, line: "LogLine") -> str:
        # The end of a replica's id tells it from its neighbours. What it did not print says so here, where it cannot.
        ours = "moorage:" if line["stream"] == Stream.MOORAGE.value else ""
        prefix = f"{shown_log_time(line['time'])} {ours}{str(line['instance_id'])[-6:]}"
        return prefix if self._names is None else f"{prefix} {self._names.of(str(line['container_id']))}"


class ContainerNames:
    """Of the project's containers. One that is deleted has its id."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._names: dict[str, str] = {}

    def of(self, container_id: str) -> str:
        if container_id not in self._names:
            found = self._session.api.list_containers(self._session.project["id"])
            self._names.update({one["id"]: one["name"] for one in found})
        return self._names.setdefault(container_id, container_id)


def _replica_id(session: Session, container_id: str | None, reference: str) -> str:
    """Lines show the end of an id, so the end is enough; a whole id may also be of a replica that is gone."""
    if reference.startswith("rep_"):
        return reference
    if container_id is None:
        raise UsageError("--replica needs the container or the replica's whole id.")
    replicas = session.api.list_replicas(container_id)
    found = [one["id"] for one in replicas if one["id"].endswith(reference)]
    if len(found) != 1:
        which = "Several replicas'" if found else "No replica's"
        raise UsageError(f"{which} id ends with {reference!r}.", hint="`moor replicas` shows the whole ids.")
    return found[0]


def _marked(line: "LogLine") -> str:
    text = safe_line(str(line["text"]))
    return f"\x1b[31m!\x1b[0m {text}" if line["stream"] == Stream.STDERR.value else f"  {text}"


def _history(session: Session, wanted: Wanted) -> "list[LogLine]":
    """The newest lines of the range, oldest first."""
    lines: list[LogLine] = []
    asked = {**wanted.filters(), "from": wanted.from_time, "to": wanted.to_time}
    while len(lines) < wanted.lines:
        asked["limit"] = min(PAGE_LINES, wanted.lines - len(lines))
        page = session.client.get(wanted.path, asked)
        lines += page["items"]
        asked["cursor"] = page.get("next_cursor")
        if asked["cursor"] is None:
            break
    else:
        if wanted.lines == MAX_LINES:
            session.output.note(
                f"Only the newest {MAX_LINES} lines are shown. Narrow the range to see others."
            )
    lines.reverse()
    return lines


def _follow(
    session: Session, wanted: Wanted, shown: "list[LogLine]", *, with_history: bool
) -> "Iterator[LogLine]":
    """New lines, across the ends and breaks of connections. What `shown` holds is not given again."""
    seen = {_key(line) for line in shown}
    # Lines may arrive between reading the history and the stream: the tail covers them, `seen` the rest.
    tail = PAGE_LINES if with_history else min(wanted.lines, PAGE_LINES)
    params = {**wanted.filters(), "tail": tail}
    last_event_id: str | None = None
    connected_at_s = time.monotonic()
    told = False
    while True:
        try:
            for event_id, line in _connection(session.client, wanted, params, last_event_id):
                connected_at_s, told, last_event_id = time.monotonic(), False, event_id
                too_old = wanted.from_time is not None and _is_before(line, wanted.from_time)
                if _key(line) not in seen and not too_old:
                    yield line
            connected_at_s = time.monotonic()
            time.sleep(0.1)  # a server that ends every stream at once must not be hammered
        except CliError as exc:
            away = isinstance(exc, UnreachableError) or (
                isinstance(exc, ApiError) and (exc.status or 0) >= 500
            )
            if not away or time.monotonic() - connected_at_s > GIVE_UP_AFTER_S:
                raise
            if not told:
                session.output.note("The connection broke; connecting again.")
                told = True
            time.sleep(RECONNECT_PAUSE_S)


def _connection(
    client: ApiClient, wanted: Wanted, params: Record, last_event_id: str | None
) -> "Iterator[tuple[str | None, LogLine]]":
    with client.events(f"{wanted.path}/stream", params, last_event_id) as events:
        for event in events:
            line = json.loads(event.data)
            if isinstance(line, dict) and "text" in line:
                yield event.id, cast("LogLine", line)


def _key(line: "LogLine") -> tuple[str, int]:
    return line["instance_id"], line["sequence"]


def _is_before(line: "LogLine", time_text: str) -> bool:
    return datetime.fromisoformat(line["time"]) < datetime.fromisoformat(time_text)
