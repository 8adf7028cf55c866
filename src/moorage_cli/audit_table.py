"""Audit records as a table."""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from moorage_cli.session import Session
from moorage_cli.times import shown_time

if TYPE_CHECKING:
    from moorage_cli.api.types import AuditRecord


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
            ", ".join(f"{name} {value}" for name, value in sorted(one["details"].items()) if value),
        ]
        for one in found
    ]
    session.output.table(("AT", "BY", "ACTION", "TARGET", "DETAILS"), rows, "Nothing has been changed yet.")
