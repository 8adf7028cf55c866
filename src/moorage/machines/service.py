"""A machine's life: added by the operator, joined by itself, and all that may be said about it after that.

Invariants: a token lets in one machine; the states follow the table (`states.py`); a change, its audit record, its mail and
the word to the tunnel are one commit; of a machine that is removed no secret stays.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from ipaddress import IPv4Network
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import list_nodes
from moorage.engines.base import LOCAL_ENGINE
from moorage.identity.actor import UserActor
from moorage.identity.users.repository import find_user
from moorage.kit.crypto import Keyring, equal, sha256
from moorage.kit.database import database_now
from moorage.kit.errors import (
    ConflictError,
    FieldError,
    InvalidInputError,
    NotAuthenticatedError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)
from moorage.kit.ids import UserId, new_machine_id
from moorage.kit.settings import Settings
from moorage.machines import repository
from moorage.machines.models import JoinTokenRow, MachineRow, StateChangeRow
from moorage.machines.schemas import Join
from moorage.machines.states import (
    RECLAIMED_WITHIN,
    SPEAKERS,
    Happening,
    Life,
    MachineState,
    Refusal,
    Speaker,
    Tunnel,
    TunnelState,
    after,
    new_life,
)
from moorage.machines.tokens import admits, is_join_token, is_machine_secret, new_join_token
from moorage.machines.words import (
    TUNNEL_NOT_NEEDED,
    TUNNEL_NOT_OPEN,
    TUNNEL_OPEN,
    TUNNEL_OPENS_SOON,
    TUNNEL_UNATTENDED,
    change_mail,
    sentence,
)
from moorage.notifications.repository import queue_mail
from moorage.organizations.access import hold_as_member
from moorage.organizations.audit.repository import count_lately, record_audit
from moorage.organizations.caps import MACHINES, REMOVED_MACHINES, refuse_beyond
from moorage.organizations.members.repository import admin_addresses
from moorage.organizations.permissions import Permission, allows
from moorage.organizations.repository import find_membership
from moorage.tunnel.addresses import NODE_PORT, machine_address
from moorage.tunnel.peers import HubEnd

CountReplicas = Callable[[AsyncSession, str], Awaitable[int]]
"""How many replicas have not ended on this machine, now."""
LONGEST_PAUSE = timedelta(days=366)
"""With an end. Without one it lasts until somebody resumes it."""
TOLD_PER_HOUR = 6
"""Pauses, drains and resumptions of one machine by its owner. The next are not mailed."""
_SAID_OFTEN = (Happening.PAUSE, Happening.RESUME, Happening.DRAIN, Happening.RECLAIM)
RENEW_KEY_AT_MOST_EVERY = timedelta(minutes=1)
"""Each renewal leaves a record and changes the tunnel: a hostile machine must not have as many as it likes."""


async def add(
    session: AsyncSession,
    settings: Settings,
    actor_id: str,
    name: str | None,
    owner_organization_id: str | None = None,
) -> tuple[MachineRow, JoinTokenRow, str]:
    """The row, and the token that lets one machine be it. With an owner it is lent by that organization."""
    _require_https(settings)
    await repository.take_naming_turn(session)
    if owner_organization_id is not None:
        await _require_open(session, settings, owner_organization_id)
    machine_id = new_machine_id()
    if name is not None and owner_organization_id is not None:
        # Not refused: whether somebody else has a machine of that name is none of the owner's business.
        name = await _free_name(session, name, machine_id)
    if name is not None and await _is_taken(session, name, ""):
        raise ConflictError(
            f"A machine {name} already exists. If it has not joined, `moor machines command {name}` prints "
            "another command for it. To replace it, remove it first.",
            code="name_taken",
        )
    token = new_join_token()
    life = new_life(is_lent=owner_organization_id is not None)
    row = MachineRow(
        id=machine_id,
        name=name,
        infrastructure="community" if life.is_lent else "operator",
        owner_organization_id=owner_organization_id,
        state=life.state,
        standing=life.standing,
        message=sentence(life.state),
        created_by=actor_id,
    )
    token_row = await repository.add_machine(session, row, sha256(token))
    await session.refresh(row)
    _record(session, row, actor_id, "machine.add")
    await repository.tell_of_change(session)
    return row, token_row, token


async def lend(
    session: AsyncSession, settings: Settings, actor: UserActor, name: str | None, organization_id: str
) -> tuple[MachineRow, JoinTokenRow, str]:
    await repository.take_naming_turn(session)
    await hold_as_member(session, organization_id, actor.user_id)
    return await add(session, settings, actor.id, name, organization_id)


async def new_command(
    session: AsyncSession, settings: Settings, actor_id: str, machine_id: str
) -> tuple[JoinTokenRow, str]:
    """Another token for a machine that has not joined. The one before lets nobody in any more."""
    _require_https(settings)
    row = await repository.lock_machine(session, machine_id)
    if row is None:
        raise NotFoundError("There is no such machine.")
    if row.state == MachineState.REMOVED:
        raise ConflictError("This machine was removed. Add it again to have it back.", code="machine_removed")
    if row.joined_at is not None:
        raise ConflictError(
            "This machine has joined and needs no command. To replace it with another, remove it first.",
            code="machine_joined",
        )
    token = new_join_token()
    token_row = await repository.replace_token(session, row.id, sha256(token))
    row.created_by = actor_id
    _record(session, row, actor_id, "machine.new_command")
    return token_row, token


async def join(
    session: AsyncSession, keyring: Keyring, settings: Settings, wish: Join
) -> tuple[MachineRow, list[HubEnd]]:
    """Lets a machine in. The same one may ask again while its token lives, and gets the same answer."""
    row, token = await _admitted(session, wish)
    hubs = await live_hubs_or_refuse(session)
    if token.used_with is not None:
        return row, hubs
    if row.owner_organization_id is not None:
        await _refuse_banned(session, row.owner_organization_id)
    if row.owner_organization_id is not None and wish.facts.runtime is None:
        raise InvalidInputError(
            "A lent machine must run containers in a sandbox, and this one has not tried one. Run the join command exactly as printed.",
            code="sandbox_needed",
        )
    await repository.take_naming_turn(session)
    taken = await repository.given_addresses(session)
    try:
        address = str(machine_address(IPv4Network(settings.tunnel_network), taken))
    except ValueError as exc:
        raise ConflictError("The tunnel's network is full.", code="tunnel_full") from exc
    name = row.name or await _free_name(session, wish.hostname, row.id)
    now = await database_now(session)
    # From here on nothing is asked of the database until all of it is said.
    row.address = address
    row.name = name
    row.port = NODE_PORT
    row.public_key = wish.public_key
    row.sealed_credential = keyring.encrypt(wish.credential.encode(), repository.credential_context(row.id))
    row.secret_hash = sha256(wish.secret)
    row.facts = wish.facts.model_dump()
    row.joined_at = now
    token.used_with = _brought(wish)
    await _flush_keys(session)
    _record(session, row, row.id, "machine.join")
    await repository.tell_of_change(session)
    return row, hubs


async def live_hubs_or_refuse(session: AsyncSession) -> list[HubEnd]:
    hubs = await repository.live_hubs(session)
    if not hubs:
        raise UnavailableError((await tunnel(session)).message, code="no_tunnel")
    return hubs


async def tunnel(session: AsyncSession) -> Tunnel:
    """The installation's end of it."""
    if not await repository.any_machine(session):
        return Tunnel(TunnelState.NOT_NEEDED, TUNNEL_NOT_NEEDED)
    if await repository.live_hubs(session):
        return Tunnel(TunnelState.OPEN, TUNNEL_OPEN)
    if not await repository.hub_addresses(session):
        return Tunnel(TunnelState.OPENING, f"{TUNNEL_NOT_OPEN} {TUNNEL_OPENS_SOON}")
    errors = await repository.hub_errors(session)
    return Tunnel(TunnelState.FAILING, f"{TUNNEL_NOT_OPEN} {errors[0] if errors else TUNNEL_UNATTENDED}")


