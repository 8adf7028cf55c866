"""Names that a shell completes: of the account's projects, and of the project's containers.

Whoever presses Tab waits for it, in the middle of a line: what is not there in time, or cannot be had, is left out without a word.
"""

import re
import threading
from collections.abc import Callable, Iterable

import typer

from moorage_cli.output import Output
from moorage_cli.project_choice import list_projects
from moorage_cli.session import GlobalOptions, Session

DEADLINE_S = 2.0
# Some shells evaluate what they are given. Who is named otherwise is completed by the id.
_HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def containers(context: typer.Context, incomplete: str) -> list[str]:
    def found(session: Session) -> Iterable[tuple[str, str]]:
        return ((one["name"], one["id"]) for one in session.api.list_containers(session.project["id"]))

    return _names(context, incomplete, found)


def projects(context: typer.Context, incomplete: str) -> list[str]:
    def found(session: Session) -> Iterable[tuple[str, str]]:
        return ((one["name"], one["id"]) for one in list_projects(session.client))

    return _names(context, incomplete, found)


def _names(
    context: typer.Context, incomplete: str, found: Callable[[Session], Iterable[tuple[str, str]]]
) -> list[str]:
    session = Session(_options(context), Output(as_json=True))
    names: list[str] = []

    def ask() -> None:
        try:
            for name, id_ in found(session):
                known = name if _HARMLESS.fullmatch(name) else id_
                if known.startswith(incomplete):
                    names.append(known)
        except Exception:  # noqa: BLE001 - not signed in, nobody answers, a broken file: there is no place to say so
            names.clear()

    # The process ends without waiting for it.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(DEADLINE_S)
    return [] if asking.is_alive() else names


def _options(context: typer.Context) -> GlobalOptions:
    """As far as they stand on the line, before the command's name or behind it."""
    said: dict[str, str | None] = {"url": None, "project": None}
    current: typer.Context | None = context
    while current is not None:
        for name in said:
            said[name] = said[name] or current.params.get(name)
        current = current.parent  # type: ignore[assignment]
    return GlobalOptions(False, said["url"], said["project"])
