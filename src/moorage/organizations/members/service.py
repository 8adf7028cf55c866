"""Who belongs to an organization. Every change holds the organization's row, so that two admins who remove each
other at the same moment cannot leave it without one."""

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.actor import UserActor
from moorage.identity.sessions.repository import end_sessions
from moorage.kit.crypto import Keyring
from moorage.kit.errors import ConflictError, FieldError, ForbiddenError, InvalidInputError, NotFoundError
from moorage.kit.ids import UserId
from moorage.notifications.repository import queue_mail
from moorage.organizations.audit.repository import record_audit
from moorage.organizations.endings import end_rights
from moorage.organizations.members import repository
from moorage.organizations.members.schemas import MemberPatch
from moorage.organizations.models import MemberRow, OrganizationRow
from moorage.organizations.permissions import Permission, Role, allows
from moorage.organizations.repository import list_project_ids, lock_organization


async def change_member(
    session: AsyncSession, actor: UserActor, organization_id: str, user_id: str, patch: MemberPatch
) -> repository.Member:
    await lock_as_manager(session, organization_id, actor)
    member, _ = await _member(session, organization_id, user_id)
    before, projects_before = member.role, await _projects_of(session, member)
    joined_before = await _joined(session, member)
    if patch.role is not None and patch.role != before:
        if before == Role.ADMIN:
            await _refuse_last_admin(session, organization_id)
        member.role = patch.role
    if patch.project_ids is not None:
        await _set_projects(session, organization_id, user_id, patch.project_ids)
    await session.flush()
    ended = await end_rights(
        session,
        organization_id,
        user_id,
        lost_projects=projects_before - await _projects_of(session, member),
        managed=before == Role.ADMIN and member.role != Role.ADMIN,
        revoke_keys=patch.revoke_keys,
    )
    is_same = (member.role, await _joined(session, member)) == (before, joined_before)
    if is_same and not (ended.key_ids or ended.invitation_ids):
        return await _member(session, organization_id, user_id)
    record_audit(
        session,
        organization_id,
        actor=actor.id,
        action="member.change",
        target=user_id,
        role=member.role,
        role_before=before,
        project_ids=patch.project_ids,
        revoked_key_ids=ended.key_ids,
        withdrawn_invitation_ids=ended.invitation_ids,
    )
    await session.flush()
    return await _member(session, organization_id, user_id)


async def remove_member(
    session: AsyncSession,
    keyring: Keyring,
    actor: UserActor,
    organization: OrganizationRow,
    user_id: str,
    *,
    revoke_keys: bool,
) -> list[str]:
    """The keys that were revoked. Anybody may leave; who is removed by somebody else is signed out as well."""
    organization_id, leaves = organization.id, user_id == actor.user_id
    if leaves:
        await lock_organization(session, organization_id)
    else:
        await lock_as_manager(session, organization_id, actor)
    member, email = await _member(session, organization_id, user_id)
    if member.role == Role.ADMIN:
        await _refuse_last_admin(session, organization_id)
    ended = await end_rights(
        session,
        organization_id,
        user_id,
        lost_projects=await list_project_ids(session, organization_id),
        managed=True,
        revoke_keys=revoke_keys,
    )
    await repository.remove_member(session, organization_id, user_id)
    if not leaves:
        await end_sessions(session, UserId(user_id))
        subject = f"You were removed from {organization.name} on Moorage"
        text = f"{actor.email} removed you from the organization {organization.name}.\n"
        await queue_mail(session, keyring, to=email, subject=subject, text=text)
    record_audit(
        session,
        organization_id,
        actor=actor.id,
        action="member.leave" if leaves else "member.remove",
        target=user_id,
        email=email,
        revoked_key_ids=ended.key_ids,
        withdrawn_invitation_ids=ended.invitation_ids,
    )
    return ended.key_ids


async def lock_as_manager(session: AsyncSession, organization_id: str, actor: UserActor) -> None:
    """Hold the organization, and look at the actor again: they may have lost their role while this waited."""
    await lock_organization(session, organization_id)
    found = await repository.find_member(session, organization_id, actor.user_id)
    if found is None:
        raise NotFoundError("There is no such organization.")
    if not allows(Role(found[0].role), Permission.MEMBER_MANAGE):
        raise ForbiddenError("Only an admin of this organization can do this. Ask one.")


async def _member(session: AsyncSession, organization_id: str, user_id: str) -> repository.Member:
    found = await repository.find_member(session, organization_id, user_id)
    if found is None:
        raise NotFoundError("There is no such member.")
    return found


async def _projects_of(session: AsyncSession, member: MemberRow) -> set[str]:
    """Those that they are in: all of them as an admin."""
    if member.role == Role.ADMIN:
        return set(await list_project_ids(session, member.organization_id))
    return await _joined(session, member)


async def _joined(session: AsyncSession, member: MemberRow) -> set[str]:
    joined = await repository.joined_projects(session, member.organization_id, [member.user_id])
    return set(joined.get(member.user_id, ()))


async def _set_projects(
    session: AsyncSession, organization_id: str, user_id: str, project_ids: list[str]
) -> None:
    known = {row.id for row in await repository.find_projects(session, organization_id, project_ids)}
    unknown = [one for one in project_ids if one not in known]
    if unknown:
        fields = (FieldError("project_ids", "must be projects of this organization"),)
        raise InvalidInputError(f"There is no project {unknown[0]} in this organization.", fields=fields)
    await repository.leave_projects(session, organization_id, user_id)
    for project_id in sorted(known):
        await repository.join_project(session, project_id, user_id)


async def _refuse_last_admin(session: AsyncSession, organization_id: str) -> None:
    if await repository.count_admins(session, organization_id) <= 1:
        raise ConflictError(
            "This organization has no other admin. Make somebody else an admin first.",
            code="last_admin",
        )
