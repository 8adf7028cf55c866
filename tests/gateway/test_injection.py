"""Whatever a user can type stays data: no line more in HAProxy's configuration, no word more on a command line, no
shell."""

import ast
import random
import shlex
import string
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from moorage.containers.spec import RegistryProvider, checked_health_path, complete_image, split_command
from moorage.engines.base import ReplicaSpec
from moorage.engines.docker.create import create_body
from moorage.gateway import render
from moorage.gateway.config import GatewayConfig
from moorage.gateway.layout import Layout, place
from moorage.gateway.process import find_haproxy
from moorage.gateway.table import GatewayTable, Route, Server
from moorage.kit.ids import (
    new_container_id,
    new_installation_id,
    new_organization_id,
    new_project_id,
    new_replica_id,
)
from moorage.kit.names import checked_name

CONTAINERS = 10_000
IN_ONE_CONFIG = 250
HOSTILE = [
    *("\n", "\r", "\t", " ", "\0", ";", "<<", "'", '"', "\\", "#", "%[src]", "`id`", "$(id)", "${HOME}", "é"),
    *("\n    server x 6.6.6.6:80", "\nbackend evil", "; shutdown sessions", "|", "&", "&&", ">", "--", "-c"),
    *(
        "%0a",
        "%0d%0a",
        "?a=b&c",
        "/../..",
        "//",
        "\u2028",
        "\u0085",
        "{",
        "}",
        "*",
        "~",
        "@",
        "=",
        ",",
        ":",
        "+",
    ),
]
SOURCES = Path(__file__).parents[2] / "src"


class Typist:
    """Types names, images, commands and paths: mostly ordinary characters, with hostile ones among them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.accepted = dict.fromkeys(("name", "image", "command", "path"), 0)

    def text(self, letters: str, hostility: float) -> str:
        parts = []
        for _ in range(self.random.randint(1, 8)):
            odd = self.random.random() < hostility
            parts.append(self.random.choice(HOSTILE) if odd else "".join(self.random.choices(letters, k=5)))
        return "".join(parts)

    def typed(self, letters: str, begin: str = "") -> str:
        """Half of it without any hostile part, so that enough of it passes the checks."""
        return begin + self.text(letters, self.random.choice((0.0, 0.3)))


@pytest.mark.long
def test_ten_thousand_containers_add_no_line_to_haproxys_configuration(tmp_path: Path) -> None:
    typist = Typist(23)
    config = GatewayConfig("127.0.0.1:8081", tmp_path, tmp_path / "haproxy.sock")
    empty = len(render.render_config(config, Layout(1)).splitlines())
    routes: dict[str, Route] = {}
    extra_lines = checked = 0
    for _ in range(CONTAINERS):
        route = _route(typist)
        layout = place(GatewayTable({route.container_id: route}), Layout(1), frozenset())
        files = render.render_files(config, layout)
        extra_lines += len(files[render.CONFIG_FILE].splitlines()) - empty - len(layout.servers)
        for name in (render.ROUTES_MAP, render.HEALTH_MAP):
            extra_lines += sum(len(line.split(" ")) != 2 for line in files[name].splitlines())
            extra_lines += len(files[name].splitlines()) - files[name].count("\n")
        routes[route.container_id] = route
        if len(routes) == IN_ONE_CONFIG:
            _accepted_by_haproxy(config, tmp_path, routes)
            checked += len(routes)
            routes = {}
    print(
        f"{CONTAINERS} containers rendered, {extra_lines} extra lines; {checked} of them accepted by haproxy -c in"
        f" {checked // IN_ONE_CONFIG} configurations; typed and let through: {typist.accepted}"
    )
    assert (extra_lines, checked) == (0, CONTAINERS)
    assert min(typist.accepted.values()) > CONTAINERS // 10, (
        "the checks refuse nearly everything: nothing is shown"
    )


def _route(typist: Typist) -> Route:
    """A container with what it was given where the checks let it pass, and with nothing where they do not."""
    _passes(typist, "name", lambda text: checked_name(text), typist.typed(string.ascii_letters + " ._-"))
    _passes(
        typist,
        "image",
        lambda text: complete_image(text, RegistryProvider.OTHER),
        typist.typed(string.ascii_lowercase + string.digits, "registry.example/"),
    )
    path = _passes(typist, "path", checked_health_path, typist.typed(string.ascii_letters + "/?=&%.-_~", "/"))
    _command(typist)
    servers = (Server(new_replica_id(), "127.0.0.1", typist.random.randint(1024, 65535)),)
    return Route(new_container_id(), new_project_id(), servers, path)


def _passes(typist: Typist, what: str, check: object, text: str) -> str | None:
    assert callable(check)
    try:
        passed: str = check(text)
    except ValueError:
        return None
    typist.accepted[what] += 1
    return passed


def _command(typist: Typist) -> None:
    """What is split is what the engine gets: as many words, the same words, with no shell in between."""
    text = typist.typed(string.ascii_letters + " /.-", "serve ")
    try:
        words = split_command(text)
    except ValueError:
        return
    typist.accepted["command"] += 1
    spec = ReplicaSpec(
        replica_id=new_replica_id(),
        container_id=new_container_id(),
        project_id=new_project_id(),
        organization_id=new_organization_id(),
        slot=0,
        generation=1,
        image="sha256:" + "0" * 64,
        command=words,
        environment={},
        port=8000,
        host_port=20000,
        vcpu_millis=500,
        memory_bytes=2**29,
        disk_bytes=2**30,
    )
    body = create_body(spec, installation_id=new_installation_id(), network="moorage", dns=())
    assert (body["Entrypoint"], body["Cmd"]) == (shlex.split(text), [])


def _accepted_by_haproxy(config: GatewayConfig, folder: Path, routes: dict[str, Route]) -> None:
    table = GatewayTable({route.container_id: route for route in routes.values()})
    layout = place(table, Layout(1), frozenset())
    files = render.render_files(config, layout)
    empty = len(render.render_config(config, Layout(layout.slots)).splitlines())
    assert len(files[render.CONFIG_FILE].splitlines()) == empty + len(layout.servers)
    for name, text in files.items():
        (folder / name).write_text(text)
    command = [find_haproxy(), "-c", "-f", folder / render.CONFIG_FILE]
    check = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert check.returncode == 0, check.stdout + check.stderr
    assert "WARNING" not in check.stdout + check.stderr


@pytest.mark.long
def test_there_is_no_shell_anywhere() -> None:
    """Every way from Python to a shell, looked for in every file."""
    found, files = [], 0
    for path in sorted(SOURCES.rglob("*.py")):
        files += 1
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _runs_a_shell(node):
                found.append(f"{path.relative_to(SOURCES)}:{node.lineno}")
    print(f"{files} files, {len(found)} shells")
    assert found == []
    assert files > 100


def _runs_a_shell(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    named = name.endswith(
        ("create_subprocess_shell", "os.system", "os.popen", "getoutput", "getstatusoutput")
    )
    shell = any(
        word.arg == "shell" and not (isinstance(word.value, ast.Constant) and word.value.value is False)
        for word in call.keywords
    )
    words = [
        one.value for one in ast.walk(call) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    starts_one = "subprocess" in name and any(
        first.rpartition("/")[2] in ("sh", "bash", "dash") and second == "-c"
        for first, second in pairwise(words)
    )
    return named or shell or starts_one
