"""A deployment on its way, as people watch it: one live line on a terminal, one plain line per change elsewhere."""

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from moorage_cli.amounts import shown_bytes
from moorage_cli.client import Record
from moorage_cli.output import STATE_STYLES, Output
from moorage_cli.terminal_text import plain

if TYPE_CHECKING:
    from moorage_cli.api.types import Container


def describe(container: "Container", in_state_s: float) -> str:
    """What is going on, in the words beside the state. Pure."""
    progress = container.get("progress") or {}
    parts = []
    if container.get("state") == "RUNNING" and progress:
        parts += [f"{in_state_s:.0f} s"] if in_state_s >= 2 else []
        parts.append(f"next replica: {doing(progress)}")
    elif progress.get("phase") == "pull" and progress.get("total_bytes"):
        parts.append(_pulled(progress))
    elif progress.get("phase") == "start" and progress.get("limit_s"):
        parts.append(f"{in_state_s:.0f} s of at most {progress['limit_s']} s")
        parts += _step(progress)
    elif in_state_s >= 2:
        parts.append(f"{in_state_s:.0f} s")
    if container.get("message") and not step_of(container):
        parts.append(str(container["message"]))
    return " · ".join(parts)


def doing(progress: Record) -> str:
    """Of a replica that starts, by itself or beside others that serve. Pure."""
    if progress.get("phase") == "pull":
        return (
            f"pulling the image: {_pulled(progress)}" if progress.get("total_bytes") else "pulling the image"
        )
    return " · ".join(_step(progress) or ["starting"])


def _pulled(progress: Record) -> str:
    return f"{shown_bytes(progress['done_bytes'])} of {shown_bytes(progress['total_bytes'])}"


def _step(progress: Record) -> list[str]:
    """Known of a container that has a cache."""
    parts = []
    match progress.get("step"):
        case "download":
            size, rate = shown_bytes(progress["cache_bytes"]), shown_bytes(progress["bytes_per_s"])
            parts = [f"downloading weights: {size} in the cache, {rate}/s"]
        case "compile":
            parts = ["compiling"]
        case "load":
            parts = ["loading the model"]
    if waiting := progress.get("waiting"):
        parts.append(f"{waiting} more {'replica waits' if waiting == 1 else 'replicas wait'} for the cache")
    return parts


def step_of(container: "Container") -> list[str]:
    """What a start is busy with, where that is known and explains why nothing listens yet; a model that loads may also be a server
    that hangs, so it explains nothing."""
    progress = container.get("progress") or {}
    starts = container.get("state") == "STARTING" and progress.get("step") in ("download", "compile")
    return _step(progress) if starts and container.get("reason") in (None, "port_not_listening") else []


def plain_line(container: "Container") -> str:
    """`PENDING no_capacity: No machine has …`"""
    reason, message = container.get("reason"), container.get("message")
    text = str(container["state"])
    if step := step_of(container):
        return f"{text}: {' · '.join(step)}"
    if reason:
        text += f" {reason}"
    return f"{text}: {message}" if message else text


class ProgressDisplay:
    """Shows each container it is handed. Used as a context, so that the terminal is left as it was found."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._shown: tuple[object, ...] | None = None
        self._state_since_s = time.monotonic()
        self._container: Container | None = None
        self._trouble: str | None = None
        live = output.is_terminal and not output.as_json
        self._live = Live(
            get_renderable=self._renderable, console=output.console, transient=True, refresh_per_second=8
        )
        self._is_live = live

    def __enter__(self) -> "ProgressDisplay":
        if self._is_live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_live:
            self._live.stop()

    def show(self, container: "Container") -> None:
        if self._container is None or self._container["state"] != container["state"]:
            # Counted here, not from the server's times: two clocks seldom agree.
            self._state_since_s = time.monotonic()
        self._container, self._trouble = container, None
        step = step_of(container)
        # The message of a server that does not listen yet changes nothing while its step goes on.
        change = (container["state"], container.get("reason"), step[0] if step else container.get("message"))
        if not self._is_live and not self._output.as_json and change != self._shown:
            self._output.line(plain_line(container))
            self._output.console.file.flush()
        self._shown = change

    def trouble(self, message: str) -> None:
        """The API is not there for the moment; said once."""
        if not self._is_live and self._trouble is None:
            self._output.note(message)
        self._trouble = message

    def _renderable(self) -> RenderableType:
        container = self._container
        if container is None:
            return Text("")
        state = container["state"]
        row = Table.grid(padding=(0, 1))
        cells: list[RenderableType] = [Spinner("dots"), Text(plain(state), style=STATE_STYLES.get(state, ""))]
        progress = container.get("progress") or {}
        if progress.get("phase") == "pull" and progress.get("total_bytes"):
            total, done = progress["total_bytes"], progress["done_bytes"]
            cells.append(ProgressBar(total=total, completed=min(done, total), width=30))
        cells.append(Text(plain(describe(container, time.monotonic() - self._state_since_s))))
        row.add_row(*cells)
        return Group(row, Text(plain(self._trouble), style="yellow")) if self._trouble else row
