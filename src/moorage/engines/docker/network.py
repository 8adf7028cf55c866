"""Our one bridge network per installation, and whether it keeps containers apart: a fact that is looked at again and
again, because whatever else reloads the machine's firewall takes our rules away.

One for all replicas, because Docker's default address pool ends at the 31st network. Containers on it do not
reach each other (`enable_icc=false`), nor this machine, nor private addresses (`firewall.py`).
"""

import hashlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiodocker.exceptions import DockerError

from moorage.engines.docker import firewall
from moorage.engines.docker.connection import DockerConnection
from moorage.engines.docker.create import LABEL_INSTALLATION
from moorage.engines.docker.host_limits import raise_limits
from moorage.engines.docker.iptables import FirewallUnusableError
from moorage.kit.errors import EngineError
from moorage.kit.ids import InstallationId

_OPTION_BRIDGE = "com.docker.network.bridge.name"
_OPTION_ICC = "com.docker.network.bridge.enable_icc"
_BRIDGED_TRAFFIC_IS_FILTERED = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")


@dataclass(frozen=True)
class NetworkIsolation:
    isolated: bool
    reason: str | None
    """Why not, in words for the operator."""
    weaknesses: tuple[str, ...] = ()
    """What is not as tight as it could be, and no reason to start nothing."""


@dataclass(frozen=True)
class BridgeNetwork:
    installation_id: InstallationId

    @property
    def suffix(self) -> str:
        return hashlib.sha256(self.installation_id.encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        return f"moorage-{self.suffix}"

    @property
    def bridge(self) -> str:
        """A network device's name has at most 15 characters."""
        return f"moor{self.suffix}"

    async def prepare(
        self,
        connection: DockerConnection,
        local_use: firewall.LocalUse | None,
        *,
        mail_closed: bool = False,
    ) -> NetworkIsolation:
        """The rules first: a container can only be attached to a bridge that is already guarded."""
        reason, weaknesses = None, []
        try:
            await firewall.enforce(self.bridge, self.suffix, mail_closed=mail_closed)
        except FirewallUnusableError as exc:
            reason = exc.message
        if local_use is not None and (open_because := await self._why_open_to_users(local_use)) is not None:
            weaknesses.append(open_because)
        await self._ensure_network(connection)
        reason = reason or self._why_not_isolated()
        if reason is None and (unshared := await self._why_unshared()) is not None:
            weaknesses.append(unshared)
        if self.is_on_this_machine() and (low := raise_limits()):
            weaknesses.append(
                f"one container can take what all share: the kernel's {', '.join(low)} may not be raised here"
            )
        return NetworkIsolation(reason is None, reason, tuple(weaknesses))

    def is_on_this_machine(self) -> bool:
        """Asked of the kernel, not of `/sys`: that shows the network of whoever mounted it."""
        return self.bridge in {name for _, name in socket.if_nameindex()}

    async def dismantle(self, connection: DockerConnection) -> None:
        async with connection.call(f"remove network {self.name}") as docker:
            try:
                network = await docker.networks.get(self.name)
                await network.delete()
            except DockerError as exc:
                if exc.status != 404:
                    raise
        await firewall.withdraw(self.bridge, self.suffix)

    async def _ensure_network(self, connection: DockerConnection) -> None:
        async with connection.call(f"prepare network {self.name}") as docker:
            found = await self._find(docker)
            if found is None:
                try:
                    await docker.networks.create(self._create_body())
                except DockerError as exc:
                    if exc.status != 409:  # somebody else made it just now
                        raise
                found = await self._find(docker)
        options = (found or {}).get("Options") or {}
        if options.get(_OPTION_BRIDGE) != self.bridge or options.get(_OPTION_ICC) != "false":
            raise EngineError(
                f"The Docker network {self.name} differs from what Moorage creates. Remove it (docker "
                f"network rm {self.name}) and start again.",
                code="network_altered",
            )

    async def _find(self, docker: Any) -> Mapping[str, Any] | None:
        # Docker's filter matches parts of names.
        found = await docker.networks.list(filters={"name": [self.name]})
        return next((network for network in found if network["Name"] == self.name), None)

    def _create_body(self) -> dict[str, Any]:
        return {
            "Name": self.name,
            "CheckDuplicate": True,
            "Driver": "bridge",
            "EnableIPv6": False,
            "Labels": {LABEL_INSTALLATION: self.installation_id},
            "Options": {
                _OPTION_BRIDGE: self.bridge,
                _OPTION_ICC: "false",
                "com.docker.network.bridge.enable_ip_masquerade": "true",
                "com.docker.network.bridge.host_binding_ipv4": "127.0.0.1",
            },
        }

    async def _why_open_to_users(self, local_use: firewall.LocalUse) -> str | None:
        try:
            await firewall.enforce_local_use(self.bridge, self.suffix, local_use)
        except FirewallUnusableError as exc:
            return f"every user of this machine reaches replicas without a key, on loopback ({exc.message})"
        return None

    async def _why_unshared(self) -> str | None:
        try:
            await firewall.enforce_shares(self.bridge, self.suffix)
        except FirewallUnusableError as exc:
            return f"one container can take all connections of this machine ({exc.message})"
        return None

    def _why_not_isolated(self) -> str | None:
        if not self.is_on_this_machine():
            return "the Docker engine's networks are not on this machine (Docker Desktop, or rootless)"
        try:
            filtered = _BRIDGED_TRAFFIC_IS_FILTERED.read_text().strip() == "1"
        except OSError:
            filtered = False
        if not filtered:
            return "the kernel does not filter traffic inside a bridge (net.bridge.bridge-nf-call-iptables is not 1)"
        return None