async def renew_key(session: AsyncSession, machine_id: str, public_key: str) -> None:
    """Repeatable: the machine may not have heard the answer."""
    row = await repository.lock_machine(session, machine_id)
    assert row is not None, "rows of machines stay"
    if row.public_key == public_key or row.state in (MachineState.REMOVED, MachineState.BANNED):
        return
    now = await database_now(session)
    if row.key_renewed_at is not None and now - row.key_renewed_at < RENEW_KEY_AT_MOST_EVERY:
        raise TooManyRequestsError("A machine's key can be renewed at most once a minute.", retry_after_s=60)
    row.public_key = public_key
    row.key_renewed_at = now
    await _flush_keys(session)
    _record(session, row, row.id, "machine.renew_key")
    await repository.tell_of_change(session)


async def recognized(session: AsyncSession, machine_id: str, secret: str) -> MachineRow:
    """The machine that presents this secret."""
    row = await repository.find_machine(session, machine_id) if is_machine_secret(secret) else None
    if row is None or row.secret_hash is None or not equal(row.secret_hash, sha256(secret)):
        raise NotAuthenticatedError("This machine does not belong to this installation, or no longer does.")
    return row


async def say(
    session: AsyncSession,
    keyring: Keyring,
    settings: Settings,
    machine_id: str,
    happening: Happening,
    *,
    speaker: Speaker,
    actor_id: str,
    forced: bool = False,
    count_replicas: CountReplicas | None = None,
    until: datetime | None = None,
    because: str | None = None,
) -> MachineRow:
    """Something happens to a machine. Raises `NotFoundError`, or `ConflictError` where that cannot be. What its row says of
    replicas may be a few seconds old: whoever cannot go by that counts them. `until`: of a pause that ends by itself. `because`:
    a sentence for those who read its state."""
    assert speaker in SPEAKERS[happening], f"{happening} is not for {speaker} to say"
    row = await repository.lock_machine(session, machine_id)
    if row is None:
        raise NotFoundError("There is no such machine.")
    if count_replicas is not None:
        row.replicas = await count_replicas(session, row.id)
    before = life_of(row)
    outcome = after(before, happening, speaker=speaker, forced=forced)
    if isinstance(outcome, Refusal):
        if happening is Happening.REMOVE and before.state is MachineState.REMOVED:
            return row
        raise ConflictError(outcome.sentence, code=outcome.code)
    pauses = happening is Happening.PAUSE and outcome.stopped_by is speaker
    reclaims = happening is Happening.RECLAIM
    if outcome == before and not pauses and not reclaims:
        return row
    await _change(session, row, outcome, because)
    # Both last as long as the stop that they belong to: also while it does not answer, or how it stands changes.
    if pauses or not outcome.is_stopped_as(before):
        row.paused_until = until if pauses else None
    if reclaims or outcome.when_it_answers is not MachineState.DRAINING:
        row.empty_by = await database_now(session) + RECLAIMED_WITHIN if reclaims else None
    more = {"because": because} if because is not None else {}
    _record(
        session,
        row,
        actor_id,
        f"machine.{happening}",
        by=speaker,
        **{"from": str(before.state), "to": str(outcome.state), "forced": forced, **more},
    )
    if outcome.state is not before.state and not await _is_said_often(session, row, happening, speaker):
        left = happening is Happening.LEAVE
        await _tell(session, keyring, settings, row, before, outcome, left=left)
    await repository.tell_of_change(session)
    return row


