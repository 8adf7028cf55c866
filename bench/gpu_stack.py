"""The whole of Moorage on a machine with a GPU, brought along where the machine has nothing: for `bench/gpu.py`."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parent.parent
CDI_FOLDER = Path("/etc/cdi")
STATES_THAT_END = ("RUNNING", "FAILED")


def until(condition: Callable[[], Any], what: str, timeout_s: float = 60.0) -> Any:
    deadline_s = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.05)
    return found


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True, timeout=120)
    return done.stdout.strip()


@contextlib.contextmanager
def own_engine(folder: Path) -> Iterator[None]:
    """A dockerd of the benchmark's own, at a socket of its own; from version 25 on it is told to use CDI. It ends with the
    block, and its containers with it."""
    folder.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(["dockerd", "--version"], capture_output=True, text=True).stdout
    knows_cdi = int(version.partition("version ")[2].partition(".")[0] or 0) >= 25
    cdi = {"features": {"cdi": True}, "cdi-spec-dirs": [str(CDI_FOLDER)]}
    (folder / "daemon.json").write_text(json.dumps(cdi if knows_cdi else {}))
    os.environ["DOCKER_HOST"] = f"unix://{folder / 'docker.sock'}"
    options = {
        "--config-file": folder / "daemon.json",
        "--host": os.environ["DOCKER_HOST"],
        "--data-root": folder / "data",
        "--exec-root": folder / "run",
        "--pidfile": folder / "dockerd.pid",
    }
    with open(folder / "dockerd.log", "wb") as log:
        words = [str(word) for option in options.items() for word in option]
        engine = subprocess.Popen(["dockerd", *words], stdout=log, stderr=log, start_new_session=True)
    try:
        answers = lambda: subprocess.run(["docker", "info"], capture_output=True).returncode == 0  # noqa: E731
        until(answers, "the engine answers", 90)
        yield
    finally:
        engine.terminate()
        engine.wait(timeout=60)


def write_cdi_specification(files: dict[str, str], nodes: list[str]) -> None:
    """What `nvidia-ctk cdi generate` writes, for the first GPU: its nodes and the driver's files."""
    mounts = [
        {"hostPath": source, "containerPath": target, "options": ["ro", "nosuid", "nodev", "bind"]}
        for target, source in files.items()
    ]
    edits = {
        "deviceNodes": [{"path": node} for node in nodes if not node.endswith("/nvidia0")],
        "mounts": mounts,
        "env": ["LD_LIBRARY_PATH=/usr/local/nvidia/lib64"],
    }
    device = {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}
    document = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [device], "containerEdits": edits}
    CDI_FOLDER.mkdir(parents=True, exist_ok=True)
    (CDI_FOLDER / "nvidia.json").write_text(json.dumps(document))


@dataclass
class Stack:
    home: Path
    handover: str
    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)
    api_url: str = "http://127.0.0.1:18080"
    gateway: str = "127.0.0.1:18081"

    @property
    def operator(self) -> httpx.Client:
        key = (self.home / "operator-key").read_text().strip()
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=f"{self.api_url}/api/v1", headers=headers, timeout=30, trust_env=False)

    def moor(self, *arguments: str) -> str:
        environment = moorage_environment(self.home, self.handover) | {
            "MOORAGE_URL": self.api_url,
            "MOORAGE_TOKEN": (self.home / "operator-key").read_text().strip(),
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }
        command = [sys.executable, "-m", "moorage.entrypoints.moor", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
        return done.stdout + done.stderr


def moorage_environment(home: Path, handover: str) -> dict[str, str]:
    return dict(os.environ) | {
        "MOORAGE_HOME": str(home),
        "MOORAGE_API_LISTEN": "127.0.0.1:18080",
        "MOORAGE_GATEWAY_LISTEN": "127.0.0.1:18081",
        "MOORAGE_DOCKER_HOST": os.environ["DOCKER_HOST"],
        "MOORAGE_GPU_HANDOVER": handover,
        "MOORAGE_INSTALL_ENGINE": "false",
    }


@contextlib.contextmanager
def running(home: Path, handover: str) -> Iterator[Stack]:
    """`moor up` until the end of the block; containers run on."""
    process = subprocess.Popen(
        [sys.executable, "-m", "moorage.entrypoints.moor", "up"],
        env=moorage_environment(home, handover),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    stack = Stack(home, handover, process)

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            stack.said.append(line.rstrip())

    threading.Thread(target=listen, daemon=True).start()

    def ready_or_dead() -> bool:
        if process.poll() is not None:
            raise RuntimeError("moor up ended:\n" + "\n".join(stack.said[-30:]))
        return any("Users' containers keep running" in line for line in stack.said)

    try:
        until(ready_or_dead, "Moorage is ready", 150)
        yield stack
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


@dataclass
class Project:
    stack: Stack
    id: str
    key: str

    @classmethod
    def first_of(cls, stack: Stack) -> "Project":
        """The operator's, with enough credit."""
        with stack.operator as api:
            organization = api.get("/organizations").json()["items"][0]["id"]
            projects = api.get(f"/organizations/{organization}/projects").json()["items"]
            project = (
                projects[0]["id"]
                if projects
                else api.post(f"/organizations/{organization}/projects", json={"name": "gpu"}).json()["id"]
            )
            credit = {"organization_id": organization, "amount_microusd": 500_000_000, "reason": "benchmark"}
            api.post("/operator/credits", json=credit).raise_for_status()
            made = api.post(f"/projects/{project}/api-keys", json={"name": "bench"}).raise_for_status().json()
        return cls(stack, project, made["key"])

    def deploy(self, name: str, instance_type: str, **changes: Any) -> dict[str, Any]:
        body = {
            "name": name,
            "image": "local/torch:latest",
            "registry": {"provider": "local"},
            "resources": {"mode": "general", "instance_type": instance_type},
            "port": 8000,
            "api_path": "/v1",
            "health_check": {"path": "/health", "timeout_s": 240},
            **changes,
        }
        with self.stack.operator as api:
            made: dict[str, Any] = (
                api.post(f"/projects/{self.id}/containers", json=body).raise_for_status().json()
            )
        return made

    def read(self, container: dict[str, Any]) -> dict[str, Any]:
        with self.stack.operator as api:
            found: dict[str, Any] = api.get(f"/containers/{container['id']}").raise_for_status().json()
        return found

    def wait(self, container: dict[str, Any], *states: str, timeout_s: float = 180) -> dict[str, Any]:
        wanted = states or STATES_THAT_END

        def reached() -> dict[str, Any] | None:
            found = self.read(container)
            return found if found["state"] in wanted else None

        found: dict[str, Any] = until(reached, f"{container['name']} is {' or '.join(wanted)}", timeout_s)
        return found

    def delete(self, container: dict[str, Any]) -> None:
        with self.stack.operator as api:
            api.delete(f"/containers/{container['id']}").raise_for_status()
            gone = lambda: api.get(f"/containers/{container['id']}").status_code == 404  # noqa: E731
            until(gone, f"{container['name']} is gone", 90)
