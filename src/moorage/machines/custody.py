"""Who may speak about a machine: the operator about all of them, an organization about those that it lends.

What one may not see answers exactly as what is not there (404).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from moorage.identity.actor import UserActor
from moorage.identity.authentication import TheUser
from moorage.kit.errors import ForbiddenError, NotFoundError
from moorage.kit.web import TheSession
from moorage.machines import repository
from moorage.machines.models import MachineRow
from moorage.machines.states import Speaker
from moorage.organizations.permissions import Permission, allows
from moorage.organizations.repository import find_membership


@dataclass(frozen=True)
class Custody:
    row: MachineRow
    actor: UserActor
    speaker: Speaker


def custody_with(permission: Permission) -> Callable[..., Awaitable[Custody]]:
    """A dependency: the machine of the path, if the actor may do this with it."""

    async def dependency(machine_id: str, actor: TheUser, session: TheSession) -> Custody:
        row = await repository.find_machine(session, machine_id)
        if row is not None and actor.is_operator:
            return Custody(row, actor, Speaker.OPERATOR)
        owner = row.owner_organization_id if row is not None else None
        found = await find_membership(session, owner, actor.user_id) if owner is not None else None
        if row is None or found is None:
            raise NotFoundError("There is no such machine.")
        if not allows(found[1], permission):
            raise ForbiddenError(
                f"Your role here is '{found[1]}', which does not include {permission}. Ask an admin."
            )
        return Custody(row, actor, Speaker.OWNER)

    return dependency