def check_until(until: datetime, now: datetime) -> None:
    """Raises `InvalidInputError` for an end of a pause that is over, or that nobody will see."""
    if not now < until <= now + LONGEST_PAUSE:
        problem = "must be in the future, and within a year"
        raise InvalidInputError(f"The end of the pause {problem}.", fields=(FieldError("until", problem),))


def life_of(row: MachineRow) -> Life:
    return Life(
        MachineState(row.state),
        MachineState(row.state_before_loss) if row.state_before_loss is not None else None,
        row.replicas,
        MachineState(row.standing),
        Speaker(row.stopped_by) if row.stopped_by is not None else None,
        row.owner_organization_id is not None,
    )


async def _require_open(session: AsyncSession, settings: Settings, organization_id: str) -> None:
    if not settings.community_machines:
        raise ConflictError(
            "This installation takes no machines of organizations. The operator can allow them (community_machines).",
            code="community_machines_closed",
        )
    await _refuse_banned(session, organization_id)
    there = await repository.count_lent(session, organization_id)
    refuse_beyond(MACHINES, there, settings.machines_per_organization)
    # Each that joined keeps an address of the tunnel from everybody else for as long.
    removed = await repository.count_removed_lately(session, organization_id)
    refuse_beyond(REMOVED_MACHINES, removed, settings.machines_per_organization)


