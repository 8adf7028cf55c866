"""One end of the tunnel on this machine: made where it is missing, and kept as it is wanted.

The kernel's WireGuard where it has one, else `wireguard-go`, which runs in a session of its own like our other daemons
and is adopted by the next start. `ensure` compares and changes what differs, as often as anybody likes: it is how the
end comes to be, how peers come and go, and how it is repaired.
"""

import asyncio
import json
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import structlog

from moorage.engines.docker import iptables
from moorage.engines.docker.iptables import Chain, FirewallUnusableError
from moorage.kit.clock import Clock, system_clock
from moorage.kit.daemon import Daemon
from moorage.tunnel.dead_ends import ensure_dead_ends, remove_dead_ends
from moorage.tunnel.difference import Present, parse_dump, peer_changes
from moorage.tunnel.keys import public_key_of
from moorage.tunnel.peers import Peer
from moorage.tunnel.programs import TunnelError, find_program, run, secret_in_memory
from moorage.tunnel.rules import chain_names

log = structlog.get_logger()

_MTU = "1420"
_START_S = 10.0
_PEERS_AT_A_TIME = 200
_CONTROL_SOCKETS = Path("/var/run/wireguard")


@dataclass(frozen=True)
class TunnelEnd:
    """What it should be."""

    private_key: str
    address: str
    routes: tuple[str, ...]
    """Networks behind it."""
    peers: tuple[Peer, ...]
    listen_port: int | None
    """None: any; it dials."""
    chains: tuple[Chain, ...]
    chains_if_possible: tuple[Chain, ...] = ()
    """Not every kernel can count connections or tell whose a packet is; that must not cost the other rules."""

    def __repr__(self) -> str:
        return f"TunnelEnd({self.address}, {len(self.peers)} peers)"


