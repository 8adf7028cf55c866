"""`moor wake`, and what sleeping saved."""

from typing import TYPE_CHECKING

import typer

from moorage_cli.amounts import shown_price
from moorage_cli.command import ContainerArgument, command
from moorage_cli.commands.containers import NoWaitOption
from moorage_cli.commands.outcome import report_deployment, waiting
from moorage_cli.session import Session
from moorage_cli.times import parse_time, shown_age, shown_time
from moorage_cli.waiting import wait_until_awake

if TYPE_CHECKING:
    from moorage_cli.api.types import Container, Sleep


def register(app: typer.Typer) -> None:
    command(app)(wake)
    command(app)(sleeps)


def wake(session: Session, container: ContainerArgument, no_wait: NoWaitOption = False) -> None:
    """Wake a container that sleeps, as its first request would."""
    found = session.container(container)
    answer = session.client.request("POST", f"/containers/{found['id']}/wake")
    woken: Container = answer.body
    if woken["asleep"] and not no_wait:
        waited = waiting(session, woken, wait_until_awake, "It still wakes.")
        assert waited is not None, "wait_until_awake gives the container back"
        report_deployment(session, waited)
    elif session.output.as_json:
        session.output.result(woken)
    else:
        session.output.line(f"{woken['name']} {'is waking' if woken['asleep'] else 'is awake already'}.")


def sleeps(session: Session, container: ContainerArgument) -> None:
    """List when a container slept, what woke it, how long that took, and what sleeping saved."""
    found = session.container(container)
    listed = list(session.api.list_sleeps(found["id"]))
    savings = session.api.get_savings(found["id"])
    if session.output.as_json:
        session.output.result({"savings": savings, "sleeps": listed})
        return
    rows = [
        [
            shown_time(one["asleep_at"]),
            shown_time(one["woken_at"]) if one["woken_at"] else "asleep",
            one["woken_by"] or "-",
            _took(one),
            shown_price(one["saved_microusd"]),
        ]
        for one in listed
    ]
    session.output.table(
        ("ASLEEP", "WOKEN", "BY", "SERVED AFTER", "SAVED (USD)"), rows, f"{found['name']} has not slept yet."
    )
    if listed:
        today, total = shown_price(savings["since_midnight_microusd"]), shown_price(savings["total_microusd"])
        session.output.line(f"Sleeping saved {today} USD since midnight (UTC), {total} USD in 90 days.")


def _took(one: "Sleep") -> str:
    if not one["woken_at"] or not one["served_at"]:
        return "-"
    return shown_age(parse_time(one["woken_at"]), parse_time(one["served_at"]))