async def _refuse_banned(session: AsyncSession, organization_id: str) -> None:
    """A machine is known by what it says of itself: under another name, and with other keys, it would be another one."""
    if await repository.has_banned(session, organization_id):
        raise ConflictError(
            "The operator banned a machine of this organization. Until the ban is lifted, the organization cannot lend more.",
            code="machine_banned",
        )


def _record(
    session: AsyncSession,
    row: MachineRow,
    actor_id: str,
    action: str,
    by: Speaker | None = None,
    **details: Any,
) -> None:
    """In the installation's log; and in its owner's, which tells no more of the operator than that it was them. With its name,
    which tells it from others also when it has left."""
    details = {"name": row.name, **details}
    record_audit(session, None, actor=actor_id, action=action, target=row.id, **details)
    if row.owner_organization_id is not None:
        actor = "operator" if by is Speaker.OPERATOR else actor_id
        record_audit(session, row.owner_organization_id, actor=actor, action=action, target=row.id, **details)


async def _change(session: AsyncSession, row: MachineRow, life: Life, because: str | None) -> None:
    now = await database_now(session)
    if row.state != life.state:
        row.state = life.state
        row.state_since = now
        row.message = sentence(life.state)
        session.add(StateChangeRow(machine_id=row.id, at=now, state=life.state, before_loss=life.before_loss))
    row.state_before_loss = life.before_loss
    if life.standing is MachineState.VERIFYING and row.standing != life.standing:
        row.proof_due_at = None
    row.standing, row.stopped_by = life.standing, life.stopped_by
    if because is not None:
        row.held_because = because
    elif life.stopped_by is not Speaker.MOORAGE and life.state is not MachineState.BANNED:
        row.held_because = None
    if life.state in (MachineState.REMOVED, MachineState.BANNED):
        row.untold_since = None
    if life.state is MachineState.REMOVED:
        row.sealed_credential = row.secret_hash = None
    await session.flush()
    await repository.condense_state_changes(session, row.id)
    if life.state is MachineState.REMOVED:
        await repository.remove_token(session, row.id)


async def _tell(
    session: AsyncSession,
    keyring: Keyring,
    settings: Settings,
    row: MachineRow,
    before: Life,
    after: Life,
    *,
    left: bool,
) -> None:
    """At once; but losses and returns a little later, many in one mail (`telling.py`)."""
    gone = after.state in (MachineState.REMOVED, MachineState.BANNED)
    was_lost = before.state is MachineState.LOST and not gone
    if after.state is MachineState.LOST or was_lost:
        row.untold_since = row.untold_since or row.state_since
        await session.flush()
        return
    subject, text = change_mail(row.name or row.id, before, after, left=left, because=row.held_because)
    for address in await told_of(session, settings, row):
        await queue_mail(session, keyring, to=address, subject=subject, text=text)


