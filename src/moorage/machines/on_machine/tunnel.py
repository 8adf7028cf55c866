"""This machine's end of the tunnel: made from what the installation said, and kept open.

A hub that was restarted forgot the conversation, and WireGuard would go on with it for two minutes. So the door is looked
at every few seconds; when no hub's opens, the conversation begins anew, with what the installation says by then.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from moorage.kit.clock import Clock, system_clock
from moorage.kit.errors import MoorageError
from moorage.kit.home import user_ids_of_ours
from moorage.machines.on_machine.files import MachineFiles
from moorage.machines.on_machine.installation import Installation, InstallationError
from moorage.tunnel.interface import TunnelEnd, TunnelInterface, interface_name
from moorage.tunnel.keys import public_key_of
from moorage.tunnel.peers import HubEnd, machine_peers
from moorage.tunnel.reach import answers
from moorage.tunnel.rules import NodePorts, machine_chains, user_chain

log = structlog.get_logger()

LOOK_EVERY_S = 5.0
KEY_LIVES_S = 7 * 86400.0
"""Then the machine makes a new one by itself. What flows has keys of its own, which WireGuard changes every two minutes."""
RENEW_AGAIN_AFTER_S = 60.0
_DOOR_TIMEOUT_S = 3.0
_SOON_S = 0.5
_HUB_HEARS_WITHIN_TRIES = 6


@dataclass
class MachineTunnel:
    files: MachineFiles
    installation: Installation
    run_dir: Path = Path("/run/moorage")
    log_dir: Path = Path("/var/log/moorage")
    interface: str | None = None
    """Its name; by default it follows from the installation's id."""
    clock: Clock = system_clock
    _not_before_s: float = field(init=False, default=0.0)
    """Until then no key is renewed: an installation that refuses is not asked all the time."""

    async def keep(self) -> None:
        """For good."""
        while True:
            await self.look()
            await self.clock.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """What fails, because the installation is away perhaps, is told and tried again."""
        for step in (self._renew_when_due, self._open):
            try:
                await step()
            except MoorageError as exc:
                log.warning("tunnel_not_as_wanted", reason=exc.message)

    async def ensure(self) -> None:
        for folder in (self.run_dir, self.log_dir):
            folder.mkdir(parents=True, exist_ok=True)
        membership = self.files.membership()
        await self._interface(membership).ensure(self._end(membership))

    async def begin_anew(self) -> None:
        """With the hubs as they are now, and with our key as it is: an installation that was restored from a backup knows the
        one from before, and so does a machine that was."""
        try:
            membership = await self.installation.membership()
            self.files.keep_membership(self.installation.url, membership)
            self.files.note_pull_proxy(membership)
            await self.installation.renew_key(public_key_of(self.files.private_key()))
        except InstallationError as exc:
            log.warning("installation_not_asked", reason=exc.message)
        await self._redial()

    async def is_open(self, within_s: float = _DOOR_TIMEOUT_S) -> bool:
        """Whether a hub's door answers."""
        membership = self.files.membership()
        doors = [(hub["address"], membership["door_port"]) for hub in membership["hubs"]]
        return any(await asyncio.gather(*(answers(*door, within_s) for door in doors)))

    async def renew_key(self) -> None:
        """The old key is good until the installation knows the new one; after a crash in between, this is done again."""
        new = self.files.new_private_key()
        await self.installation.renew_key(public_key_of(new))
        self.files.take_new_private_key()
        await self.ensure()
        # A hub hears of the key a moment after the installation does. What is said to it before is lost, and WireGuard by
        # itself would wait five seconds to say it again.
        for _ in range(_HUB_HEARS_WITHIN_TRIES):
            if await self.is_open(_SOON_S):
                return
            await self._redial()

    async def _open(self) -> None:
        await self.ensure()
        if not await self.is_open():
            await self.begin_anew()

    async def _renew_when_due(self) -> None:
        """Also when a renewal was begun and broken off: the installation may know the new key by now, and no other."""
        is_old = self.clock.now().timestamp() - self.files.key_made_at() > KEY_LIVES_S
        if (is_old or self.files.is_key_being_renewed) and self.clock.monotonic() >= self._not_before_s:
            self._not_before_s = self.clock.monotonic() + RENEW_AGAIN_AFTER_S
            await self.renew_key()
            log.info("tunnel_key_renewed")

    async def _redial(self) -> None:
        membership = self.files.membership()
        await self._interface(membership).redial(self._end(membership))

    async def take_down(self) -> None:
        await self._interface(self.files.membership()).take_down()

    def _interface(self, membership: dict[str, Any]) -> TunnelInterface:
        return TunnelInterface(self._name(membership), self.run_dir, self.log_dir, self.clock)

    def _name(self, membership: dict[str, Any]) -> str:
        return self.interface or interface_name(membership["installation_id"])

    def _end(self, membership: dict[str, Any]) -> TunnelEnd:
        hubs = [
            HubEnd(hub["id"], hub["address"], hub["public_key"], hub["endpoint"])
            for hub in membership["hubs"]
        ]
        name = self._name(membership)
        addresses = [hub.address for hub in hubs]
        first, last = membership["replica_ports"]
        ports = NodePorts(membership["port"], (first, last))
        return TunnelEnd(
            self.files.private_key(),
            membership["address"],
            tuple(f"{address}/32" for address in addresses),
            machine_peers(hubs),
            None,
            machine_chains(name, membership["address"], addresses, ports),
            (user_chain(name, user_ids_of_ours()),),
        )
