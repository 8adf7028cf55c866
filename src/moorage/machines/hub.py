"""A gateway host's end of the tunnel: there once a machine was added, gone with the last one, and as the rows say in between.

Purpose: each machine that joined is a peer, within a second of its joining or its new key; nobody else is.
Invariants: without a machine nothing is touched: no key, no interface, no rule. The firewall is set before the interface. What is
meant for a machine leaves this host by the tunnel or not at all.
When it fails: the reason is in the hub's row, where whoever adds a machine reads it; the next look tries again. The tunnel
itself goes on without this process.
"""

import asyncio
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from moorage.engines.docker.iptables import FirewallUnusableError
from moorage.kit.clock import Clock
from moorage.kit.database import Database, Listener
from moorage.kit.home import user_ids_of_ours
from moorage.kit.lasting import look_for_good
from moorage.kit.settings import Settings
from moorage.machines import repository
from moorage.machines.channels import MACHINES
from moorage.tunnel.addresses import hub_address
from moorage.tunnel.dead_ends import ensure_dead_ends
from moorage.tunnel.interface import TunnelEnd, TunnelInterface, interface_name
from moorage.tunnel.keys import load_or_create_private_key, public_key_of
from moorage.tunnel.peers import HubEnd, MachineEnd, hub_peers
from moorage.tunnel.programs import TunnelError
from moorage.tunnel.rules import door_chain, hub_chains, user_chain

log = structlog.get_logger()

LOOK_EVERY_S = 10.0


@dataclass
class TunnelHub:
    hub_id: str
    database: Database
    listener: Listener
    settings: Settings
    clock: Clock
    _changed: asyncio.Event = field(init=False)

    def __post_init__(self) -> None:
        self._changed = self.listener.subscribe(MACHINES)

    async def close_other_ways(self) -> None:
        """Before anything here speaks to a machine. Asks nobody: HAProxy starts without the database, with what it served last."""
        if not await asyncio.to_thread(self._key_file.exists):
            return
        try:
            await ensure_dead_ends((self.settings.tunnel_network,))
        except TunnelError as exc:
            log.warning("tunnel_not_as_wanted", reason=exc.message)

    async def run(self) -> None:
        """For good."""
        await look_for_good("tunnel", self.look, LOOK_EVERY_S, self._changed)

    async def look(self) -> None:
        async with self.database.reading() as session:
            needed = await repository.any_machine(session)
            row = await repository.find_hub(session, self.hub_id)
            interface = self._interface(await repository.installation_id(session))
        if needed:
            await self._keep(interface, row.address if row is not None else None)
        elif row is not None:
            await interface.take_down()
            await asyncio.to_thread(self._key_file.unlink, missing_ok=True)
            async with self.database.transaction() as session:
                await repository.remove_hub(session, self.hub_id)
            log.info("tunnel_taken_down", interface=interface.name)

    async def _keep(self, interface: TunnelInterface, address: str | None) -> None:
        private_key = await asyncio.to_thread(load_or_create_private_key, self._key_file)
        async with self.database.transaction() as session:
            if address is None:
                await repository.take_naming_turn(session)
                given = await repository.given_addresses(session)
                address = str(hub_address(IPv4Network(self.settings.tunnel_network), given))
            endpoint = tunnel_endpoint(self.settings)
            await repository.save_hub(
                session, HubEnd(self.hub_id, address, public_key_of(private_key), endpoint)
            )
            machines = await repository.machine_ends(session)
        error: str | None = None
        try:
            await interface.ensure(self._end(interface.name, private_key, address, machines))
        except (TunnelError, FirewallUnusableError) as exc:
            error = exc.message
            log.warning("tunnel_not_as_wanted", interface=interface.name, reason=error)
        async with self.database.transaction() as session:
            await repository.record_hub_error(session, self.hub_id, error)

    def _end(self, name: str, private_key: str, address: str, machines: list[MachineEnd]) -> TunnelEnd:
        known = hub_peers(machines)
        if known.ambiguous:
            log.error("machines_share_a_key_or_address", machines=sorted(known.ambiguous))
        return TunnelEnd(
            private_key,
            address,
            (self.settings.tunnel_network,),
            known.peers,
            self.settings.tunnel_port,
            hub_chains(name, address),
            (user_chain(name, user_ids_of_ours()), door_chain(name)),
        )

    @property
    def _key_file(self) -> Path:
        return self.settings.home / "tunnel-key"

    def _interface(self, installation_id: str) -> TunnelInterface:
        name = interface_name(installation_id)
        return TunnelInterface(name, self.settings.run_dir, self.settings.log_dir, self.clock)


def tunnel_endpoint(settings: Settings) -> str:
    """Where machines dial."""
    if settings.tunnel_endpoint is not None:
        return settings.tunnel_endpoint
    host = urlsplit(settings.api_base_url).hostname or ""
    return f"[{host}]:{settings.tunnel_port}" if ":" in host else f"{host}:{settings.tunnel_port}"