async def _is_said_often(
    session: AsyncSession, row: MachineRow, happening: Happening, speaker: Speaker
) -> bool:
    """By its owner, who may say it all day: then it is no news, and its mails would keep others' waiting."""
    if happening not in _SAID_OFTEN or speaker is not Speaker.OWNER or row.owner_organization_id is None:
        return False
    actions = [f"machine.{one}" for one in _SAID_OFTEN]
    await session.flush()
    said = await count_lately(session, row.owner_organization_id, actions, timedelta(hours=1), target=row.id)
    return said > TOLD_PER_HOUR


async def told_of(session: AsyncSession, settings: Settings, row: MachineRow) -> list[str]:
    """Whoever lends it; and the operator of their own machines, and of what they have to decide."""
    operators = row.owner_organization_id is None or row.stopped_by == Speaker.MOORAGE
    owners = (
        await admin_addresses(session, row.owner_organization_id)
        if row.owner_organization_id is not None
        else []
    )
    return [*([settings.operator_email] if operators else []), *owners]


def _require_https(settings: Settings) -> None:
    if not settings.api_base_url.startswith("https://"):
        raise ConflictError(
            "Machines join over HTTPS, but this installation has no https:// address. Set public_url and "
            "acme_email, or api_certificate, in moorage.toml, or put a TLS proxy in front of it. Then "
            "restart Moorage.",
            code="https_needed",
        )


async def _admitted(session: AsyncSession, wish: Join) -> tuple[MachineRow, JoinTokenRow]:
    token_hash = sha256(wish.token)
    token = await repository.find_token(session, token_hash) if is_join_token(wish.token) else None
    # The machine's row is the lock: two who bring the same token come one after the other, and the second reads it anew.
    row = await repository.lock_machine(session, token.machine_id) if token is not None else None
    token = await repository.find_token(session, token_hash) if row is not None else None
    if row is None or token is None:
        raise _no_entry()
    now = await database_now(session)
    if not admits(expires_at=token.expires_at, used_with=token.used_with, brought=_brought(wish), now=now):
        raise _no_entry()
    if token.used_with is None and not await _may_still_lend(session, row):
        raise _no_entry()
    return row, token


async def _may_still_lend(session: AsyncSession, row: MachineRow) -> bool:
    """Whoever printed the command: with their right to lend machines for the organization it ends too."""
    if row.owner_organization_id is None:
        return True  # Whoever is the operator stays it.
    found = await find_membership(session, row.owner_organization_id, UserId(row.created_by))
    if found is not None and allows(found[1], Permission.MACHINE_MANAGE):
        return True
    printed_by = await find_user(session, row.created_by)
    return printed_by is not None and printed_by.is_operator


def _brought(wish: Join) -> bytes:
    return sha256(f"{wish.public_key} {wish.credential} {wish.secret}")


async def _is_taken(session: AsyncSession, name: str, machine_id: str) -> bool:
    """By another that joined, or by the machine that Moorage itself runs on: the operator speaks of both by name."""
    own = {node.name for node in await list_nodes(session) if node.engine == LOCAL_ENGINE}
    return name in own or await repository.is_name_taken(session, name, machine_id)


async def _free_name(session: AsyncSession, hostname: str, machine_id: str) -> str:
    if await _is_taken(session, hostname, machine_id):
        return f"{hostname[:50]}-{machine_id[-6:]}"
    return hostname


async def _flush_keys(session: AsyncSession) -> None:
    try:
        await session.flush()
    except IntegrityError as exc:
        if "uq_machines_public_key" in str(exc.orig):
            raise InvalidInputError(
                "Another machine has this key, but each needs its own. On a copied machine, run `moor-node leave --copied`, then join.",
                code="key_in_use",
            ) from exc
        raise


def _no_entry() -> NotAuthenticatedError:
    return NotAuthenticatedError(
        "This command no longer works: a newer one was printed, another machine used it, it is older than "
        "30 minutes, or the person who printed it may no longer lend machines. Get another one with "
        "`moor machines command NAME` or *Another command* in the console.",
        code="join_token_refused",
    )
