"""The handbook, typed in from its own pages: the tutorial from nothing, and each how-to on an installation that runs."""

import json
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import uvicorn

from tests.acceptance.conftest import run_stack
from tests.acceptance.stack import Stack, until
from tests.acceptance.test_readme import Fresh, fresh
from tests.built_handbook import build_handbook
from tests.handbook_blocks import blocks_of, pages
from tests.models.hub_stand_in import Hub
from tests.ports import free_port
from tests.registry.conftest import PASSWORD, USERNAME, run_registry

__all__ = ["fresh"]
REPOSITORY = Path(__file__).parents[2]
OF_CUSTOMERS = (
    *("autoscaling", "budgets", "caches", "call-an-endpoint", "continuous-deployment", "from-docker"),
    *("lend-a-machine", "logs", "models", "private-registry", "sleeping", "teams", "updates", "webhooks"),
)
OF_OPERATORS = (
    *("backup", "capacity", "community-machines", "gpus", "install", "kubernetes", "machines", "mail"),
    *("payments", "roles", "security", "sign-in", "troubleshooting"),
)
THAT_WAIT = ("autoscaling", "updates")
"""Minutes, for what changes by itself: `make prove-handbook`."""
ONLY_NOT_RUN = ("custom-domain", "tls", "upgrade")
PAGE_TIMEOUT_S = 400


def test_every_page_with_commands_is_tried() -> None:
    tried = {"tutorial", *OF_CUSTOMERS, *OF_OPERATORS}
    with_commands = {page for page in pages() if any(block.commands for block in blocks_of(page))}
    assert with_commands == tried | set(ONLY_NOT_RUN)
    for page in ONLY_NOT_RUN:
        assert all(block.not_run for block in blocks_of(page) if block.commands)


@dataclass
class Receiver:
    """What webhooks are sent to."""

    server: ThreadingHTTPServer
    messages: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.messages.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    received = Receiver(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
    threading.Thread(target=received.server.serve_forever, daemon=True).start()
    yield received
    received.server.shutdown()
    received.server.server_close()


@pytest.fixture(scope="module")
def registry(docker_host: str) -> Iterator[str]:
    for running in run_registry(with_password=True):
        yield running.host


@pytest.fixture(scope="module")
def hub_url() -> Iterator[str]:
    """A model hub, as the real one answers."""
    hub, port = Hub(), free_port()
    hub.add_examples()
    server = uvicorn.Server(uvicorn.Config(hub.app, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started, "the hub answers")
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def stack(docker_host: str, registry: str, receiver: Receiver, hub_url: str) -> Iterator[Stack]:
    stacks = run_stack(
        docker_host,
        "29000-29999",
        MOORAGE_ALLOWED_REGISTRIES=json.dumps([registry]),
        MOORAGE_ALLOWED_WEBHOOK_HOSTS=json.dumps([receiver.host]),
        MOORAGE_MODEL_HUB=hub_url,
        # Otherwise each update would be watched for three minutes.
        MOORAGE_UPDATE_WATCH_S="2",
        MOORAGE_DRAIN_TIMEOUT_S="3",
    )
    build_handbook()  # The API looks for its pages when it starts.
    for running in stacks:
        _push_example(docker_host, registry)
        yield running


@dataclass
class Terminal:
    """A shell in a folder of its own, with addresses of this machine where the handbook has made-up ones."""

    stack: Stack
    folder: Path
    addresses: dict[str, str]
    variables: dict[str, str]

    def type(self, page: str) -> str:
        for block in blocks_of(page):
            if block.file is not None and block.language != "toml":
                path = self.folder / block.file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text)
        commands = [one for block in blocks_of(page) if not block.not_run for one in block.commands]
        script = "\n".join(commands)
        for made_up, real in self.addresses.items():
            script = script.replace(made_up, real)
        return self.run(f"set -x\n{script}")

    def run(self, script: str) -> str:
        environment = self.stack.environment | self.variables
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PAGE_TIMEOUT_S,
        )
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout


@pytest.fixture
def terminal(stack: Stack, tmp_path: Path, registry: str, receiver: Receiver) -> Terminal:
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    addresses = {
        "registry.example.com": registry,
        "https://hooks.example.com": f"http://{receiver.host}",
        "https://cloud.example.com": stack.api_url,
        "http://127.0.0.1:8080": stack.api_url,
        "--username ann": f"--username {USERNAME}",
    }
    return Terminal(stack, tmp_path, addresses, {"REGISTRY_PASSWORD": PASSWORD})


