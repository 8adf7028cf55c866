"""Who is told about a container."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ActivityRow
from moorage.identity.users.models import UserRow
from moorage.organizations.models import MemberRow


async def address_of_last_actor(session: AsyncSession, container_id: str, organization_id: str) -> str | None:
    """Of the person who created, started or changed it last, if they are a member still."""
    query = (
        select(UserRow.email)
        .join(ActivityRow, ActivityRow.actor == UserRow.id)
        .join(MemberRow, MemberRow.user_id == UserRow.id)
        .where(ActivityRow.container_id == container_id, MemberRow.organization_id == organization_id)
        .order_by(ActivityRow.at.desc(), ActivityRow.id.desc())
        .limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()
