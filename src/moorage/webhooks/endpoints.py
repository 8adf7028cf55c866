from typing import Annotated

from fastapi import APIRouter, Depends

from moorage.kit.errors import NotFoundError
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheKeyring, TheSession, TheSettings
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission
from moorage.webhooks import repository, service
from moorage.webhooks.models import WebhookRow
from moorage.webhooks.schemas import Delivery, NewWebhook, Webhook, WebhookCreate, WebhookPatch

router = APIRouter(tags=["webhooks"])
Manager = Annotated[OrganizationAccess, Depends(organization_with(Permission.WEBHOOK_MANAGE))]
Paging = Annotated[PageRequest, Depends(page_request)]


@router.get("/organizations/{organization_id}/webhooks", summary="List webhooks")
async def list_webhooks(access: Manager, session: TheSession, paging: Paging) -> Page[Webhook]:
    """Lists the addresses that receive the organization's events."""
    rows = await repository.list_webhooks(session, access.organization.id, paging)
    return page_of([_shown(row) for row in rows], paging, lambda item: Position(item.created_at, item.id))


@router.post("/organizations/{organization_id}/webhooks", summary="Create a webhook", status_code=201)
async def create_webhook(
    body: WebhookCreate, access: Manager, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> NewWebhook:
    """Sends events of containers and of the organization to this address, signed with the `secret` in the answer,
    which is shown once. `events` selects the events; `format` selects whether a program or a chat receives them."""
    row, secret = await service.create_webhook(session, keyring, settings, access, body)
    return NewWebhook(**_shown(row).model_dump(), secret=secret)


@router.patch("/organizations/{organization_id}/webhooks/{webhook_id}", summary="Change a webhook")
async def edit_webhook(
    webhook_id: str, body: WebhookPatch, access: Manager, session: TheSession, settings: TheSettings
) -> Webhook:
    """Changes a webhook's address or events, or switches it on or off. The change applies to events from now on."""
    return _shown(await service.edit_webhook(session, settings, access, webhook_id, body))


@router.delete(
    "/organizations/{organization_id}/webhooks/{webhook_id}", summary="Delete a webhook", status_code=204
)
async def remove_webhook(webhook_id: str, access: Manager, session: TheSession) -> None:
    """Deletes the webhook and its deliveries. Moorage sends nothing more to it."""
    await service.remove_webhook(session, access, webhook_id)


@router.post(
    "/organizations/{organization_id}/webhooks/{webhook_id}/test", summary="Test a webhook", status_code=202
)
async def test_webhook(webhook_id: str, access: Manager, session: TheSession) -> Delivery:
    """Sends a `webhook.test` event. A moment later the deliveries show the result."""
    row = await service.send_test(session, access, webhook_id)
    return Delivery.model_validate(row, from_attributes=True)


@router.get("/organizations/{organization_id}/webhooks/{webhook_id}/deliveries", summary="List deliveries")
async def list_deliveries(
    webhook_id: str, access: Manager, session: TheSession, paging: Paging
) -> Page[Delivery]:
    """Lists what Moorage sent to the webhook in the last seven days, newest first, with each answer."""
    if await repository.find_webhook(session, access.organization.id, webhook_id) is None:
        raise NotFoundError("There is no such webhook.")
    rows = await repository.list_deliveries(session, webhook_id, paging)
    shown = [Delivery.model_validate(row, from_attributes=True) for row in rows]
    return page_of(shown, paging, lambda item: Position(item.created_at, item.id))


def _shown(row: WebhookRow) -> Webhook:
    return Webhook(
        id=row.id,
        url=row.url,
        events=row.events,
        format="chat" if row.format == "chat" else "event",
        enabled=row.disabled_at is None,
        disabled_reason=row.disabled_reason,
        created_by=row.created_by,
        created_at=row.created_at,
    )
