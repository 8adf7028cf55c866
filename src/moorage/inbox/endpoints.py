from typing import Annotated

from fastapi import APIRouter, Depends

from moorage.inbox import repository
from moorage.inbox.schemas import Notification, NotificationsRead
from moorage.inbox.told import text, title
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheSession
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["notifications"])
Reader = Annotated[OrganizationAccess, Depends(organization_with(Permission.ORGANIZATION_VIEW))]


@router.get("/organizations/{organization_id}/notifications", summary="List notifications")
async def list_notifications(
    access: Reader, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Page[Notification]:
    """Lists what you are told of in the last 30 days, newest first: containers that failed or were stopped, credit that ends,
    payments, machines that you lend. Of projects it names those that you see, of money and members only admins hear; what you did
    yourself is left out. `unread` says what came after the newest one that you saw, in whichever browser."""
    events = await repository.list_events(
        session, access.organization.id, access.actor.user_id, access.role, paging
    )
    return page_of([_shown(one) for one in events], paging, lambda item: Position(item.at, item.id))


@router.put(
    "/organizations/{organization_id}/notifications/read",
    summary="Mark notifications as read",
    status_code=204,
)
async def read_notifications(body: NotificationsRead, access: Reader, session: TheSession) -> None:
    """For you alone, those up to this time. What is read stays so: an earlier time changes nothing, a later one counts as now."""
    await repository.read_until(session, access.organization.id, access.actor.user_id, body.until)


def _shown(event: repository.Event) -> Notification:
    return Notification(
        id=event.id,
        at=event.at,
        event=event.name,
        title=title(event.name, event.details, event.names),
        text=text(event.name, event.message, event.details),
        project_id=event.project_id,
        container_id=event.container_id,
        unread=event.unread,
    )
