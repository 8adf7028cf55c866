"""Audit records as a table."""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from moorage_cli.session import Session
from moorage_cli.times import shown_time

if TYPE_CHECKING:
    from moorage_cli.api.types import AuditRecord

_OPTIONS = frozenset({"forced"})


def show_audit(session: Session, records: Iterable["AuditRecord"], limit: int) -> None:
    found = list(islice(records, limit))
    if session.output.as_json:
        session.output.result(found)
        return
    rows = [
        [
            shown_time(one["at"]),
            one["actor_email"] or one["actor_name"] or one["actor"],
            one["action"],
            one["target"],
            _shown_details(one["details"]),
        ]
        for one in found
    ]
    session.output.table(("AT", "BY", "ACTION", "TARGET", "DETAILS"), rows, "Nothing has been changed yet.")


def _shown_details(details: dict[str, Any]) -> str:
    """`disabled False` says that somebody was let in again; an option that was not used says nothing."""
    return ", ".join(
        f"{name} {value}"
        for name, value in sorted(details.items())
        if value not in (None, "", [], {}) and (value or name not in _OPTIONS)
    )
