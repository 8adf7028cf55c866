"""What only the operator sees."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from moorage.identity.authentication import TheOperator
from moorage.kit.errors import ConflictError
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheKeyring, TheSession, TheSettings
from moorage.notifications.repository import list_outbox

router = APIRouter(tags=["operator"])


class MailRead(BaseModel):
    id: str
    to: str
    subject: str
    text: str
    created_at: datetime


@router.get("/operator/outbox", summary="List mails")
async def outbox(
    _: TheOperator,
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
    paging: Annotated[PageRequest, Depends(page_request)],
) -> Page[MailRead]:
    """Lists mails of the last day, newest first. While no SMTP server is set up, this is where people's sign-in codes
    are. With one, only the receiver reads them."""
    if settings.smtp_host is not None:
        raise ConflictError(
            "Mails are sent through the mail server of the settings; the outbox cannot be read.",
            code="outbox_closed",
        )
    mails = await list_outbox(session, keyring, paging)
    shown = [MailRead.model_validate(mail, from_attributes=True) for mail in mails]
    return page_of(shown, paging, lambda item: Position(item.created_at, item.id))
