"""`moor webhooks create`, `list`, `delete`, `test` and `deliveries`."""

from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.command import command
from moorage_cli.session import Session
from moorage_cli.times import shown_time

if TYPE_CHECKING:
    from moorage_cli.api.types import Delivery, WebhookCreate

app = typer.Typer(help="Receivers of an organization's events.", no_args_is_help=True)

WebhookArgument = Annotated[str, typer.Argument(metavar="ID", help="The webhook.")]


@command(app, "create")
def create(
    session: Session,
    receiver: Annotated[str, typer.Argument(metavar="RECEIVER", help="The URL that events are sent to.")],
    event: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Such as container.* or member.remove; repeatable."),
    ] = None,
    chat: Annotated[
        bool,
        typer.Option("--chat", help="Send plain sentences to a chat such as Slack instead of signed events."),
    ] = False,
) -> None:
    """Send events to a URL. Only the secret that signs them goes to stdout."""
    body: WebhookCreate = {"url": receiver, "format": "chat" if chat else "event"}
    if event:
        body["events"] = event
    created = session.api.create_webhook(session.organization["id"], body)
    if session.output.as_json:
        session.output.result(created)
        return
    session.output.note(f"Created {created['id']} for {', '.join(created['events'])}.")
    if chat:
        session.output.note(f"Check that it arrives: moor webhooks test {created['id']}")
        return
    session.output.note("Check signatures with this secret. It is shown only once.")
    session.output.line(created["secret"])


@command(app, "list")
def list_them(session: Session) -> None:
    """List the organization's webhooks."""
    webhooks = list(session.api.list_webhooks(session.organization["id"]))
    if session.output.as_json:
        session.output.result(webhooks)
        return
    rows = [
        [
            one["id"],
            one["url"],
            ", ".join(one["events"]),
            "enabled" if one["enabled"] else f"disabled: {one['disabled_reason'] or 'by an admin'}",
            shown_time(one["created_at"]),
        ]
        for one in webhooks
    ]
    columns = ("ID", "URL", "EVENTS", "STATUS", "CREATED")
    session.output.table(columns, rows, "There are no webhooks. Create one with `moor webhooks create`.")


@command(app, "delete")
def delete(session: Session, webhook: WebhookArgument) -> None:
    """Delete a webhook. Events that wait for it are no longer sent."""
    session.api.remove_webhook(session.organization["id"], webhook)
    session.output.answer({"id": webhook, "deleted": True}, f"Deleted {webhook}.")


@command(app, "test")
def test(session: Session, webhook: WebhookArgument) -> None:
    """Send a `webhook.test` event; `moor webhooks deliveries` shows how it went."""
    sent = session.api.test_webhook(session.organization["id"], webhook)
    session.output.answer(sent, f"{sent['id']} is on its way.")


@command(app, "deliveries")
def deliveries(session: Session, webhook: WebhookArgument) -> None:
    """List what was sent in the last seven days, newest first."""
    found = list(session.api.list_deliveries(session.organization["id"], webhook))
    if session.output.as_json:
        session.output.result(found)
        return
    rows = [
        [shown_time(one["created_at"]), one["event"], _outcome(one), str(one["tries"]), one["id"]]
        for one in found
    ]
    session.output.table(("TIME", "EVENT", "OUTCOME", "TRIES", "ID"), rows, "Nothing has been sent yet.")


def _outcome(delivery: "Delivery") -> str:
    if delivery["delivered_at"] is not None:
        return f"delivered ({delivery['status']})"
    why = delivery["error"] or (f"answered {delivery['status']}" if delivery["status"] else "not tried yet")
    if delivery["next_try_at"] is not None:
        return f"{why}; next try {shown_time(delivery['next_try_at'])}"
    return f"given up: {why}"
