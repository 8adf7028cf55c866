"""A whole Moorage in a folder of its own, run as its operator would: by `moor up`, over HTTP, and with kill -9."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from tests.ports import free_port

ResultT = TypeVar("ResultT")
MOOR = [sys.executable, "-m", "moorage.entrypoints.moor"]
CHAT = {
    "image": "local/chat:latest",
    "registry": {"provider": "local"},
    "resources": {"mode": "general", "instance_type": "cpu-nano"},
    "health_check": {"path": "/health", "timeout_s": 60},
}

PATIENCE_S = 150.0
"""Far more than anything takes: a machine that is shared may stand almost still for minutes, and waiting costs nothing where
all is well. What has to be fast is measured by itself."""


def until(
    condition: Callable[[], ResultT], what: str, timeout_s: float = PATIENCE_S, pause_s: float = 0.05
) -> ResultT:
    """The first true value of `condition`, or a failure that says what did not come true."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(pause_s)


@dataclass
class Stack:
    home: Path
    docker_host: str
    replica_ports: str
    api_port: int = field(default_factory=free_port)
    gateway_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    settings: dict[str, str] = field(default_factory=dict)
    """Further `MOORAGE_*` variables."""

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def output_file(self) -> Path:
        return self.home.parent / f"{self.home.name}.out"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")},
            "MOORAGE_HOME": str(self.home),
            "MOORAGE_API_LISTEN": f"127.0.0.1:{self.api_port}",
            "MOORAGE_GATEWAY_LISTEN": f"127.0.0.1:{self.gateway_port}",
            "MOORAGE_DOCKER_HOST": self.docker_host,
            "MOORAGE_REPLICA_PORTS": self.replica_ports,
            "MOORAGE_GATEWAY_SLOTS": "4",
            # How fast the tests ask is a matter of the machine, and all of them ask from one address.
            "MOORAGE_API_REQUESTS_PER_S_PER_SOURCE": "100000",
            "MOORAGE_API_SHARE_PERCENT": "100",
            "MOORAGE_STARTS_PER_MINUTE": "1000",
            "MOORAGE_CLI_CONFIG": str(self.home.parent / f"{self.home.name}.cli.toml"),
            "MOORAGE_URL": self.api_url,
            "PYTHONUNBUFFERED": "1",
            **self.settings,
        }

    def up(self) -> None:
        with open(self.output_file, "wb") as output:
            self.process = subprocess.Popen(
                [*MOOR, "up"],
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        until(self._ready_or_dead, "moor up says that it is ready", timeout_s=4 * PATIENCE_S)

    def interrupt(self) -> None:
        """Ctrl-C."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(timeout=60) == 0, self.output_file.read_text()

    def clean(self) -> None:
        subprocess.run(
            [*MOOR, "clean", "--yes"], env=self.environment, check=True, timeout=120, capture_output=True
        )

    def moor(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*MOOR, *arguments], env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert not check or done.returncode == 0, f"moor {arguments}: {done.stdout}{done.stderr}"
        return done

    def json(self, *arguments: str) -> Any:
        return json.loads(self.moor(*arguments, "--json").stdout)

    def operator(self) -> httpx.Client:
        return self.client((self.home / "operator-key").read_text().strip())

    def client(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        transport = httpx.HTTPTransport(retries=3)
        return httpx.Client(
            base_url=f"{self.api_url}/api/v1", headers=headers, timeout=30, transport=transport
        )

    def pid_of(self, name: str) -> int:
        """Of a role, or of a daemon that left its pid in the run folder."""
        if name in ("api", "controller", "gateway"):
            for process in processes_of(self.home):
                if "serve" in process.arguments and name in process.arguments:
                    return process.pid
            raise AssertionError(f"no {name} runs")
        return int((self.home / "run" / f"{name}.pid").read_text().split()[0])

    def kill(self, name: str) -> int:
        pid = self.pid_of(name)
        os.kill(pid, signal.SIGKILL)
        return pid

    def sign_up(self, email: str) -> "Person":
        """As a new user, with a project."""
        admin = self.sign_in(email)
        return Person(self, admin.api, admin.new_project())

    def sign_in(self, email: str) -> "Admin":
        """By a code that was mailed, read where the operator reads it. Who is new has an organization then."""
        anonymous = self.client()
        assert anonymous.post("/auth/email/start", json={"email": email}).status_code == 202
        with self.operator() as operator:
            mails = operator.get("/operator/outbox").json()["items"]
        code = next(re.search(r"\b(\d{6})\b", mail["text"]) for mail in mails if mail["to"] == email)
        assert code is not None
        signed_in = anonymous.post("/auth/email/verify", json={"email": email, "code": code[1]}).json()
        client = self.client(signed_in["session_token"])
        return Admin(client, client.get("/organizations").json()["items"][0]["id"])

    def _ready_or_dead(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.output_file.read_text()
        return "Moorage is ready." in self.output_file.read_text()


@dataclass
class Admin:
    """Of an organization."""

    api: httpx.Client
    organization_id: str

    def new_project(self) -> str:
        """Its id."""
        made = self.api.post(f"/organizations/{self.organization_id}/projects", json={"name": "first"})
        assert made.status_code == 201, made.text
        return str(made.json()["id"])


@dataclass
class Person:
    stack: Stack
    api: httpx.Client
    project_id: str

    @property
    def organization_id(self) -> str:
        return str(self.api.get(f"/projects/{self.project_id}").json()["organization_id"])

    def key(self, **wanted: Any) -> str:
        made = self.api.post(f"/projects/{self.project_id}/api-keys", json={"name": "test", **wanted})
        assert made.status_code == 201, made.text
        return str(made.json()["key"])

    def deploy(self, name: str, **changes: Any) -> "Deployed":
        made = self.api.post(
            f"/projects/{self.project_id}/containers", json={"name": name, **CHAT, **changes}
        )
        assert made.status_code == 201, made.text
        return Deployed(self, made.json()["id"], made.json()["endpoint_url"])


@dataclass
class Deployed:
    owner: Person
    id: str
    url: str

    def read(self) -> dict[str, Any]:
        answer = self.owner.api.get(f"/containers/{self.id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def until_state(self, *states: str, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            # The API itself may be the one that was killed.
            with contextlib.suppress(httpx.HTTPError, AssertionError, KeyError):
                found = self.read()
                return found if found["state"] in states else None
            return None

        return until(reached, f"{self.id} is {' or '.join(states)}", timeout_s)

    def do(self, action: str) -> None:
        answer = self.owner.api.post(f"/containers/{self.id}/{action}")
        assert answer.status_code == 202, answer.text

    def delete(self) -> None:
        self.owner.api.delete(f"/containers/{self.id}")
        gone = lambda: self.owner.api.get(f"/containers/{self.id}").status_code == 404  # noqa: E731
        until(gone, f"{self.id} is gone", timeout_s=90)

    def ask(self, key: str | None, path: str = "/api/v1/chat/completions", **changes: Any) -> httpx.Response:
        body = {"model": "chat", "messages": [{"role": "user", "content": "Ahoy"}]} | changes
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.post(f"{self.url}{path}", json=body, headers=headers, timeout=30)

    def until_answered(self, key: str) -> None:
        until(lambda: self.ask(key).status_code == 200, f"{self.url} answers")


@dataclass(frozen=True)
class Process:
    pid: int
    arguments: tuple[str, ...]


def processes_of(home: Path) -> Iterator[Process]:
    """Our Python processes that work on this data folder."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                arguments = tuple((folder / "cmdline").read_text().split("\x00"))
                environment = (folder / "environ").read_text()
                if (
                    "moorage.entrypoints.moor" in arguments
                    and f"MOORAGE_HOME={home}\x00" in environment + "\x00"
                ):
                    yield Process(int(folder.name), arguments)


def parse_sse(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]
