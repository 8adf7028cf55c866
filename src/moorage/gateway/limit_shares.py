"""Agrees with the other gateways, once or twice a second, on who lets in how much of each limit.

Purpose: a limit of a key or an organization holds for the installation, not for each gateway. Invariants: a share is lowered in
HAProxy before others hear of it, and raised after they have; where there is one gateway nothing is asked and nothing is shared.
When it fails: shares stay as they are for a moment, then go back to equal parts (`limit_sharing.decide_alone`).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from moorage.gateway import limit_shares_repository as repository
from moorage.gateway.channels import GATEWAYS
from moorage.gateway.dataplane import Applied, DataPlane
from moorage.gateway.limit_shares_repository import Standing
from moorage.gateway.limit_sharing import (
    ALONE_AFTER_S,
    Decision,
    Limit,
    decide,
    decide_alone,
    equal_part,
    next_divisor,
)
from moorage.gateway.rate_rules import RATE_TABLES, Scope, usual_limits
from moorage.gateway.rate_tables import Counted, LimitName, read_counted, set_shares
from moorage.gateway.table import GatewayTable, KeyEntry
from moorage.kit.clock import Clock
from moorage.kit.database import Database, Listener
from moorage.kit.errors import MoorageError
from moorage.kit.ids import GatewayId

log = structlog.get_logger()

EVERY_S = 1.0
EVERY_S_WHILE_SHARING = 0.5
"""What one gateway does not use, the other cannot either until it hears of it."""
EVERY_S_BY_ITSELF = 60.0
"""In case a notification of another gateway was lost."""
_TIMEOUT_S = 5.0
MOST_SHARED = 1000
"""Of each scope. Whoever has ten thousand keys with small limits would keep all gateways busy with them; of those beyond this, each
lets in an equal part."""
_UNUSED = Counted(0, None, fades_soon=False)


class NotRegisteredError(MoorageError):
    code = "gateway_not_registered"


@dataclass
class LimitShares:
    gateway_id: GatewayId
    database: Database
    listener: Listener
    dataplane: DataPlane
    clock: Clock
    _woken: asyncio.Event = field(init=False)
    _joined: bool = field(init=False, default=False)
    """Before that the others do not know of it."""
    _by_itself: bool = field(init=False, default=False)
    """There is no other gateway, and nothing is left of what was shared."""
    _agreed_at_s: float = field(init=False)
    _shared: frozenset[Scope] = field(init=False, default=frozenset())
    """Of which others said something at the last look."""
    _keys: Mapping[str, KeyEntry] = field(init=False, default_factory=dict)
    _indexed: Mapping[str, KeyEntry] | None = field(init=False, default=None)
    """The keys that the next two are made of."""
    _own_limits: dict[str, int] = field(init=False, default_factory=dict)
    """By key; 0 where it has none."""
    _organizations: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._woken = self.listener.subscribe(GATEWAYS)
        self._agreed_at_s = self.clock.monotonic()

    def applied(self, table: GatewayTable, _applied: Applied) -> None:
        self._keys = table.keys

    async def join(self) -> None:
        """Once the gateway is registered, and before HAProxy hears of any key."""
        divisor = await self.dataplane.limit_divisor()
        serves_nobody = await self.dataplane.knows_no_key()
        async with asyncio.timeout(_TIMEOUT_S), self.database.transaction() as session:
            divisor = await repository.joins(session, self.gateway_id, divisor, serves_nobody=serves_nobody)
        await self.dataplane.divide_limits(divisor)
        self._joined, self._by_itself = True, False
        self._woken.set()

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s()):
                    await self._woken.wait()
            self._woken.clear()
            try:
                if self._joined:
                    await self._look()
                else:
                    await self._go_on_alone()
            except Exception as exc:  # noqa: BLE001 - logged, and tried again: without an agreement there are equal parts
                log.warning("limits_not_agreed", error=repr(exc))
                await self._go_on_alone()

    def _pause_s(self) -> float:
        if self._by_itself:
            return EVERY_S_BY_ITSELF
        return EVERY_S_WHILE_SHARING if self._shared else EVERY_S

    async def _look(self) -> None:
        looked_at_s = self.clock.monotonic()
        divisor = await self.dataplane.limit_divisor()
        worker = self.dataplane.process.worker
        counted = await read_counted(worker, self._least_used(divisor))
        async with asyncio.timeout(_TIMEOUT_S), self.database.transaction() as session:
            standing = await repository.read_standing(session, self.gateway_id)
            following = next_divisor(divisor, standing.peers.values())
            decisions = self._decisions(divisor, counted, standing, divisor_falls=following < divisor)
            parts = {name: one.part for name, one in decisions.items() if one.part is not None}
            # The larger part of the two: what is lowered now is held until the next time.
            said = await repository.say(
                session, self.gateway_id, min(divisor, following), standing.own, parts
            )
        if not said:
            raise NotRegisteredError("The gateway is not registered; its agent registers it anew.")
        await self._enforce({name: one.share for name, one in decisions.items()}, counted)
        await self.dataplane.divide_limits(following)
        self._agreed_at_s = looked_at_s
        self._shared = frozenset(name.scope for name in standing.parts)
        self._by_itself = not standing.peers and not any(one.share for one in counted.values())

    async def _go_on_alone(self) -> None:
        silent_s = self.clock.monotonic() - self._agreed_at_s
        if silent_s <= ALONE_AFTER_S:
            return
        try:
            divisor = await self.dataplane.limit_divisor()
            counted = await read_counted(self.dataplane.process.worker, {})
            shares = {
                name: decide_alone(limit, divisor, one.share, silent_s)
                for name, one in counted.items()
                if one.share is not None and (limit := self._limit(name)) is not None
            }
            await self._enforce(shares, counted)
        except Exception as exc:  # noqa: BLE001 - the next round tries again
            log.warning("limits_not_divided", error=repr(exc))

    def _least_used(self, divisor: int) -> dict[Scope, int]:
        """Of most keys nobody needs to know: they are far from what they may."""
        least = {
            scope: max(1, equal_part(most, divisor) // 2)
            for scope, most in usual_limits(self.dataplane.config).items()
        }
        return {scope: 1 if scope in self._shared else least.get(scope, 1) for scope in Scope}

    def _decisions(
        self,
        divisor: int,
        counted: Mapping[LimitName, Counted],
        standing: Standing,
        *,
        divisor_falls: bool,
    ) -> dict[LimitName, Decision]:
        decisions = {}
        for name in names_to_decide(counted, standing, self._used_share):
            limit, here = self._limit(name), counted.get(name, _UNUSED)
            if limit is None:
                decisions[name] = Decision(None, None)
            else:
                parts = standing.parts.get(name, {})
                decisions[name] = decide(
                    limit,
                    divisor,
                    here.share,
                    here.used,
                    standing.peers,
                    parts,
                    divisor_falls=divisor_falls,
                )
        return decisions

    async def _enforce(
        self, shares: Mapping[LimitName, int | None], counted: Mapping[LimitName, Counted]
    ) -> None:
        changed = []
        for name, share in sorted(shares.items()):
            before = counted.get(name, _UNUSED)
            if share != before.share or (share is not None and before.fades_soon):
                changed.append((name, share))
        await set_shares(self.dataplane.process.worker, changed)

    def _used_share(self, name: LimitName, used: int) -> float:
        limit = self._limit(name)
        return used / limit.requests if limit is not None else 0.0

    def _limit(self, name: LimitName) -> Limit | None:
        """None: of a key or an organization that has none, or that this gateway does not know."""
        if self._indexed is not self._keys:
            self._own_limits = {key.key_id: key.requests_per_minute for key in self._keys.values()}
            self._organizations = {key.organization_id for key in self._keys.values()}
            self._indexed = self._keys
        known = self._organizations if name.scope is Scope.ORGANIZATION else self._own_limits.keys()
        if name.subject not in known:
            return None
        usual = usual_limits(self.dataplane.config)
        most = usual[name.scope] if name.scope in usual else self._own_limits[name.subject]
        return Limit(most, RATE_TABLES[name.scope].window_s) if most else None


def names_to_decide(
    counted: Mapping[LimitName, Counted], standing: Standing, used_share: Callable[[LimitName, int], float]
) -> set[LimitName]:
    """Those of which something was said or enforced, and as many others as there is room for, those who use most of theirs first.
    Of one that is left out no gateway holds more than an equal part, so nothing has to be said of it."""
    enforced = {name for name, one in counted.items() if one.share is not None}
    names = standing.parts.keys() | standing.own.keys() | enforced
    there = Counter(name.scope for name in names)
    others = sorted(
        counted.keys() - names, key=lambda name: used_share(name, counted[name].used), reverse=True
    )
    for name in others:
        if there[name.scope] < MOST_SHARED:
            there[name.scope] += 1
            names.add(name)
    return names
