"""A real installation and a few machines on one host: `moor up` behind TLS, a registry, and servers that have not joined yet."""

import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.conftest import run_stack
from tests.acceptance.engines import an_engine
from tests.acceptance.stack import PATIENCE_S, Admin, Stack, until
from tests.machines.base import made_base
from tests.machines.machine import CGROUPS, Machine
from tests.machines.wires import HERE, NAMES, Wires, wired
from tests.registry.conftest import PASSWORD, USERNAME, run_registry
from tests.tls_front import TlsFront, tls_front
from tests.tunnel.programs import have_tunnel_programs

_TUNNEL_PORT = 51900
_REPLICA_PORTS = "25000-25999"
_PUSH_LIMIT_S = 600.0
_PROVEN_WITHIN_S = 900.0
"""What a machine claims takes a while, on a host whose cores are busy with others' joining."""


@dataclass
class Lab:
    stack: Stack
    image: str
    """The example, in a registry that the installation alone reaches."""
    registry: dict[str, str]
    """How a container names it, with its password if it has one."""
    certificate: Path
    """Of the installation's address, with its key."""
    wires: Wires
    machines: dict[str, Machine]
    ids: dict[str, str] = field(default_factory=dict)
    """Of those that were added, by name."""

    def add(self, name: str) -> str:
        """Returns the command to be run there."""
        with self.stack.operator() as operator:
            return self._added(name, operator.post("/operator/machines", json={"name": name}))

    def lend(self, name: str, owner: Admin) -> str:
        """By the owner's organization."""
        path = f"/organizations/{owner.organization_id}/machines"
        return self._added(name, owner.api.post(path, json={"name": name}))

    def _added(self, name: str, added: httpx.Response) -> str:
        assert added.status_code == 201, added.text
        self.ids[name] = added.json()["id"]
        return str(added.json()["command"])

    def name_of(self, node: str) -> str:
        """A machine that is lent is known by its id, except to its owner and the operator."""
        return next((name for name, machine_id in self.ids.items() if machine_id == node), node)

    def join(self, *names: str) -> dict[str, float]:
        """Side by side; returns how many seconds each took, from the command to its first answer."""
        return self.join_by({name: partial(self.add, name) for name in names}, "active")

    def join_by(self, commands: Mapping[str, Callable[[], str]], state: str) -> dict[str, float]:
        """By commands that each is given when it begins, until it is in this state."""

        def one(name: str) -> float:
            began_s = time.monotonic()
            self.machines[name].join(commands[name]())
            self.until_state(name, state, _PROVEN_WITHIN_S)
            # Its state may be known before replicas are placed by it.
            until(lambda: self.engines_word_on(name) == "ready", f"{name} takes replicas", pause_s=0.5)
            return time.monotonic() - began_s

        with ThreadPoolExecutor(len(commands)) as side_by_side:
            return dict(zip(commands, side_by_side.map(one, commands), strict=True))

    def say(self, name: str, word: str, owner: Admin | None = None) -> None:
        """By the operator's word, unless it is the owner's."""
        path = f"/machines/{self.ids[name]}/{word}"
        with self.stack.operator() as operator:
            said = (owner.api if owner is not None else operator).post(path)
        assert said.status_code == 200, said.text

    def row(self, name: str) -> dict[str, Any]:
        with self.stack.operator() as operator:
            found: dict[str, Any] = operator.get(f"/machines/{self.ids[name]}").json()
        return found

    def until_state(self, name: str, state: str, timeout_s: float = PATIENCE_S) -> None:
        until(lambda: self.row(name)["state"] == state, f"{name} is {state}", timeout_s, pause_s=0.25)

    def nodes(self) -> list[str]:
        with self.stack.operator() as operator:
            return [self.name_of(one["name"]) for one in operator.get("/operator/nodes").json()["items"]]

    def engines_word_on(self, name: str) -> str | None:
        """Its state as replicas are placed by. None where its engine has not described it yet."""
        with self.stack.operator() as operator:
            items = operator.get("/operator/nodes").json()["items"]
        return next((str(one["state"]) for one in items if self.name_of(one["name"]) == name), None)

    def own_engine(self) -> str:
        """Of the machine that the installation itself runs on."""
        (own,) = set(self.nodes()) - set(self.machines)
        return own

    def close_own_engine(self) -> None:
        """For new replicas: everything is to run on machines that joined."""
        own = self.own_engine()
        with self.stack.operator() as operator:
            closed = operator.put(f"/operator/nodes/{own}/intake", json={"intake": "cordoned"})
        assert closed.status_code == 200, closed.text


