"""`moor instance-types`."""

import typer

from moorage_cli.amounts import shown_bytes, shown_price
from moorage_cli.command import command
from moorage_cli.session import Session


def register(app: typer.Typer) -> None:
    command(app, "instance-types")(list_instance_types)


def list_instance_types(session: Session) -> None:
    """List what a replica can run on, with prices and what is free now."""
    items = list(session.api.get_instance_types())
    if session.output.as_json:
        session.output.result(items)
        return
    rows = [
        [
            one["name"],
            f"{one['gpu_count']} × {one['gpu_model']}" if one["gpu_count"] else "-",
            f"{one['vcpu_millis'] / 1000:g}",
            shown_bytes(one["memory_bytes"]),
            shown_price(one["price_per_hour_microusd"]),
            str(one["free"]),
            # The first sentence is about this type; the advice after it is the same for all.
            (one["unavailable_reason"] or "").partition(". ")[0],
        ]
        for one in items
    ]
    columns = ("NAME", "GPU", "VCPU", "MEMORY", "USD/HOUR", "FREE", "WHY NONE")
    session.output.table(columns, rows, "There are no instance types. The operator sets them up.")
