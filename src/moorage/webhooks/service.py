import os

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.crypto import Keyring
from moorage.kit.errors import (
    ConflictError,
    FieldError,
    InvalidInputError,
    NotFoundError,
    TooManyRequestsError,
)
from moorage.kit.ids import new_webhook_id
from moorage.kit.settings import Settings
from moorage.organizations.access import OrganizationAccess, hold_as_member
from moorage.organizations.audit.repository import record_audit
from moorage.organizations.caps import WEBHOOKS, require_room
from moorage.outbound.addresses import AddressRefusedError, is_allowed_by_name, origin_of, strict_url
from moorage.webhooks import repository
from moorage.webhooks.models import DeliveryRow, WebhookRow
from moorage.webhooks.schemas import WebhookCreate, WebhookPatch
from moorage.webhooks.signing import SECRET_BYTES, secret_text

TEST_EVENT = "webhook.test"
MOST_TESTS_WAITING = 10


async def create_webhook(
    session: AsyncSession,
    keyring: Keyring,
    settings: Settings,
    access: OrganizationAccess,
    body: WebhookCreate,
) -> tuple[WebhookRow, str]:
    """The row, and its secret, which nobody can read again."""
    check_url(body.url, settings)
    most = settings.webhooks_per_organization
    await require_room(session, WEBHOOKS, access.organization.id, repository.count_webhooks, most)
    await hold_as_member(session, access.organization.id, access.actor.user_id)
    webhook_id, secret = new_webhook_id(), secret_text(os.urandom(SECRET_BYTES))
    row = WebhookRow(
        id=webhook_id,
        organization_id=access.organization.id,
        url=body.url,
        events=sorted(set(body.events)),
        format=body.format,
        sealed_secret=keyring.encrypt(secret.encode(), secret_context(webhook_id)),
        created_by=access.actor.user_id,
    )
    session.add(row)
    await session.flush()
    await session.refresh(row)
    _record(session, access, "webhook.create", row)
    return row, secret


async def edit_webhook(
    session: AsyncSession, settings: Settings, access: OrganizationAccess, webhook_id: str, body: WebhookPatch
) -> WebhookRow:
    row = await _webhook(session, access, webhook_id)
    before = _changeable(row)
    if body.url is not None:
        check_url(body.url, settings)
        row.url = body.url
    if body.events is not None:
        row.events = sorted(set(body.events))
    if body.enabled is True:
        row.disabled_at, row.disabled_reason = None, None
        row.created_by = access.actor.user_id  # From now on it is theirs, and ends with their right.
    await session.flush()
    if body.enabled is False and row.disabled_at is None:
        await repository.disable(session, row.id, "Switched off by an admin.")
        await session.refresh(row)
    if _changeable(row) != before:
        _record(session, access, "webhook.edit", row)
    return row


def _changeable(row: WebhookRow) -> tuple[object, ...]:
    return row.url, row.events, row.disabled_at, row.created_by


async def remove_webhook(session: AsyncSession, access: OrganizationAccess, webhook_id: str) -> None:
    row = await _webhook(session, access, webhook_id)
    _record(session, access, "webhook.remove", row)
    await repository.remove_webhook(session, row.id)


async def send_test(session: AsyncSession, access: OrganizationAccess, webhook_id: str) -> DeliveryRow:
    row = await _webhook(session, access, webhook_id)
    if row.disabled_at is not None:
        raise ConflictError("This webhook is switched off. Switch it on first.", code="webhook_disabled")
    if await repository.count_waiting(session, row.id, TEST_EVENT) >= MOST_TESTS_WAITING:
        raise TooManyRequestsError(
            f"{MOST_TESTS_WAITING} test messages wait for this receiver. Check its answers in the deliveries.",
            retry_after_s=60,
            code="too_many_tests",
        )
    _record(session, access, "webhook.try", row)
    payload = {"type": TEST_EVENT, "organization_id": access.organization.id, "data": {}}
    return await repository.add_delivery(session, row.id, TEST_EVENT, payload)


def check_url(url: str, settings: Settings) -> None:
    """What can be said before anything is looked up; each delivery judges the addresses again."""
    try:
        origin = origin_of(strict_url(url))
        authority = f"{origin.host}:{origin.port}"
        listed = is_allowed_by_name(authority, settings.allowed_webhook_hosts)
        if not listed or (origin.scheme != "https" and authority not in settings.allowed_webhook_hosts):
            raise AddressRefusedError(f"{origin} is not a public https address")
    except AddressRefusedError as exc:
        raise InvalidInputError(
            f"url: {exc}. Give an https address that is reachable from the internet.",
            code="webhook_address_not_allowed",
            fields=(FieldError("url", str(exc)),),
        ) from exc


def secret_context(webhook_id: str) -> str:
    return f"webhooks.sealed_secret:{webhook_id}"


async def _webhook(session: AsyncSession, access: OrganizationAccess, webhook_id: str) -> WebhookRow:
    row = await repository.find_webhook(session, access.organization.id, webhook_id)
    if row is None:
        raise NotFoundError("There is no such webhook.")
    return row


def _record(session: AsyncSession, access: OrganizationAccess, action: str, row: WebhookRow) -> None:
    record_audit(
        session,
        access.organization.id,
        actor=access.actor.user_id,
        action=action,
        target=row.id,
        url=row.url,
        events=list(row.events),
    )
