"""`moor templates`."""

import typer

from moorage_cli.amounts import shown_price
from moorage_cli.command import command
from moorage_cli.session import Session


def register(app: typer.Typer) -> None:
    command(app, "templates")(list_templates)


def list_templates(session: Session) -> None:
    """List the servers that `moor deploy hf:…` starts a model with."""
    items = list(session.api.list_templates())
    if session.output.as_json:
        session.output.result(items)
        return
    rows = [
        [
            one["name"],
            one["summary"],
            ", ".join(one["kinds"]),
            ", ".join(one["formats"]),
            "no" if one["runs_without_gpu"] else "yes",
            shown_price(one["price_per_hour_microusd"]) if one["price_per_hour_microusd"] else "-",
            one["example"],
        ]
        for one in items
    ]
    columns = ("NAME", "FOR", "MODELS", "FILES", "NEEDS GPU", "USD/HOUR FROM", "EXAMPLE")
    session.output.table(columns, rows, "There are no templates.")
