"""Where everything that is shown goes through.

For a person: tables and sentences on stdout, notes and errors on stderr. With `--json`: the result on stdout and
nothing else there, errors as JSON on stderr, no notes.
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from moorage_cli.errors import CliError
from moorage_cli.terminal_text import plain

# A pipe has no width: nothing is folded or cut there.
_PIPE_WIDTH = 10_000

_ESCAPED = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}

STATE_STYLES = {
    "RUNNING": "green",
    "FAILED": "bold red",
    "STOPPED": "dim",
    "PENDING": "yellow",
    "PULLING": "cyan",
    "STARTING": "cyan",
    "STOPPING": "yellow",
    "DELETING": "yellow",
}


class Output:
    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.is_plain = bool(os.environ.get("NO_COLOR"))
        """Nobody wants colours, nor other styles."""
        self.console = _console(stderr=False)
        self._errors = _console(stderr=True)

    @property
    def is_terminal(self) -> bool:
        return self.console.is_terminal

    def result(self, value: Any) -> None:
        """What a machine asked for. People get it as tables and lines instead."""
        print(json_text(value, indent=2))

    def answer(self, value: Any, text: str) -> None:
        """The same in both ways: for a machine if one asked, else in a line for people."""
        if self.as_json:
            self.result(value)
        else:
            self.line(text)

    def record(self, value: Any) -> None:
        """One of a stream: one line."""
        print(json_text(value), flush=True)

    def line(self, text: str = "", style: str | None = None) -> None:
        self.console.print(Text(plain(text), style=style or ""), soft_wrap=True)

    def block(self, text: str) -> None:
        """As it is, to be copied: no wrapping, no styles."""
        for line in text.splitlines():
            self.console.print(Text(plain(line)), soft_wrap=True)

    def note(self, text: str) -> None:
        """Said beside the result; scripts are spared it."""
        if not self.as_json:
            self._errors.print(Text(plain(text), style="dim"), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str | Text]], empty: str) -> None:
        if not rows:
            self.note(empty)
            return
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(cell if isinstance(cell, Text) else Text(plain(cell)) for cell in row))
        self.console.print(table)

    def pairs(self, pairs: Sequence[tuple[str, str | Text]]) -> None:
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in pairs:
            table.add_row(name, value if isinstance(value, Text) else Text(plain(value)))
        self.console.print(table)

    def error(self, error: CliError) -> None:
        if self.as_json:
            print(json_text(error.to_json()), file=sys.stderr)
            return
        message = Text("Error: ", style="bold red")
        message.append(plain(error.message), style="not bold default")
        if error.hint and not error.listed_fields:
            message.append(f" {plain(error.hint)}", style="not bold default")
        self._errors.print(message, soft_wrap=True)
        for field, text in error.listed_fields:
            self._errors.print(Text(plain(f"  {field}: {text}")), soft_wrap=True)
        if error.hint and error.listed_fields:
            self._errors.print(Text(plain(error.hint)), soft_wrap=True)
        if error.status is not None and error.status >= 500 and error.request_id:
            self._errors.print(Text(plain(f"Request id: {error.request_id}"), style="dim"), soft_wrap=True)


def state_text(state: str) -> Text:
    return Text(plain(state), style=STATE_STYLES.get(state, ""))


def json_text(value: Any, indent: int | None = None) -> str:
    """As people read it, without the control characters that JSON leaves as they are."""
    return json.dumps(value, ensure_ascii=False, indent=indent).translate(_ESCAPED)


def _console(*, stderr: bool) -> Console:
    # Asked here, because rich takes some build servers for terminals, and FORCE_COLOR for a reason to draw into a file.
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        force_terminal=is_terminal,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        width=None if is_terminal else _PIPE_WIDTH,
    )
