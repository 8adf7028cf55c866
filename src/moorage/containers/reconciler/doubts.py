"""Judges replicas that an engine does not name (`containers/doubt.py` has the rules), and keeps the doubts in Postgres."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.doubt import Missing, is_over, losses, possibly_there, verdict_in_doubt
from moorage.containers.models import ReplicaRow
from moorage.containers.reconciler import doubt_repository
from moorage.containers.reconciler.doubt_repository import Doubt
from moorage.containers.reconciler.loading_repository import NO_ROUTE, Loaded
from moorage.containers.verdict import ProbeFailure, Verdict
from moorage.engines.base import MachineKey
from moorage.engines.engines import Engines
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.kit.settings import Settings
from moorage.notifications.repository import queue_mail
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

ANSWERS_WITHIN_S = 5.0
"""A pass waits for it."""


@dataclass(frozen=True)
class Doubted:
    """Replicas of a container that are missing and may yet be there."""

    replica_ids: frozenset[str] = frozenset()
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Doubts:
    database: Database
    engines: Engines
    keyring: Keyring
    settings: Settings

    async def judge(
        self, loaded: Loaded, rows: Sequence[ReplicaRow], there: Collection[str], lease: Lease
    ) -> Doubted:
        """Which of the missing may be there after all. All others are gone. `there` is what the lists of their engines
        name."""
        async with self.database.reading() as session:
            expected = await doubt_repository.expected_replicas(session)
        loss_of = losses(expected, there, {row.engine for row in rows})
        suspicious = {machine: loss for machine, loss in loss_of.items() if loss.is_suspicious}
        missing = [_missing(row, loaded) for row in rows if MachineKey(row.engine, row.node) in suspicious]
        if not missing:
            return Doubted()
        doubtful = possibly_there(missing, await self._identities({one.machine.engine for one in missing}))
        open_doubts: dict[MachineKey, Doubt] = {}
        for machine in sorted({one.machine for one in doubtful}):
            async with self.database.transaction() as session:
                await lease.guard(session)
                doubt, is_new = await doubt_repository.note_doubt(session, machine, suspicious[machine])
                if is_new:
                    told = {"engine": machine.engine, "node": machine.node}
                    log.error("engine_in_doubt", missing=doubt.missing, expected=doubt.expected, **told)
                    await self._tell_operator(session, doubt)
            if not is_over(doubt.since, doubt.gone_at, self._limit, loaded.now):
                open_doubts[machine] = doubt
        held = [one for one in doubtful if one.machine in open_doubts]
        if not held:
            return Doubted()
        doubt = open_doubts[held[0].machine]
        verdict = verdict_in_doubt(doubt.node, suspicious[doubt.machine], doubt.since + self._limit)
        return Doubted(frozenset(one.replica_id for one in held), verdict)

    async def _identities(self, names: Collection[str]) -> dict[str, set[str]]:
        """Asked of the engines themselves: what is stored of a machine may be of before a restore. One among several that
        does not say is doubted, and holds up nothing of the container that is elsewhere."""
        identities: dict[str, set[str]] = {}
        for name in sorted(names):
            try:
                async with asyncio.timeout(None if self.engines.only(name) else ANSWERS_WITHIN_S):
                    nodes = await self.engines.of(name).capacity()
            except (EngineError, TimeoutError) as exc:
                if self.engines.only(name):
                    raise
                log.warning("engine_did_not_say_who_it_is", engine=name, error=repr(exc))
                nodes = []
            identities[name] = {one.engine_identity for one in nodes if one.engine_identity is not None}
        return identities

    async def end(self, engine: str, doubts: Sequence[Doubt], there: Collection[str], lease: Lease) -> None:
        """Of those about machines of an engine, which have enough of their replicas again, or none to miss."""
        if not doubts:
            return
        async with self.database.reading() as session:
            expected = await doubt_repository.expected_replicas(session)
        loss_of = losses(expected, there, {engine})
        ended = [
            one.machine
            for one in doubts
            if one.machine not in loss_of or not loss_of[one.machine].is_suspicious
        ]
        if ended:
            async with self.database.transaction() as session:
                await lease.guard(session)
                await doubt_repository.end_doubts(session, ended)
            log.info("engine_believed_again", engine=engine, nodes=[one.node for one in ended])

    @property
    def _limit(self) -> timedelta:
        return timedelta(seconds=self.settings.missing_replicas_wait_s)

    async def _tell_operator(self, session: AsyncSession, doubt: Doubt) -> None:
        until = doubt.since + self._limit
        text = (
            f"{doubt.missing} of {doubt.expected} replicas on the machine {doubt.node} disappeared from its "
            "engine at once. The engine may be wrong and they may still run, so Moorage waits until "
            f"{until:%Y-%m-%d %H:%M:%S} UTC before it replaces them.\n\n"
            "If they are gone (the engine was wiped, or somebody removed them), replace them now:\n\n"
            f"    moor operator replicas-gone {doubt.node}\n\n"
            "Otherwise check the engine: `docker ps` should show them. They cost nothing meanwhile.\n"
        )
        await queue_mail(
            session,
            self.keyring,
            to=self.settings.operator_email,
            subject=f"Replicas are missing on {doubt.node}",
            text=text,
        )


def _missing(row: ReplicaRow, loaded: Loaded) -> Missing:
    failing = loaded.routes.get(row.id, NO_ROUTE).failing
    refuses = failing is not None and failing.failure is ProbeFailure.REFUSED
    return Missing(row.id, MachineKey(row.engine, row.node), row.engine_identity, refuses)