@contextmanager
def laboratory(
    base_folder: Path | None,
    names: Collection[str] = NAMES,
    *,
    registry_has_password: bool = False,
    **settings: str,
) -> Iterator[Lab]:
    """`base_folder`: where the machines' Debian is kept for the next time; without one it is made anew, and goes with the lab.
    `settings`: `MOORAGE_*` of the installation."""
    have_tunnel_programs()
    folder = Path(tempfile.mkdtemp(prefix="moor-lab-", dir="/var/tmp"))
    try:
        with ExitStack() as parts:
            base = made_base(base_folder or folder / "base")
            wires = parts.enter_context(wired())
            front = parts.enter_context(tls_front(HERE))
            registry = parts.enter_context(contextmanager(run_registry)(with_password=registry_has_password))
            login = {"username": USERNAME, "password": PASSWORD} if registry_has_password else {}
            docker_host = parts.enter_context(an_engine(_short(parts)))
            stack = parts.enter_context(_installation(docker_host, front, registry.host, settings))
            image = _pushed(docker_host, f"{registry.host}/example/chat:1", folder / "docker", login)
            machines = parts.enter_context(_machines(folder, base, wires, names, _public_part(front)))
            yield Lab(stack, image, {"provider": "other", **login}, front.certificate, wires, machines)
    finally:
        shutil.rmtree(folder)


@contextmanager
def _installation(docker_host: str, front: TlsFront, registry: str, more: dict[str, str]) -> Iterator[Stack]:
    settings = {
        **more,
        "MOORAGE_PUBLIC_URL": front.url,
        "MOORAGE_TUNNEL_ENDPOINT": f"{HERE}:{_TUNNEL_PORT}",
        "MOORAGE_TUNNEL_PORT": str(_TUNNEL_PORT),
        "MOORAGE_ALLOWED_REGISTRIES": json.dumps([registry]),
    }
    with contextmanager(run_stack)(docker_host, _REPLICA_PORTS, **settings) as stack:
        front.leads_to = stack.api_port
        yield stack


@contextmanager
def _machines(
    folder: Path, base: Path, wires: Wires, names: Collection[str], certificate: str
) -> Iterator[dict[str, Machine]]:
    made = {name: Machine(name, wires.places[name], base, folder / name, certificate) for name in names}
    try:
        for machine in made.values():
            machine.install()
        yield made
    finally:
        for machine in made.values():
            machine.end()
        _remove_cgroups()


def _pushed(docker_host: str, image: str, folder: Path, login: dict[str, str]) -> str:
    """`folder`: where the password is kept meanwhile."""
    docker = ["docker", "--config", str(folder), "--host", docker_host]
    if login:
        host, _, _ = image.partition("/")
        given = ["login", "--username", login["username"], "--password-stdin", host]
        subprocess.run([*docker, *given], input=login["password"].encode(), check=True, capture_output=True)
    for arguments in (("tag", "local/chat:latest", image), ("push", image)):
        subprocess.run([*docker, *arguments], check=True, capture_output=True, timeout=_PUSH_LIMIT_S)
    return image


def _public_part(front: TlsFront) -> str:
    found = re.search(
        r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", front.certificate.read_text(), re.S
    )
    assert found is not None
    return found[0]


def _short(parts: ExitStack) -> Path:
    """A path that is short enough for sockets."""
    return Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="moor-", dir="/tmp")))


def _remove_cgroups() -> None:
    """Of containers whose machine was switched off; they are empty, and the machine's kernel would be gone with them."""
    for hierarchy in Path("/sys/fs/cgroup").iterdir():
        for found in sorted((hierarchy / CGROUPS).rglob("*"), reverse=True):
            if found.is_dir():
                found.rmdir()
        if (hierarchy / CGROUPS).is_dir():
            (hierarchy / CGROUPS).rmdir()
