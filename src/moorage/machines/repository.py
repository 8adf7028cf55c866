"""SQL of machines, their tokens and the tunnel's hubs."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter

from sqlalchemy import BigInteger, case, cast, delete, exists, func, or_, select, tuple_, union_all, update
from sqlalchemy.dialects.postgresql import INET, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from moorage.engines.remote.proven import Proven
from moorage.kit.crypto import Keyring
from moorage.kit.database import notify, table_of, take_turn
from moorage.kit.errors import DecryptionError
from moorage.kit.ids import MachineId
from moorage.kit.installation import InstallationRow
from moorage.kit.pagination import PageRequest
from moorage.kit.portions import portions
from moorage.machines.channels import MACHINES
from moorage.machines.models import HubRow, JoinTokenRow, MachineRow, StateChangeRow
from moorage.machines.proof.rules import APART
from moorage.machines.reliability import WINDOW, Presence, StateChange, condensed, presence
from moorage.machines.states import WITH_ENGINE, Happening, MachineState, Speaker
from moorage.machines.tokens import LIFETIME
from moorage.organizations.audit.models import AuditRecordRow
from moorage.organizations.models import OrganizationRow
from moorage.tunnel.peers import HubEnd, MachineEnd

HUB_SILENT_AFTER = timedelta(seconds=60)
ADDRESS_RESTS = timedelta(days=7)
"""Of a machine that was removed, before another may have its address: no gateway believes anything about it by then."""
MOST_STATE_CHANGES = 200
"""Kept of one machine; condensed, a month has 125 at most."""
HISTORIES_AT_ONCE = 5
"""Of machines that are looked at together: a thousand changes, for which this computes for some ten milliseconds."""
_PRESENT = MachineRow.state != MachineState.REMOVED
_REMOVED = MachineRow.state == MachineState.REMOVED
_SPOKEN_TO = MachineRow.state != MachineState.BANNED


@dataclass(frozen=True)
class EngineMachine:
    """What an engine for it is made of."""

    id: MachineId
    name: str
    infrastructure: str
    state: MachineState
    address: str
    port: int
    credential: str | None = field(repr=False)
    """None where it cannot be read: its row is damaged, or was sealed with a key that is gone."""
    owner: str | None = None
    """The organization that lends it."""
    verified: bool = True
    proven: Proven | None = None

    @property
    def node_name(self) -> str:
        """How tenants know it: not by the name that its owner gave it."""
        return self.name if self.owner is None else self.id


async def list_engine_machines(session: AsyncSession, keyring: Keyring) -> list[EngineMachine]:
    """Those that should have an engine now, the oldest first. Lost ones too: it is how they are found again."""
    query = select(MachineRow).where(MachineRow.state.in_(WITH_ENGINE))
    rows = (await session.execute(query.order_by(MachineRow.joined_at, MachineRow.id))).scalars()
    return [_engine_machine(row, keyring) for row in rows]


async def note_replicas(session: AsyncSession, counts: Mapping[str, int]) -> None:
    """How many replicas have not left each machine, by its name; none on those that are not named, or that were removed."""
    noted = select(MachineRow.id, MachineRow.name, MachineRow.state, MachineRow.replicas)
    # In the order in which `lock_untold` locks them.
    rows = await session.execute(noted.where(_PRESENT | (MachineRow.replicas > 0)).order_by(MachineRow.id))
    for machine_id, name, state, before in rows.all():
        count = counts.get(name or "", 0) if state != MachineState.REMOVED else 0
        if count != before:
            its = update(MachineRow).where(MachineRow.id == machine_id)
            await session.execute(its.values(replicas=count))


async def list_machines(
    session: AsyncSession, page: PageRequest, owner_organization_id: str | None = None
) -> list[MachineRow]:
    """All, or those that an organization lends."""
    query = select(MachineRow).where(_PRESENT)
    if owner_organization_id is not None:
        query = query.where(MachineRow.owner_organization_id == owner_organization_id)
    if page.after is not None:
        query = query.where(tuple_(MachineRow.created_at, MachineRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(MachineRow.created_at.desc(), MachineRow.id.desc())
    return list((await session.execute(newest_first.limit(page.limit + 1))).scalars())


async def search_machines(
    session: AsyncSession, wanted: str, most: int
) -> list[tuple[str, str, str | None, str | None]]:
    """(id, name, the id and the name of the organization that lends it)."""
    query = (
        select(MachineRow.id, MachineRow.name, OrganizationRow.id, OrganizationRow.name)
        .outerjoin(OrganizationRow, OrganizationRow.id == MachineRow.owner_organization_id)
        .where(_PRESENT, or_(MachineRow.name.icontains(wanted, autoescape=True), MachineRow.id == wanted))
        .order_by(MachineRow.name, MachineRow.id)
    )
    rows = await session.execute(query.limit(most))
    return [(id_, name or id_, owner, owner_name) for id_, name, owner, owner_name in rows]


async def count_lent(session: AsyncSession, organization_id: str) -> int:
    query = select(func.count()).select_from(MachineRow).where(_PRESENT)
    return (
        await session.execute(query.where(MachineRow.owner_organization_id == organization_id))
    ).scalar_one()


async def count_removed_lately(session: AsyncSession, organization_id: str) -> int:
    """Those of it whose addresses rest."""
    query = select(func.count()).select_from(MachineRow)
    lately = MachineRow.state_since > func.now() - ADDRESS_RESTS
    its = MachineRow.owner_organization_id == organization_id
    return (await session.execute(query.where(_REMOVED, its, lately))).scalar_one()


async def has_banned(session: AsyncSession, organization_id: str) -> bool:
    query = select(MachineRow.id).where(
        MachineRow.owner_organization_id == organization_id, MachineRow.state == MachineState.BANNED
    )
    return (await session.execute(query.limit(1))).first() is not None


async def state_changes(
    session: AsyncSession, machine_ids: Sequence[str]
) -> dict[str, Sequence[StateChange]]:
    """What each was, oldest first: in the last 30 days, and before them. Of some at a time: `portions`."""
    row = StateChangeRow
    query = select(row.machine_id, row.at, row.state, row.before_loss).where(row.machine_id.in_(machine_ids))
    found: dict[str, Sequence[StateChange]] = {machine_id: [] for machine_id in machine_ids}
    by_machine = groupby(await session.execute(query.order_by(row.machine_id, row.at)), itemgetter(0))
    for machine_id, rows in by_machine:
        found[machine_id] = [
            StateChange(at, MachineState(state), MachineState(before) if before is not None else None)
            for _, at, state, before in rows
        ]
    return found


async def presences(session: AsyncSession, machine_ids: Iterable[str], now: datetime) -> dict[str, Presence]:
    found: dict[str, Presence] = {}
    for some in portions(machine_ids, HISTORIES_AT_ONCE):
        histories = await state_changes(session, some)
        found |= {machine_id: presence(changes, now) for machine_id, changes in histories.items()}
    return found


async def condense_state_changes(session: AsyncSession, machine_id: str) -> None:
    """Where there are too many: whoever looks at the machine reads all of them. Lock the machine first."""
    mine = StateChangeRow.machine_id == machine_id
    count = (await session.execute(select(func.count()).where(mine))).scalar_one()
    if count <= MOST_STATE_CHANGES:
        return
    changes = (await state_changes(session, [machine_id]))[machine_id]
    await session.execute(delete(StateChangeRow).where(mine).execution_options(synchronize_session=False))
    told = [
        {"machine_id": machine_id, "at": one.at, "state": one.state, "before_loss": one.before_loss}
        for one in condensed(changes)
    ]
    await session.execute(insert(table_of(StateChangeRow)), told)


async def machines_to_prove(session: AsyncSession) -> dict[str, str]:
    """Lent ones that answer, and have to prove by now what they claim: machine → owner, who waits longest first."""
    states = (MachineState.VERIFYING, MachineState.PROBATION, MachineState.ACTIVE)
    due = or_(MachineRow.proof_due_at.is_(None), MachineRow.proof_due_at <= func.now())
    query = select(MachineRow.id, MachineRow.owner_organization_id).where(
        MachineRow.owner_organization_id.is_not(None), MachineRow.state.in_(states), due
    )
    waiting = await session.execute(query.order_by(MachineRow.proof_due_at.nulls_first(), MachineRow.id))
    return {machine_id: str(owner) for machine_id, owner in waiting}


async def note_proof(
    session: AsyncSession, machine_id: str, again_in: timedelta, failure: str | None
) -> None:
    proven = {"proven_at": func.now()} if failure is None else {}
    values = {"proof_due_at": func.now() + again_in, "proof_failure": failure, **proven}
    its = update(MachineRow).where(MachineRow.id == machine_id).values(values)
    await session.execute(its.execution_options(synchronize_session=False))


async def hurry_proof(session: AsyncSession, machine_id: str) -> None:
    """It claims more than it has proven. Not of one that has failed or proven something just now: its time comes."""
    its = update(MachineRow).where(
        MachineRow.id == machine_id,
        MachineRow.proof_failure.is_(None),
        MachineRow.proof_due_at > func.now(),
        MachineRow.proven_at < func.now() - APART,
    )
    await session.execute(its.values(proof_due_at=func.now()).execution_options(synchronize_session=False))


async def lent_machines(session: AsyncSession) -> list[MachineRow]:
    """That Moorage speaks to."""
    is_lent = MachineRow.owner_organization_id.is_not(None)
    query = select(MachineRow).where(_PRESENT, _SPOKEN_TO, is_lent, MachineRow.joined_at.is_not(None))
    return list((await session.execute(query.order_by(MachineRow.id))).scalars())


async def overdue_pauses(session: AsyncSession) -> list[str]:
    """Machines that are to be resumed by now."""
    query = select(MachineRow.id).where(_PRESENT, MachineRow.paused_until <= func.now())
    return list((await session.execute(query.order_by(MachineRow.id))).scalars())


async def lock_overdue_pause(session: AsyncSession, machine_id: str) -> Speaker | None:
    """Whose pause is over; None where it is not. Nobody says anything else about the machine until this transaction ends."""
    its = (
        (MachineRow.id == machine_id)
        & (MachineRow.paused_until <= func.now())
        & MachineRow.stopped_by.in_((Speaker.OWNER, Speaker.OPERATOR))
    )
    query = select(MachineRow.stopped_by).where(its).with_for_update()
    by = (await session.execute(query)).scalar_one_or_none()
    return Speaker(by) if by is not None else None


async def find_machine(session: AsyncSession, machine_id: str) -> MachineRow | None:
    return (await session.execute(select(MachineRow).where(MachineRow.id == machine_id))).scalar_one_or_none()


async def lock_machine(session: AsyncSession, machine_id: str) -> MachineRow | None:
    query = select(MachineRow).where(MachineRow.id == machine_id).with_for_update()
    return (await session.execute(query.execution_options(populate_existing=True))).scalar_one_or_none()


async def add_machine(session: AsyncSession, row: MachineRow, token_hash: bytes) -> JoinTokenRow:
    session.add(row)
    await session.flush()
    return await _add_token(session, row.id, token_hash)


async def find_token(session: AsyncSession, token_hash: bytes) -> JoinTokenRow | None:
    query = select(JoinTokenRow).where(JoinTokenRow.token_hash == token_hash)
    return (await session.execute(query.execution_options(populate_existing=True))).scalar_one_or_none()


async def join_deadlines(session: AsyncSession, machine_ids: Sequence[str]) -> dict[str, datetime]:
    """Until when the command of each works, of those that nobody used yet."""
    unused = JoinTokenRow.machine_id.in_(machine_ids) & JoinTokenRow.used_with.is_(None)
    query = select(JoinTokenRow.machine_id, JoinTokenRow.expires_at).where(unused)
    return {row[0]: row[1] for row in await session.execute(query)}


async def replace_token(session: AsyncSession, machine_id: str, token_hash: bytes) -> JoinTokenRow:
    await remove_token(session, machine_id)
    return await _add_token(session, machine_id, token_hash)


async def remove_token(session: AsyncSession, machine_id: str) -> None:
    await session.execute(delete(JoinTokenRow).where(JoinTokenRow.machine_id == machine_id))


async def is_name_taken(session: AsyncSession, name: str, machine_id: str) -> bool:
    query = select(MachineRow.id).where(MachineRow.name == name, MachineRow.id != machine_id, _PRESENT)
    return (await session.execute(query)).first() is not None


async def take_naming_turn(session: AsyncSession) -> None:
    """Until the transaction ends, nobody else takes a name or an address."""
    await take_turn(session, "machine-names")


async def given_addresses(session: AsyncSession) -> set[int]:
    """As numbers, in one piece: there may be as many as the network has. Also those that rest. Take the turn first."""
    given = union_all(
        select(MachineRow.address).where(MachineRow.address.is_not(None)), select(HubRow.address)
    ).subquery()
    number = cast(given.c.address, INET).op("-", return_type=BigInteger)(cast("0.0.0.0", INET))  # noqa: S104 - no address to listen at
    return set((await session.execute(select(func.array_agg(number)))).scalar_one() or ())


async def free_addresses(session: AsyncSession) -> None:
    """Of machines that were removed long enough ago."""
    rested = _REMOVED & (MachineRow.state_since < func.now() - ADDRESS_RESTS)
    its = update(MachineRow).where(rested, MachineRow.address.is_not(None)).values(address=None)
    await session.execute(its.execution_options(synchronize_session=False))


async def tell_of_change(session: AsyncSession) -> None:
    await notify(session, MACHINES)


async def joined_machines(session: AsyncSession) -> list[str]:
    """Those that can answer."""
    query = select(MachineRow.id).where(_PRESENT, _SPOKEN_TO, MachineRow.joined_at.is_not(None))
    return list((await session.execute(query.order_by(MachineRow.id))).scalars())


async def installation_id(session: AsyncSession) -> str:
    return str((await session.execute(select(InstallationRow.id))).scalar_one())


async def note_seen(session: AsyncSession, machine_id: str) -> None:
    await session.execute(
        update(MachineRow).where(MachineRow.id == machine_id, _PRESENT).values(seen_at=func.now())
    )


async def untold_due_in_s(
    session: AsyncSession, told_after: timedelta, often: int, told_after_often: timedelta
) -> float | None:
    """In how long the operator is to be told of machines that were lost or came back; None where there are none. Of one that
    was lost more than `often` times in the last hour, later."""
    record = AuditRecordRow
    lost_lately = select(func.count()).where(
        record.organization_id.is_(None),
        record.at > func.now() - timedelta(hours=1),
        record.target == MachineRow.id,
        record.action == f"machine.{Happening.SILENT}",
    )
    is_often = lost_lately.correlate(MachineRow).scalar_subquery() > often
    due_at = MachineRow.untold_since + case((is_often, told_after_often), else_=told_after)
    first = select(func.min(due_at)).where(MachineRow.untold_since.is_not(None)).scalar_subquery()
    in_s = func.extract("epoch", first - func.clock_timestamp())
    found = (await session.execute(select(in_s))).scalar_one()
    return float(found) if found is not None else None


async def lock_untold(session: AsyncSession) -> list[MachineRow]:
    """In the order of their ids."""
    query = select(MachineRow).where(MachineRow.untold_since.is_not(None)).order_by(MachineRow.id)
    return list((await session.execute(query.with_for_update())).scalars())


async def any_machine(session: AsyncSession) -> bool:
    return (await session.execute(select(MachineRow.id).where(_PRESENT).limit(1))).first() is not None


async def lost_machines(session: AsyncSession) -> set[str]:
    query = select(MachineRow.id).where(MachineRow.state == MachineState.LOST)
    return set((await session.execute(query)).scalars())


async def machine_ends(session: AsyncSession) -> list[MachineEnd]:
    query = select(MachineRow).where(_PRESENT, _SPOKEN_TO, MachineRow.joined_at.is_not(None))
    return [
        MachineEnd(row.id, row.address or "", row.public_key or "")
        for row in (await session.execute(query)).scalars()
    ]


async def live_hubs(session: AsyncSession) -> list[HubEnd]:
    """Those that machines can dial."""
    query = select(HubRow).where(HubRow.seen_at > func.now() - HUB_SILENT_AFTER, HubRow.error.is_(None))
    return [
        HubEnd(row.id, row.address, row.public_key, row.endpoint)
        for row in (await session.execute(query.order_by(HubRow.id))).scalars()
    ]


async def hub_errors(session: AsyncSession) -> list[str]:
    query = select(HubRow.error).where(HubRow.error.is_not(None)).order_by(HubRow.id)
    return [error for error in (await session.execute(query)).scalars() if error is not None]


async def hub_addresses(session: AsyncSession) -> list[str]:
    return list((await session.execute(select(HubRow.address).order_by(HubRow.address))).scalars())


async def find_hub(session: AsyncSession, hub_id: str) -> HubRow | None:
    return (await session.execute(select(HubRow).where(HubRow.id == hub_id))).scalar_one_or_none()


async def save_hub(session: AsyncSession, hub: HubEnd) -> None:
    values = {"public_key": hub.public_key, "endpoint": hub.endpoint, "seen_at": func.now()}
    insertion = insert(HubRow).values(id=hub.hub_id, address=hub.address, **values)
    await session.execute(insertion.on_conflict_do_update(index_elements=[HubRow.id], set_=values))


async def record_hub_error(session: AsyncSession, hub_id: str, error: str | None) -> None:
    changed = or_(HubRow.error.is_distinct_from(error), HubRow.seen_at < func.now() - HUB_SILENT_AFTER / 4)
    await session.execute(
        update(HubRow).where(HubRow.id == hub_id, changed).values(error=error, seen_at=func.now())
    )


async def remove_hub(session: AsyncSession, hub_id: str) -> None:
    await session.execute(delete(HubRow).where(HubRow.id == hub_id))


async def _add_token(session: AsyncSession, machine_id: str, token_hash: bytes) -> JoinTokenRow:
    token = JoinTokenRow(token_hash=token_hash, machine_id=machine_id, expires_at=func.now() + LIFETIME)
    session.add(token)
    await session.flush()
    await session.refresh(token)
    return token


def credential_context(machine_id: str) -> str:
    return f"machines.sealed_credential:{machine_id}"


def _engine_machine(row: MachineRow, keyring: Keyring) -> EngineMachine:
    name, address, port, sealed = row.name, row.address, row.port, row.sealed_credential
    assert name is not None, "a constraint says so"
    assert address is not None, "a constraint says so"
    assert port is not None, "a constraint says so"
    assert sealed is not None, "a constraint says so"
    credential = None
    with suppress(DecryptionError):  # for whoever makes an engine to tell: the other machines have theirs
        credential = keyring.decrypt(sealed, credential_context(row.id)).decode()
    return EngineMachine(
        MachineId(row.id),
        name,
        row.infrastructure,
        MachineState(row.state),
        address,
        port,
        credential,
        row.owner_organization_id,
        row.standing != MachineState.VERIFYING,
        Proven.from_json(row.facts["proven"]) if "proven" in row.facts else None,
    )


async def purge_state_changes(session: AsyncSession) -> None:
    """Those that ended before the time that counts."""
    newer = aliased(StateChangeRow)
    ended = exists().where(
        newer.machine_id == StateChangeRow.machine_id,
        newer.at > StateChangeRow.at,
        newer.at < func.now() - WINDOW,
    )
    await session.execute(delete(StateChangeRow).where(ended).execution_options(synchronize_session=False))