@dataclass(frozen=True)
class TunnelInterface:
    name: str
    run_dir: Path
    log_dir: Path
    clock: Clock = system_clock

    async def ensure(self, wanted: TunnelEnd) -> None:
        """Raises `TunnelError` or `FirewallUnusableError`. The firewall comes first: nothing flows without it. And before the
        way through the tunnel every other way ends."""
        await ensure_dead_ends(wanted.routes)
        await self._ensure_rules(wanted)
        await self._ensure_device()
        present = await self.present()
        await self._ensure_own(present, wanted)
        await self._ensure_peers(present, wanted)
        await self._ensure_address(wanted)

    async def redial(self, wanted: TunnelEnd) -> None:
        """Begin anew with every peer. One whose other side forgot the conversation (it was restarted, or knew us not for a
        while) would go on with it for two minutes."""
        present = await self.present()
        for peer in present.peers:
            await run("wg", "set", self.name, "peer", peer.public_key, "remove")
        await self.ensure(wanted)

    async def present(self) -> Present:
        return parse_dump(await run("wg", "show", self.name, "dump"))

    async def take_down(self) -> None:
        """Safe to repeat."""
        if await self._exists():
            await run("ip", "link", "delete", self.name)
        await self._daemon.stop(grace_s=5)
        await remove_dead_ends()
        if iptables.is_installed("iptables"):
            await iptables.remove_chains("iptables", chain_names(self.name))

    async def _ensure_rules(self, wanted: TunnelEnd) -> None:
        moved = await _put_first(wanted.chains)
        for chain in wanted.chains_if_possible:
            try:
                # Before those that let something pass: behind them nothing would be left to count.
                await _put_first((chain,), anyway=moved)
            except FirewallUnusableError as exc:
                log.warning("tunnel_rule_not_possible", chain=chain.name, reason=exc.message)

    async def _ensure_device(self) -> None:
        with self._daemon.start_lock():
            if await self._exists():
                return
            try:
                await run("ip", "link", "add", self.name, "type", "wireguard")
            except TunnelError as exc:
                log.info("tunnel_without_kernel", interface=self.name, reason=exc.message)
                await self._start_userspace()

    async def _start_userspace(self) -> None:
        program = find_program("wireguard-go")
        # What a killed one left behind; a new one would not start.
        await self._daemon.stop(grace_s=5)
        self._control_socket.unlink(missing_ok=True)
        self._daemon.spawn(
            [program, "--foreground", self.name],
            log_file=self.log_dir / f"{self._daemon.name}.log",
            environment={"LOG_LEVEL": "error"},
        )
        deadline_s = self.clock.monotonic() + _START_S
        while not (self._control_socket.exists() and await self._exists()):
            if self._daemon.running_pid() is None or self.clock.monotonic() > deadline_s:
                raise TunnelError(
                    f"wireguard-go did not start; its log is {self.log_dir / self._daemon.name}.log."
                )
            await self.clock.sleep(0.05)

    async def _ensure_own(self, present: Present, wanted: TunnelEnd) -> None:
        arguments: list[str] = []
        if wanted.listen_port is not None and present.listen_port != wanted.listen_port:
            arguments += ["listen-port", str(wanted.listen_port)]
        if present.public_key == public_key_of(wanted.private_key):
            if arguments:
                await run("wg", "set", self.name, *arguments)
            return
        with secret_in_memory(wanted.private_key) as key:
            await run("wg", "set", self.name, *arguments, "private-key", f"/proc/self/fd/{key}", reads=key)

    async def _ensure_peers(self, present: Present, wanted: TunnelEnd) -> None:
        endpoints = {peer.public_key: peer.endpoint for peer in present.peers}
        resolved = [await _resolved(peer, endpoints.get(peer.public_key)) for peer in wanted.peers]
        changes = peer_changes(present, resolved)
        for start in range(0, len(changes), _PEERS_AT_A_TIME):
            some = changes[start : start + _PEERS_AT_A_TIME]
            await run("wg", "set", self.name, *(word for change in some for word in change))
        if changes:
            log.info("tunnel_peers_changed", interface=self.name, changed=len(changes), peers=len(resolved))

    async def _ensure_address(self, wanted: TunnelEnd) -> None:
        own = f"{wanted.address}/32"
        found = json.loads(await run("ip", "-json", "-4", "address", "show", "dev", self.name))
        # Some versions of `ip` answer with an empty object more.
        present = {
            f"{one['local']}/{one['prefixlen']}" for link in found for one in link.get("addr_info", ())
        }
        for other in present - {own}:
            await run("ip", "address", "delete", other, "dev", self.name)
        if own not in present:
            await run("ip", "address", "add", own, "dev", self.name)
        await run("ip", "link", "set", self.name, "mtu", _MTU, "up")
        routes = json.loads(await run("ip", "-json", "-4", "route", "show", "dev", self.name))
        known = {route["dst"] for route in routes}
        for route in sorted(known - {_as_shown(route) for route in wanted.routes}):
            await run("ip", "route", "delete", route, "dev", self.name)
        for route in wanted.routes:
            if _as_shown(route) not in known:
                await run("ip", "route", "replace", route, "dev", self.name, "src", wanted.address)

    async def _exists(self) -> bool:
        links = json.loads(await run("ip", "-json", "link", "show") or "[]")
        return any(link.get("ifname") == self.name for link in links)

    @property
    def _daemon(self) -> Daemon:
        return Daemon(f"wireguard-{self.name}", self.run_dir, self.clock)

    @property
    def _control_socket(self) -> Path:
        return _CONTROL_SOCKETS / f"{self.name}.sock"


def interface_name(installation_id: str) -> str:
    """A kernel's interface has a name of at most 15 characters."""
    return f"moorwg-{installation_id[-6:]}"


async def take_down_all(run_dir: Path, log_dir: Path) -> None:
    """Whatever was made from this folder."""
    prefix = "wireguard-"
    for lock in await asyncio.to_thread(lambda: sorted(run_dir.glob(f"{prefix}*.lock"))):
        await TunnelInterface(lock.stem.removeprefix(prefix), run_dir, log_dir).take_down()
        lock.unlink(missing_ok=True)


async def _put_first(chains: tuple[Chain, ...], *, anyway: bool = False) -> bool:
    """Whether something was to change."""
    present = await iptables.present_rules("iptables")
    changes = [
        line
        for chain in chains
        if anyway or not chain.is_first_in(present)
        for line in chain.put_first(present)
    ]
    if changes:
        await iptables.restore("iptables", changes)
    return bool(changes)


async def _resolved(peer: Peer, present: str | None) -> Peer:
    """With the address of its name, the present one if that is still among them."""
    if peer.endpoint is None:
        return peer
    host, _, port = peer.endpoint.rpartition(":")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), int(port))
    except OSError as exc:
        raise TunnelError(f"Cannot find the address of {host}: {exc.strerror}.") from exc
    addresses = [_endpoint(str(where[4][0]), int(port)) for where in found]
    return Peer(
        peer.public_key,
        peer.address,
        present if present in addresses else addresses[0],
        peer.keepalive_s,
    )


def _endpoint(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ip_address(address).version == 6 else f"{address}:{port}"


def _as_shown(route: str) -> str:
    return route.removesuffix("/32")
