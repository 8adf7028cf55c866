"""A machine's life: added by the operator, joined by itself, and all that may be said about it after that.

Invariants: a token lets in one machine; the states follow the table (`states.py`); a change, its audit record, its mail and
the word to the tunnel are one commit; of a machine that is removed no secret stays.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from ipaddress import IPv4Network

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import list_nodes
from moorage.engines.base import LOCAL_ENGINE
from moorage.kit.crypto import Keyring, equal, sha256
from moorage.kit.database import database_now
from moorage.kit.errors import (
    ConflictError,
    InvalidInputError,
    NotAuthenticatedError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)
from moorage.kit.ids import new_machine_id
from moorage.kit.settings import Settings
from moorage.machines import repository
from moorage.machines.models import JoinTokenRow, MachineRow
from moorage.machines.schemas import Join
from moorage.machines.states import (
    SPEAKERS,
    Happening,
    Life,
    MachineState,
    Refusal,
    Speaker,
    Tunnel,
    TunnelState,
    after,
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
from moorage.organizations.audit.repository import record_audit
from moorage.tunnel.addresses import NODE_PORT, machine_address
from moorage.tunnel.peers import HubEnd

CountReplicas = Callable[[AsyncSession, str], Awaitable[int]]
"""How many replicas have not ended on this machine, now."""
RENEW_KEY_AT_MOST_EVERY = timedelta(minutes=1)
"""Each renewal leaves a record and changes the tunnel: a hostile machine must not have as many as it likes."""


async def add(
    session: AsyncSession, settings: Settings, actor_id: str, name: str | None, infrastructure: str
) -> tuple[MachineRow, JoinTokenRow, str]:
    """The row, and the token that lets one machine be it."""
    _require_https(settings)
    await repository.take_naming_turn(session)
    if name is not None and await _is_taken(session, name, ""):
        raise ConflictError(
            f"There is a machine {name} already. If it has not joined, `moor machines command {name}` prints another "
            "command for it; if it is to be replaced, remove it first.",
            code="name_taken",
        )
    token = new_join_token()
    row = MachineRow(
        id=new_machine_id(),
        name=name,
        infrastructure=infrastructure,
        state=MachineState.JOINING,
        message=sentence(MachineState.JOINING),
        created_by=actor_id,
    )
    token_row = await repository.add_machine(session, row, sha256(token))
    await session.refresh(row)
    record_audit(session, None, actor=actor_id, action="machine.add", target=row.id, name=name)
    await repository.tell_of_change(session)
    return row, token_row, token


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
            "This machine has joined, and needs no command any more. To have another in its place, remove it.",
            code="machine_joined",
        )
    token = new_join_token()
    token_row = await repository.replace_token(session, row.id, sha256(token))
    record_audit(session, None, actor=actor_id, action="machine.new_command", target=row.id, name=row.name)
    return token_row, token


async def join(
    session: AsyncSession, keyring: Keyring, settings: Settings, wish: Join
) -> tuple[MachineRow, list[HubEnd]]:
    """Lets a machine in. The same one may ask again while its token lives, and gets the same answer."""
    row, token = await _admitted(session, wish)
    hubs = await live_hubs_or_refuse(session)
    if token.used_with is not None:
        return row, hubs
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
    record_audit(session, None, actor=row.id, action="machine.join", target=row.id, name=row.name)
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
    if row.public_key == public_key or row.state == MachineState.REMOVED:
        return
    now = await database_now(session)
    if row.key_renewed_at is not None and now - row.key_renewed_at < RENEW_KEY_AT_MOST_EVERY:
        raise TooManyRequestsError("A machine's key is renewed once in a minute at most.", retry_after_s=60)
    row.public_key = public_key
    row.key_renewed_at = now
    await _flush_keys(session)
    record_audit(session, None, actor=row.id, action="machine.renew_key", target=row.id)
    await repository.tell_of_change(session)


async def recognized(session: AsyncSession, machine_id: str, secret: str) -> MachineRow:
    """The machine that presents this secret."""
    row = await repository.find_machine(session, machine_id) if is_machine_secret(secret) else None
    if row is None or row.secret_hash is None or not equal(row.secret_hash, sha256(secret)):
        raise NotAuthenticatedError("This is no machine of this installation, or not any more.")
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
) -> MachineRow:
    """Something happens to a machine. Raises `NotFoundError`, or `ConflictError` where that cannot be. What its row says of
    replicas may be a few seconds old: whoever cannot go by that counts them."""
    assert SPEAKERS[happening] is speaker, f"{happening} is not for {speaker} to say"
    row = await repository.lock_machine(session, machine_id)
    if row is None:
        raise NotFoundError("There is no such machine.")
    if count_replicas is not None:
        row.replicas = await count_replicas(session, row.id)
    before = life_of(row)
    outcome = after(before, happening, forced=forced)
    if isinstance(outcome, Refusal):
        if happening is Happening.REMOVE and before.state is MachineState.REMOVED:
            return row
        raise ConflictError(outcome.sentence, code=outcome.code)
    if outcome == before:
        return row
    await _change(session, row, outcome)
    record_audit(
        session,
        None,
        actor=actor_id,
        action=f"machine.{happening}",
        target=row.id,
        **{"from": str(before.state), "to": str(outcome.state), "forced": forced},
    )
    if outcome.state is not before.state:
        left = happening is Happening.LEAVE
        await _tell(session, keyring, settings, row, before, outcome, left=left)
    await repository.tell_of_change(session)
    return row


def life_of(row: MachineRow) -> Life:
    before_loss = MachineState(row.state_before_loss) if row.state_before_loss is not None else None
    return Life(MachineState(row.state), before_loss, row.replicas)


async def _change(session: AsyncSession, row: MachineRow, life: Life) -> None:
    now = await database_now(session)
    if row.state != life.state:
        row.state = life.state
        row.state_since = now
        row.message = sentence(life.state)
    row.state_before_loss = life.before_loss
    if life.state is MachineState.REMOVED:
        row.sealed_credential = row.secret_hash = row.untold_since = None
    await session.flush()
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
    was_lost = before.state is MachineState.LOST and after.state is not MachineState.REMOVED
    if after.state is MachineState.LOST or was_lost:
        row.untold_since = row.untold_since or row.state_since
        await session.flush()
        return
    subject, text = change_mail(row.name or row.id, before, after, left=left)
    await queue_mail(session, keyring, to=settings.operator_email, subject=subject, text=text)


def _require_https(settings: Settings) -> None:
    if not settings.api_base_url.startswith("https://"):
        raise ConflictError(
            "Machines join over HTTPS, and this installation has no https:// address. Set public_url and api_certificate "
            "in moorage.toml, or put a proxy that speaks TLS before it, and start Moorage again.",
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
    return row, token


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
                "Another machine has this key. Each makes its own: run `moor-node leave --copied` on a copied machine, then join.",
                code="key_in_use",
            ) from exc
        raise


def _no_entry() -> NotAuthenticatedError:
    return NotAuthenticatedError(
        "This command is not known any more: another was printed since, another machine used it, or it is older than 30 "
        "minutes. Where it was printed, get another: `moor machines command NAME`, or *Another command* in the console.",
        code="join_token_refused",
    )
