"""SQL of machines, their tokens and the tunnel's hubs."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv4Address

from sqlalchemy import case, delete, func, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.crypto import Keyring
from moorage.kit.database import notify, take_turn
from moorage.kit.errors import DecryptionError
from moorage.kit.ids import MachineId
from moorage.kit.installation import InstallationRow
from moorage.kit.pagination import PageRequest
from moorage.machines.channels import MACHINES
from moorage.machines.models import HubRow, JoinTokenRow, MachineRow
from moorage.machines.states import WITH_ENGINE, Happening, MachineState
from moorage.machines.tokens import LIFETIME
from moorage.organizations.audit.models import AuditRecordRow
from moorage.tunnel.peers import HubEnd, MachineEnd

HUB_SILENT_AFTER = timedelta(seconds=60)
_PRESENT = MachineRow.state != MachineState.REMOVED


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
    before_loss: MachineState | None = None

    @property
    def when_it_answers(self) -> MachineState:
        """What it is, or will be again."""
        return self.before_loss or self.state

    @property
    def ready(self) -> bool:
        """It answers."""
        return self.state is not MachineState.LOST

    @property
    def schedulable(self) -> bool:
        """New replicas may be placed there."""
        return self.state is MachineState.ACTIVE


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


async def list_machines(session: AsyncSession, page: PageRequest) -> list[MachineRow]:
    query = select(MachineRow).where(_PRESENT)
    if page.after is not None:
        query = query.where(tuple_(MachineRow.created_at, MachineRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(MachineRow.created_at.desc(), MachineRow.id.desc())
    return list((await session.execute(newest_first.limit(page.limit + 1))).scalars())


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


async def given_addresses(session: AsyncSession) -> set[IPv4Address]:
    """Also to those that are gone. Take the turn first."""
    given = (
        select(MachineRow.address).where(MachineRow.address.is_not(None)).union_all(select(HubRow.address))
    )
    return {IPv4Address(address) for address in (await session.execute(given)).scalars()}


async def tell_of_change(session: AsyncSession) -> None:
    await notify(session, MACHINES)


async def joined_machines(session: AsyncSession) -> list[str]:
    """Those that can answer."""
    query = select(MachineRow.id).where(_PRESENT, MachineRow.joined_at.is_not(None))
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
    query = select(MachineRow).where(_PRESENT, MachineRow.joined_at.is_not(None))
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
        MachineState(row.state_before_loss) if row.state_before_loss is not None else None,
    )
