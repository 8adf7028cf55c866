"""SQL of what gateways hold of limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Float, String, bindparam, case, cast, delete, func, select, true, tuple_, update
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import GatewayRow, LimitShareRow
from moorage.gateway.limit_sharing import NOTHING_YET, Part, Peer
from moorage.gateway.rate_rules import Scope
from moorage.gateway.rate_tables import LimitName
from moorage.kit.database import table_of, take_turn
from moorage.kit.ids import GatewayId

_TURN = "limit shares"

# One that was by itself had nothing to agree on.
_HEARD_AT = case(
    (GatewayRow.limit_divisor == 1, func.greatest(GatewayRow.seen_at, GatewayRow.limits_agreed_at)),
    else_=GatewayRow.limits_agreed_at,
)
_SILENT_S = cast(func.extract("epoch", func.clock_timestamp() - _HEARD_AT), Float)
_ALL = select(
    GatewayRow.id,
    GatewayRow.limit_divisor,
    func.coalesce(_SILENT_S, 1e9),
    LimitShareRow.scope,
    LimitShareRow.subject,
    LimitShareRow.held,
    LimitShareRow.used,
    LimitShareRow.hungry,
).outerjoin(LimitShareRow, LimitShareRow.gateway_id == GatewayRow.id)


@dataclass
class Standing:
    """What all gateways have said."""

    peers: dict[str, Peer] = field(default_factory=dict)
    """By their ids, without this one."""
    parts: dict[LimitName, dict[str, Part]] = field(default_factory=dict)
    """Of peers."""
    own: dict[LimitName, Part] = field(default_factory=dict)


async def joins(session: AsyncSession, gateway_id: GatewayId, divisor: int, *, serves_nobody: bool) -> int:
    """What a gateway that was registered divides limits by, to begin with: as HAProxy does, unless others would have to make
    room first and nobody relies on this one yet."""
    await take_turn(session, _TURN)
    rows = await session.execute(select(GatewayRow.id, GatewayRow.limit_divisor))
    known = {row.id: row.limit_divisor for row in rows}
    if serves_nobody and len(known) > 1 and known.get(gateway_id) is None:
        divisor = NOTHING_YET
    await _agree(session, gateway_id, divisor)
    return divisor


async def read_standing(session: AsyncSession, gateway_id: GatewayId) -> Standing:
    """One gateway at a time until the transaction ends: what it takes is taken when the next one looks."""
    await take_turn(session, _TURN)
    standing = Standing()
    for gateway, divisor, silent_s, scope, subject, held, used, hungry in await session.execute(_ALL):
        if gateway != gateway_id:
            standing.peers[gateway] = Peer(divisor, silent_s)
        if scope is None:
            continue
        name, part = LimitName(Scope(scope), subject), Part(held, used, hungry)
        if gateway == gateway_id:
            standing.own[name] = part
        else:
            standing.parts.setdefault(name, {})[gateway] = part
    return standing


async def say(
    session: AsyncSession,
    gateway_id: GatewayId,
    divisor: int,
    before: Mapping[LimitName, Part],
    after: Mapping[LimitName, Part],
) -> bool:
    """False where the gateway is not registered, or not any more. Without a wait for the disk: what a crash of Postgres takes of
    it is said again a second later."""
    if not await _agree(session, gateway_id, divisor):
        return False
    gone = sorted(before.keys() - after.keys())
    if gone:
        row = LimitShareRow
        # As two arrays: Postgres makes a condition of its own of each pair in a list, and does not take thousands.
        scopes, subjects = (
            func.unnest(bindparam(None, list(column), ARRAY(String))) for column in zip(*gone, strict=True)
        )
        those = tuple_(row.scope, row.subject).in_(select(scopes, subjects))
        await session.execute(delete(row).where(row.gateway_id == gateway_id, those))
    said = insert(table_of(LimitShareRow))
    values = [
        {"gateway_id": gateway_id, "scope": name.scope, "subject": name.subject, **vars(part)}
        for name, part in sorted(after.items())
        if before.get(name) != part
    ]
    if values:
        keys = [LimitShareRow.scope, LimitShareRow.subject, LimitShareRow.gateway_id]
        changed = {name: said.excluded[name] for name in ("held", "used", "hungry")}
        await session.execute(said.on_conflict_do_update(index_elements=keys, set_=changed), values)
    return True


async def _agree(session: AsyncSession, gateway_id: GatewayId, divisor: int) -> bool:
    agreed = (
        update(GatewayRow)
        .where(GatewayRow.id == gateway_id)
        .values(limit_divisor=divisor, limits_agreed_at=func.clock_timestamp())
        .returning(GatewayRow.id, func.set_config("synchronous_commit", "off", true()))
    )
    return (await session.execute(agreed)).first() is not None
