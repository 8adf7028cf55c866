"""Every command of `moor`, from the command line itself."""

import re
from collections.abc import Iterator

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

import moorage.entrypoints.moor  # noqa: F401 - adds the commands that need the machine
from moorage.entrypoints.handbook.words import code, table
from moorage_cli.app import app
from moorage_cli.errors import MEANINGS, ExitCode

_EVERYWHERE = ("--json", "--url", "--project", "--help")
_MARKUP = re.compile(r"\[/?[a-z ]+\]")

_INTRODUCTION = """# Commands

`moor` talks to an installation over HTTP. It finds the address in `--url`, in `MOORAGE_URL`, or where `moor login` left it.
`moor COMMAND --help` says what is below, in the terminal.

Every command takes `--json` for output that programs read, `--url` for another installation, and `--project` for another project
than the one that `moor project use` chose.
"""


def page() -> str:
    parts = [_INTRODUCTION, f"Exit codes:\n\n{_exit_codes()}"]
    for path, command in commands():
        parts.append(_section(path, command))
    return "\n".join(parts)


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Each with the words that call it, groups in the order of `moor --help`."""
    yield from _below(get_command(app), "moor")


def _below(command: object, path: str) -> Iterator[tuple[str, TyperCommand]]:
    if isinstance(command, TyperGroup):
        for name, one in command.commands.items():
            yield from _below(one, f"{path} {name}")
    elif isinstance(command, TyperCommand) and not command.hidden:
        yield path, command


def _exit_codes() -> str:
    return table(("code", "meaning"), [(code(int(one)), MEANINGS[one]) for one in ExitCode])


def _section(path: str, command: TyperCommand) -> str:
    arguments = [one for one in command.params if isinstance(one, TyperArgument) and not one.hidden]
    options = [
        one
        for one in command.params
        if isinstance(one, TyperOption) and not one.hidden and one.opts[0] not in _EVERYWHERE
    ]
    usage = " ".join([path, *(["[OPTIONS]"] if options else []), *map(_usage, arguments)])
    rows = [(code(_usage(one)), _help(one)) for one in arguments]
    rows += [(_spelled(one), _help(one)) for one in options]
    described = _plain(command.help or "")
    assert described, f"say what `{path}` does"
    parts = [f"## {path}\n", f"{described}\n", f"```text\n{usage}\n```\n"]
    if rows:
        parts.append(table(("", ""), rows))
    return "\n".join(parts)


def _usage(argument: TyperArgument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _spelled(option: TyperOption) -> str:
    names = ", ".join(code(one) for one in (*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} {option.metavar or (option.name or '').upper()}"


def _help(parameter: TyperArgument | TyperOption) -> str:
    told = _plain(parameter.help or "")
    if isinstance(parameter.show_default, str):
        return f"{told} Default: {parameter.show_default}."
    has_default = parameter.default not in (None, False, True, ()) and not callable(parameter.default)
    return f"{told} Default: {code(parameter.default)}." if has_default else told


def _plain(text: str) -> str:
    return _MARKUP.sub("", " ".join(text.split()))
