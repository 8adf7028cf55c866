"""Deleting an organization. It lies here and not with the organizations because what it has and owes is asked for first.

Its row, its ledger, its documents and its audit log stay. What ends is everything by which somebody acts for it: members, keys,
invitations, webhooks. Whoever was a member is one of the past, so that nobody pays themselves through a new organization.
"""

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.auto_top_ups.repository import remove_policy
from moorage.billing.cards.repository import find_saved_card
from moorage.billing.closing import repository
from moorage.billing.closing.rules import Situation, obstacles
from moorage.billing.closing.words import deleted_mail
from moorage.billing.earnings.balance_repository import earnings_balance
from moorage.containers.replica_limits.service import withdraw_requests_of_project
from moorage.identity.actor import UserActor
from moorage.identity.sessions.repository import end_sessions
from moorage.kit.crypto import Keyring
from moorage.kit.database import take_turn
from moorage.kit.errors import ConflictError, ForbiddenError, NotFoundError
from moorage.kit.idempotency import forget_answers
from moorage.kit.ids import UserId
from moorage.kit.money import format_usd
from moorage.kit.settings import Settings
from moorage.machines.repository import count_lent, has_banned
from moorage.notifications.repository import queue_mail
from moorage.organizations import repository as organizations
from moorage.organizations.audit.repository import record_audit
from moorage.organizations.caps import TOP_UP_TURN
from moorage.organizations.invitations.repository import withdraw_invitations_to
from moorage.organizations.members.repository import everybody, find_member, remove_member
from moorage.organizations.models import OrganizationRow
from moorage.organizations.permissions import Permission, Role, allows
from moorage.organizations.service import remove_project


async def look(session: AsyncSession, settings: Settings, organization: OrganizationRow) -> Situation:
    """What becomes something else is asked for before what it becomes: whatever happens in between is seen as one or the other."""
    id_ = organization.id
    unsettled = await repository.serves_in_unsettled_hours(session, id_)
    earned = await earnings_balance(session, id_)
    open_payments = await repository.count_open_payments(session, id_)
    paid_microusd, given_microusd = await repository.credit_by_origin(session, id_)
    card = await find_saved_card(session, id_)
    return Situation(
        suspended=organization.suspended_at is not None,
        containers=tuple(await repository.container_names(session, id_)),
        machines=await count_lent(session, id_),
        has_banned_machine=await has_banned(session, id_),
        unsettled=unsettled,
        earned_microusd=earned.held_microusd + earned.payable_microusd,
        earned_payable_at=earned.next_payable_at,
        payout_requested_microusd=earned.requested_microusd,
        least_payout_microusd=settings.least_payout_microusd,
        owed_microusd=await repository.receivable(session, id_) + earned.owed_microusd,
        open_payments=open_payments,
        has_card=card is not None and card.payment_method_id is not None,
        pending_transfers=tuple(await repository.pending_references(session, id_)),
        paid_credit_microusd=paid_microusd,
        given_credit_microusd=given_microusd,
    )


async def delete_organization(
    session: AsyncSession,
    keyring: Keyring,
    settings: Settings,
    actor: UserActor,
    organization: OrganizationRow,
    gives_up_microusd: int,
) -> None:
    id_ = organization.id
    # Before everything else, as docs/locking.md says: whoever announces a payment waits, and the operator may be about to book one.
    await take_turn(session, f"{TOP_UP_TURN}:{id_}")
    transfers = await repository.pending_references(session, id_, lock=True)
    await _lock(session, actor, organization)
    projects = await organizations.list_projects(session, id_)
    for project in projects:
        # From here on nothing can be put into it, so what is looked at next is all there is.
        await organizations.remove_project(session, project.id)
    # Whatever is charged automatically is under way by now, or never will be.
    await remove_policy(session, id_)
    situation = await look(session, settings, organization)
    _refuse_unless_empty(situation, gives_up_microusd)
    for project in projects:
        await withdraw_requests_of_project(session, actor, project.id)
        await remove_project(session, actor, project, [])
    await repository.call_off_transfers(session, transfers)
    record_audit(
        session,
        id_,
        actor=actor.id,
        action="organization.remove",
        target=id_,
        name=organization.name,
        given_up_microusd=situation.given_up_microusd,
        called_off_transfers=transfers,
        withdrawn_invitation_ids=await withdraw_invitations_to(session, id_),
    )
    await session.flush()
    await repository.remove_webhooks(session, id_)
    await _part_with_everybody(session, keyring, settings, actor, organization, situation.given_up_microusd)


async def _lock(session: AsyncSession, actor: UserActor, organization: OrganizationRow) -> None:
    """And look at the actor again: they may have lost their role while this waited."""
    if not await organizations.mark_deleted(session, organization.id, actor.user_id):
        raise NotFoundError("There is no such organization.")
    found = await find_member(session, organization.id, actor.user_id)
    if found is None:
        raise NotFoundError("There is no such organization.")
    if not allows(Role(found[0].role), Permission.ORGANIZATION_REMOVE):
        raise ForbiddenError("Only an admin of this organization can delete it. Ask one.")
    await session.refresh(organization)


def _refuse_unless_empty(situation: Situation, gives_up_microusd: int) -> None:
    standing = obstacles(situation)
    if standing:
        raise ConflictError(
            "The organization cannot be deleted yet. " + " ".join(one.message for one in standing),
            code="organization_not_empty",
        )
    if situation.given_up_microusd > gives_up_microusd:
        raise ConflictError(
            f"{format_usd(situation.given_up_microusd)} is left in it. Nobody can use it after the deletion. "
            f"To give it up, send `gives_up_microusd={situation.given_up_microusd}`.",
            code="credit_left",
        )


async def _part_with_everybody(
    session: AsyncSession,
    keyring: Keyring,
    settings: Settings,
    actor: UserActor,
    organization: OrganizationRow,
    given_up_microusd: int,
) -> None:
    """Whoever belongs nowhere else is signed out; others stay where they are in their other organizations."""
    members = await everybody(session, organization.id)
    elsewhere = await repository.belong_elsewhere(
        session, organization.id, [row.user_id for row, _ in members]
    )
    for row, email in members:
        user_id = UserId(row.user_id)
        await forget_answers(session, user_id)
        await remove_member(session, organization.id, user_id)
        if user_id != actor.user_id and user_id not in elsewhere:
            await end_sessions(session, user_id)
        subject, text = deleted_mail(
            organization.name,
            actor.email,
            given_up_microusd,
            is_admin=row.role == Role.ADMIN,
            support_contact=settings.support_contact,
        )
        await queue_mail(session, keyring, to=email, subject=subject, text=text)
