"""What a machine that joined keeps, in one folder: who it is, and the secrets that it made itself.

A step writes its file only when it is whole, so that a second run goes on where the first one failed.
"""

import hashlib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moorage.engines.docker.daemon import SYSTEM_HOST
from moorage.engines.sandboxes import SANDBOX_RUNTIME
from moorage.identity.tokens import new_token
from moorage.kit.errors import SetupError
from moorage.kit.whole_files import write_whole
from moorage.machines.tokens import CREDENTIAL_PREFIX, MACHINE_PREFIX
from moorage.tunnel.keys import load_or_create_private_key, replace_private_key

DEFAULT_FOLDER = Path("/etc/moorage")


_LENT = ("lent = true", f'container_runtime = "{SANDBOX_RUNTIME}"')


@dataclass(frozen=True)
class MachineFiles:
    folder: Path = DEFAULT_FOLDER

    @property
    def node_settings(self) -> Path:
        """Of the node role; it holds no secret."""
        return self.folder / "node.toml"

    @property
    def is_joined(self) -> bool:
        return self._membership.exists()

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o755)

    def private_key(self) -> str:
        return load_or_create_private_key(self._key)

    def key_made_at(self) -> float:
        """In seconds since 1970."""
        return self._key.stat().st_mtime

    @property
    def is_key_being_renewed(self) -> bool:
        return self._next_key.exists()

    def replace_private_key(self, private_key: str) -> None:
        replace_private_key(self._key, private_key)

    def new_private_key(self) -> str:
        """One that is about to replace the other; the same until it has."""
        return load_or_create_private_key(self._next_key)

    def take_new_private_key(self) -> None:
        self._next_key.replace(self._key)

    def secrets(self) -> dict[str, str]:
        """`credential`, until the machine has joined, and `secret`; made at the first call."""
        if not self._secrets.exists():
            made = {"credential": new_token(CREDENTIAL_PREFIX), "secret": new_token(MACHINE_PREFIX)}
            write_whole(self._secrets, json.dumps(made), 0o600)
        found: dict[str, str] = json.loads(self._secrets.read_text())
        return found

    def keep_membership(self, url: str, membership: dict[str, Any]) -> None:
        write_whole(self._membership, json.dumps({"url": url, **membership}, indent=2), 0o644)

    def membership(self) -> dict[str, Any]:
        if not self.is_joined:
            raise SetupError(f"This machine has not joined an installation: there is no {self._membership}.")
        found: dict[str, Any] = json.loads(self._membership.read_text())
        return found

    def write_node_settings(self, membership: dict[str, Any]) -> None:
        credential = self.secrets()["credential"]
        first, last = membership["replica_ports"]
        lines = (
            f'installation_id = "{membership["installation_id"]}"',
            f'credential_sha256 = "{hashlib.sha256(credential.encode()).hexdigest()}"',
            f'address = "{membership["address"]}"',
            f"port = {membership['port']}",
            f'pulls_address = "{membership["hubs"][0]["address"]}"',
            f"pulls_port = {membership['door_port']}",
            f"replica_ports = [{first}, {last}]",
            *(_LENT if membership.get("infrastructure") == "community" else ()),
            *(("unsandboxed_gpus = true",) if membership.get("allow_runc") else ()),
        )
        write_whole(self.node_settings, "\n".join(lines) + "\n", 0o644)

    def note_pull_proxy(self, membership: dict[str, Any]) -> None:
        """Where the installation's hub is now; the node role reads it from its settings, in which all else stays."""
        hubs = membership["hubs"]
        if not hubs or not self.node_settings.exists():
            return
        said = f'pulls_address = "{hubs[0]["address"]}"'
        before = self.node_settings.read_text().splitlines()
        after = [said if line.startswith("pulls_address =") else line for line in before]
        if after != before:
            write_whole(self.node_settings, "\n".join(after) + "\n", 0o644)

    @property
    def docker_host(self) -> str:
        """The engine that the node role speaks to."""
        if not self.node_settings.exists():
            return SYSTEM_HOST
        return str(tomllib.loads(self.node_settings.read_text()).get("docker_host", SYSTEM_HOST))

    def forget_credential(self) -> None:
        """Its digest in the node's settings is enough to know it by."""
        write_whole(self._secrets, json.dumps({"secret": self.secrets()["secret"]}), 0o600)

    def forget(self) -> None:
        for path in (self._membership, self._secrets, self._next_key, self._key, self.node_settings):
            path.unlink(missing_ok=True)

    @property
    def _membership(self) -> Path:
        return self.folder / "membership.json"

    @property
    def _secrets(self) -> Path:
        return self.folder / "secrets.json"

    @property
    def _key(self) -> Path:
        return self.folder / "tunnel.key"

    @property
    def _next_key(self) -> Path:
        return self.folder / "tunnel.key.next"
