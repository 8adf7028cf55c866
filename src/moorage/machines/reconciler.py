"""Looks whether machines that joined answer.

Purpose: a machine is active when its node role first answers through the tunnel, lost when it has not answered for 20 s, here or
to whoever asks its engine for something, and what it was before when it answers again. Losses and returns are mailed to the operator
together (`telling.py`).
Invariants: only silence that somebody listened to counts, so nobody is lost because the controller was away; nobody is lost
while the installation's own end of the tunnel is not open. Whether it answers is asked with no transaction open.
When it fails: the machine stays what it was; the next look is five seconds later.
"""

from dataclasses import dataclass, field

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import described_gpus, is_silent
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database, database_now
from moorage.kit.errors import ConflictError, NotFoundError
from moorage.kit.settings import Settings
from moorage.machines import repository, service, telling
from moorage.machines.channels import MACHINES
from moorage.machines.models import MachineRow
from moorage.machines.proof.rules import holders, twins
from moorage.machines.reliability import Tier, tier
from moorage.machines.states import LOST_AFTER, Happening, MachineState, Speaker
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease
from moorage.tunnel.reach import answers

log = structlog.get_logger()

LOOK_EVERY_S = 5.0
JUDGE_EVERY_S = 60.0
_JUDGED = {
    (MachineState.PROBATION, True): Happening.PROMOTED,
    (MachineState.ACTIVE, False): Happening.DEMOTED,
}
"""By how it stands, and whether it stays as it should."""
_TIMEOUT_S = 3.0
_TRUST = (MachineState.VERIFYING, MachineState.PROBATION, MachineState.ACTIVE)
_TELL = "tell"
"""The key that stands for no machine, but for the mail about all that were lost or came back."""


