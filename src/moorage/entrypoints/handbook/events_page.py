"""Webhook events, from `webhooks/`."""

from moorage.entrypoints.handbook.words import code, table
from moorage.webhooks.events import EVENTS
from moorage.webhooks.schedule import PAUSES


def page() -> str:
    nouns = dict.fromkeys(event.partition(".")[0] for event in EVENTS)
    sections = [
        f"## {noun.replace('_', ' ').replace('api', 'API').capitalize() if noun != 'api_key' else 'API key'}\n\n"
        + table(
            ("event", "when"),
            [(code(event), when) for event, when in EVENTS.items() if event.partition(".")[0] == noun],
        )
        for noun in nouns
    ]
    return f"""# Webhook events

A webhook subscribes to events by name, to all of a kind (`container.*`) or to everything (`*`). [Webhooks](../webhooks.md) tells
how to receive and verify them.

The body is `{{"type", "organization_id", "data"}}`. `data` has the record of what happened: its id, time, actor, and what it is
about. A delivery that fails is tried again {len(PAUSES)} times, {_longest()} in all.

{chr(10).join(sections)}"""


def _longest() -> str:
    hours = sum(pause.total_seconds() for pause in PAUSES) / 3600
    return f"over about {hours / 24:.0f} days"