@pytest.mark.timeout(PAGE_TIMEOUT_S + 60)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.proof if page in THAT_WAIT else pytest.mark.long)
        for page in OF_CUSTOMERS
    ],
)
def test_how_to_of_customers(terminal: Terminal, page: str, receiver: Receiver) -> None:
    """As an admin of a new organization, with a container `chat` in its project."""
    person = terminal.stack.sign_up(f"{page}@example.com")
    token = str(person.api.headers["Authorization"]).removeprefix("Bearer ")
    terminal.variables |= {"MOORAGE_TOKEN": token, "MOORAGE_PROJECT": person.project_id}
    terminal.run("moor deploy -f examples/chat/container.toml")
    said = terminal.type(page)
    if page == "webhooks":
        _check_signature(terminal, receiver)
    if page == "call-an-endpoint":
        assert said.count("Harbour pilot here") >= 3, "by curl, by the OpenAI client and by moor chat"
        assert "data: [DONE]" in said
    if page == "private-registry":
        assert "private is RUNNING." in said
    for container in person.api.get(f"/projects/{person.project_id}/containers").json()["items"]:
        terminal.run(f"moor delete {container['id']} --yes")


@pytest.mark.long
@pytest.mark.timeout(PAGE_TIMEOUT_S + 60)
@pytest.mark.parametrize("page", OF_OPERATORS)
def test_how_to_of_operators(terminal: Terminal, page: str) -> None:
    terminal.variables["MOORAGE_TOKEN"] = (terminal.stack.home / "operator-key").read_text().strip()
    terminal.type(page)


@pytest.mark.long
def test_the_installation_serves_it(stack: Stack) -> None:
    """To anybody, through the same door as the console."""
    with httpx.Client(
        base_url=stack.api_url, follow_redirects=True, headers={"Accept": "text/html"}
    ) as visitor:
        assert "<title>Moorage handbook</title>" in visitor.get("/docs").text
        assert "Out of memory" in visitor.get("/docs/reference/reasons").text
        assert visitor.get("/docs/nothing").status_code == 404


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_the_tutorial(fresh: Fresh, short_folder: Path, docker_host: str) -> None:
    """From `make up` in a fresh copy to an answer of the model that the page writes, and the failure that it provokes."""
    blocks = blocks_of("tutorial")
    assert not [block for block in blocks if block.not_run]
    for block in blocks:
        if block.file is not None:
            (fresh.folder / block.file).parent.mkdir(exist_ok=True)
            (fresh.folder / block.file).write_text(block.text)
    first, *commands = [one for block in blocks for one in block.commands]
    assert first == "make up"
    output = short_folder / "up.out"
    with open(output, "wb") as file:
        up = subprocess.Popen(
            ["make", "up"],
            cwd=fresh.folder,
            env=fresh.environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    ready = lambda: "Moorage is ready." in output.read_text() or up.poll() is not None  # noqa: E731
    until(ready, "make up is ready", timeout_s=500)
    assert up.poll() is None, output.read_text()
    fresh.environment["DOCKER_HOST"] = docker_host
    try:
        said = fresh.run("\n".join(commands), timeout_s=300)
    finally:
        subprocess.run(
            ["docker", "-H", docker_host, "image", "rm", "local/parrot:latest"],
            capture_output=True,
            check=False,
        )
        os.killpg(up.pid, signal.SIGINT)
        up.wait(timeout=60)
    assert '"model": "parrot"' in said
    assert "parrot: learned" in said
    assert "parrot is RUNNING." in said
    assert "lost is RUNNING." in said, "after the fix that it offered"


def _check_signature(terminal: Terminal, receiver: Receiver) -> None:
    """With the page's own code, on what the installation really sent."""
    until(lambda: receiver.messages, "the test event arrives")
    headers, body = receiver.messages[-1]
    secret = (terminal.folder / "webhook.secret").read_text().strip()
    verify = runpy.run_path(str(terminal.folder / "verify.py"))["is_from_moorage"]
    assert verify(secret, headers, body)
    assert not verify(secret, headers, body + b" ")
    assert json.loads(body)["type"] == "webhook.test"


def _push_example(docker_host: str, registry: str) -> None:
    def docker(*arguments: str, given: str | None = None) -> None:
        done = subprocess.run(
            ["docker", "-H", docker_host, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr

    name = f"{registry}/acme/chat:1"
    docker("login", registry, "--username", USERNAME, "--password-stdin", given=PASSWORD)
    try:
        docker("tag", "local/chat:latest", name)
        docker("push", name)
        docker("image", "rm", name)
    finally:
        docker("logout", registry)
