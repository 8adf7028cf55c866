"""An organization that the operator names, who need not belong to it."""

from typing import Annotated

from fastapi import Depends

from moorage.identity.authentication import TheOperator
from moorage.kit.errors import NotFoundError
from moorage.kit.web import TheSession
from moorage.organizations.models import OrganizationRow
from moorage.organizations.repository import find_organization


async def _organization_of_anybody(
    organization_id: str, _: TheOperator, session: TheSession
) -> OrganizationRow:
    found = await find_organization(session, organization_id)
    if found is None:
        raise NotFoundError("There is no such organization.")
    return found


OrganizationOfAnybody = Annotated[OrganizationRow, Depends(_organization_of_anybody)]