@dataclass
class MachinesReconciler:
    database: Database
    keyring: Keyring
    settings: Settings
    clock: Clock
    name: str = "machines"
    channels: tuple[str, ...] = (MACHINES,)
    _next_look_s: dict[str, float] = field(init=False, default_factory=dict)
    _silent_since_s: dict[str, float] = field(init=False, default_factory=dict)
    _judge_from_s: float = field(init=False, default=0.0)
    _tell_from_s: float = field(init=False, default=0.0)
    """On our clock: not before, because the last try failed."""
    _holders: dict[str, str] = field(init=False, default_factory=dict)
    """By GPU: the machine that had it first, since this controller leads."""

    async def due(self, limit: int) -> Due:
        async with self.database.reading() as session:
            joined = await repository.joined_machines(session)
            tell_in_s = await telling.due_in_s(session)
        self._next_look_s = {machine: self._next_look_s.get(machine, 0.0) for machine in joined}
        now_s = self.clock.monotonic()
        waits_s = {machine: at_s - now_s for machine, at_s in self._next_look_s.items()}
        keys = sorted((machine for machine in joined if waits_s[machine] <= 0), key=waits_s.__getitem__)
        if tell_in_s is not None:
            waits_s[_TELL] = max(tell_in_s, self._tell_from_s - now_s)
            keys = [_TELL, *keys] if waits_s[_TELL] <= 0 else keys
        return Due(keys[:limit], min((wait_s for wait_s in waits_s.values() if wait_s > 0), default=None))

    async def reconcile(self, key: str, lease: Lease) -> None:
        if key == _TELL:
            await self._tell(lease)
            return
        await self.resume_overdue(lease)
        if self.clock.monotonic() >= self._judge_from_s:
            self._judge_from_s = self.clock.monotonic() + JUDGE_EVERY_S
            await self.judge(lease)
        self._next_look_s[key] = self.clock.monotonic() + LOOK_EVERY_S
        async with self.database.reading() as session:
            row = await repository.find_machine(session, key)
            listens = bool(await repository.live_hubs(session))
            dumb = await is_silent(session, key, LOST_AFTER)
        if row is None or row.state == MachineState.REMOVED or row.address is None or row.port is None:
            return
        answered = await answers(row.address, row.port, _TIMEOUT_S)
        # Whoever lets itself be connected to and answers nothing that it is asked is not there.
        happening = Happening.SILENT if answered and dumb else self._judged(key, answered, listens)
        if happening is None:
            return
        async with self.database.transaction() as session:
            await lease.guard(session)
            if happening is Happening.ANSWERED:
                await repository.note_seen(session, key)
            changed = await self._say(session, key, happening)
            if changed.state != row.state:
                log.info("machine_changed", machine_id=key, before=row.state, after=changed.state)

    async def judge(self, lease: Lease) -> None:
        """Machines that are lent: by how long they were there and how long they were lost, and by what others say they have."""
        async with self.database.reading() as session:
            rows = await repository.lent_machines(session)
            seen = await repository.presences(session, [row.id for row in rows], await database_now(session))
            said, ready = await described_gpus(session)
        held = {row.id for row in rows if row.stopped_by == Speaker.MOORAGE}
        # What one says that is held already is nobody else's trouble.
        known = {machine: ids for machine, ids in said.items() if machine not in held}
        claimed = {machine: ids for machine, ids in ready.items() if machine not in held}
        standings = {row.id: MachineState(row.standing) for row in rows}
        trust = {name: _trust(standings.get(name)) for name in known}
        # By what each said last, also who is silent now: that is all that is left of who was first, when another led before.
        self._holders = holders(known, self._holders, trust)
        doubled = twins(claimed, self._holders)
        for row in rows:
            happening = _JUDGED.get((MachineState(row.standing), tier(seen[row.id]) is not Tier.PROBATION))
            because = None
            if row.id in doubled:
                happening = Happening.DISTRUSTED
                because = "Another machine claims the same GPU, so one of the two does not have it."
            if happening is not None:
                await self._pronounce(lease, row.id, happening, because)

    async def _pronounce(
        self, lease: Lease, machine_id: str, happening: Happening, because: str | None
    ) -> None:
        try:
            async with self.database.transaction() as session:
                await lease.guard(session)
                await self._say(session, machine_id, happening, because)
        except (ConflictError, NotFoundError) as exc:
            # It has changed since it was read, and is judged as it is now with the next look. Those behind it do not wait for that.
            log.info("machine_changed_while_judged", machine_id=machine_id, error=exc.message)

    async def resume_overdue(self, lease: Lease) -> None:
        """Machines that were paused until now, by the word of whoever said so."""
        async with self.database.reading() as session:
            overdue = await repository.overdue_pauses(session)
        for machine_id in overdue:
            async with self.database.transaction() as session:
                await lease.guard(session)
                by = await repository.lock_overdue_pause(session, machine_id)
                # Nobody's, where somebody has stopped it since and not said until when.
                if by is not None:
                    await self._say(session, machine_id, Happening.RESUME, speaker=by)

    async def _say(
        self,
        session: AsyncSession,
        machine_id: str,
        happening: Happening,
        because: str | None = None,
        speaker: Speaker = Speaker.MOORAGE,
    ) -> MachineRow:
        return await service.say(
            session,
            self.keyring,
            self.settings,
            machine_id,
            happening,
            speaker=speaker,
            actor_id="system",
            because=because,
        )

    async def _tell(self, lease: Lease) -> None:
        async with self.database.transaction() as session:
            await lease.guard(session)
            told = await telling.tell(session, self.keyring, self.settings)
        log.info("operator_told_of_machines", machines=told)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        again_s = self.clock.monotonic() + LOOK_EVERY_S
        if key == _TELL:
            self._tell_from_s = again_s
        else:
            self._next_look_s[key] = again_s

    async def lead(self, lease: Lease) -> None:
        # Whoever led before may have listened; we have not.
        self._silent_since_s.clear()
        self._holders = {}

    def _judged(self, machine: str, answered: bool, listens: bool) -> Happening | None:
        if answered:
            self._silent_since_s.pop(machine, None)
            return Happening.ANSWERED
        if not listens:
            self._silent_since_s.pop(machine, None)
            return None
        now_s = self.clock.monotonic()
        silent_s = now_s - self._silent_since_s.setdefault(machine, now_s)
        return Happening.SILENT if silent_s >= LOST_AFTER.total_seconds() else None


def _trust(standing: MachineState | None) -> int:
    """None: one of the operator's own."""
    return _TRUST.index(standing) if standing is not None else len(_TRUST)
