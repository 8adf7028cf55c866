"""Nothing that a user can name or type changes the meaning of HAProxy's configuration or of a runtime command."""

import random
import re
import string
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.gateway import commands, render
from moorage.gateway.config import GatewayConfig
from moorage.gateway.connection_shares import SOURCE
from moorage.gateway.haproxy import Worker
from moorage.gateway.layout import Layout, PlacedServer, Placement, ServerState, place, without_departing
from moorage.gateway.map_values import KEY_ID, KEY_ORGANIZATION
from moorage.gateway.process import find_haproxy
from moorage.gateway.runtime_socket import Socket
from moorage.gateway.table import GatewayTable, KeyEntry, Route, Server
from moorage.kit import ids
from moorage.kit.ids import ContainerId, ProjectId, ReplicaId

PROJECT = ids.new_project_id()
CONFIG = GatewayConfig("127.0.0.1:8081", Path("/var/lib/x/current"), Path("/var/lib/x/haproxy.sock"))

FRAGMENTS = [
    *[
        "\n",
        "\r",
        "\t",
        " ",
        "\0",
        ";",
        "<<",
        "'",
        '"',
        "\\",
        "#",
        "%[",
        "]",
        "`",
        "$(x)",
        "${HOME}",
        "é",
        "\u2028",
    ],
    *[
        "\n    server x 6.6.6.6:80",
        "; shutdown sessions",
        "@1 show env",
        "/",
        "..",
        "%0a",
        ",",
        "*",
        "{",
        "}",
    ],
]
VALID = [
    "ctr_" + "a" * 20,
    "rep_" + "b" * 20,
    "prj_" + "c" * 20,
    "0" * 64,
    "127.0.0.1",
    "::1",
    "/healthz",
    "8081",
]

hostile_text = st.builds(
    lambda start, parts, end: start + "".join(parts) + end,
    st.sampled_from(["", *VALID]),
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=8)), max_size=4),
    st.sampled_from(["", *VALID]),
)


@settings(max_examples=600, deadline=None)
@given(hostile_text)
def test_a_value_is_refused_or_harmless(value: str) -> None:
    """Six places for each of 600 values: whatever is accepted adds no line and no command."""
    replica, container = ids.new_replica_id(), ids.new_container_id()
    builders: list[Callable[[], Route]] = [
        lambda: Route(ContainerId(value), PROJECT),
        lambda: Route(container, ProjectId(value)),
        lambda: Route(container, PROJECT, (Server(ReplicaId(value), "127.0.0.1", 80),)),
        lambda: Route(container, PROJECT, (Server(replica, value, 80),)),
        lambda: Route(container, PROJECT, (Server(replica, "127.0.0.1", 80),), value),
    ]
    for build in builders:
        try:
            route = build()
        except ValueError:
            continue
        layout = place(GatewayTable({route.container_id: route}), Layout(1), frozenset())
        files = render.render_files(CONFIG, layout)
        servers = len(layout.servers)
        empty = render.render_files(CONFIG, Layout(1))
        assert len(files["haproxy.cfg"].splitlines()) == len(empty["haproxy.cfg"].splitlines()) + servers
        assert [len(line.split(" ")) for line in files["routes.map"].splitlines()] == [2]
        assert [len(line.split(" ")) for line in files["health.map"].splitlines()] == [2] * len(
            layout.health_paths
        )
        for placed in layout.servers.values():
            for command in [commands.add_server(CONFIG, placed), *commands.make_ready(placed)]:
                assert re.fullmatch(r"[^;<\n\r\\'\"]+", command)
    try:
        KeyEntry(value, PROJECT)
    except ValueError:
        return
    assert re.fullmatch(r"[0-9a-f]{64}", value)


@settings(max_examples=200, deadline=None)
@given(hostile_text)
def test_an_operators_setting_is_refused_or_harmless(value: str) -> None:
    usual, with_certificate = (
        len(render.render_config(config, Layout(1)).splitlines())
        for config in (CONFIG, replace(CONFIG, endpoint_certificate=Path("/certificate")))
    )
    for name in ["endpoint_listen", "state_dir", "stats_socket", "user", "group", "endpoint_certificate"]:
        wrapped = Path(value) if name in ("state_dir", "stats_socket", "endpoint_certificate") else value
        values = {"endpoint_listen": "127.0.0.1:8081", "state_dir": Path("/x"), "stats_socket": Path("/y")}
        try:
            config = GatewayConfig(**(values | {name: wrapped}))  # type: ignore[arg-type]
        except ValueError:
            continue
        lines = with_certificate if name == "endpoint_certificate" else usual
        extra = 1 if name in ("user", "group") else 0
        assert len(render.render_config(config, Layout(1)).splitlines()) == lines + extra


@pytest.mark.parametrize("command", ["a; b", "a\nb", "add map x <<", "a\\ b", "a 'b'", "", "é"])
async def test_the_last_gate_refuses_more_than_one_command(command: str) -> None:
    worker = Worker(Socket(Path("/nonexistent")))
    with pytest.raises(ValueError, match="not a single runtime command"):
        await worker.ask(command)


def test_haproxy_accepts_configurations_full_of_hostile_but_allowed_values(tmp_path: Path) -> None:
    """10 configurations, each with 100 containers whose ids, addresses and health paths are as odd as the rules allow."""
    generator = random.Random(20)
    letters = string.ascii_lowercase + "234567"
    path_letters = string.ascii_letters + string.digits + "/_.~%?=&+:@,-"

    def odd_id(prefix: str) -> str:
        return prefix + "".join(generator.choices(letters, k=20))

    for number in range(10):
        state_dir = tmp_path / str(number)
        state_dir.mkdir()
        config = GatewayConfig(
            f"127.0.0.1:{generator.randint(20000, 60000)}",
            state_dir,
            Path("/tmp/moor-check.sock"),
            management_listen="[::1]:8080",
            api_socket=Path("/tmp/moor-api.sock"),
        )
        routes = {}
        for _ in range(100):
            hosts = [
                "127.0.0.1",
                "::1",
                "255.255.255.254",
                "2001:db8::ffff",
                f"10.0.0.{generator.randint(1, 254)}",
            ]
            servers = tuple(
                Server(ReplicaId(odd_id("rep_")), generator.choice(hosts), generator.randint(1, 65535))
                for _ in range(generator.randint(1, 3))
            )
            health_path = "/" + "".join(generator.choices(path_letters, k=generator.randint(0, 199)))
            container_id = ContainerId(odd_id("ctr_"))
            project_id = ProjectId(odd_id("prj_"))
            routes[container_id] = Route(
                container_id, project_id, servers, health_path, generator.randint(1, 100000)
            )
        layout = place(GatewayTable(routes), Layout(4), frozenset())
        for name, text in render.render_files(config, layout).items():
            (state_dir / name).write_text(text)
        check = subprocess.run(
            [find_haproxy(), "-c", "-f", state_dir / "haproxy.cfg"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert check.returncode == 0, check.stdout + check.stderr
        assert "WARNING" not in check.stdout + check.stderr


def test_rendering_is_deterministic_and_ready_servers_are_in_it() -> None:
    ready = PlacedServer(1, Server(ids.new_replica_id(), "::1", 80), 7, True, ServerState.READY)
    draining = PlacedServer(1, Server(ids.new_replica_id(), "127.0.0.1", 81), 7, False, ServerState.DRAIN)
    layout = Layout(
        2,
        {ids.new_container_id(): Placement(PROJECT, 1)},
        {ready.key: ready, draining.key: draining},
        {1: "/healthz"},
    )
    text = render.render_config(CONFIG, without_departing(layout))
    assert text == render.render_config(CONFIG, without_departing(layout))
    assert (
        f"    server {ready.server.replica_id} [::1]:80 maxconn 7 pool-purge-delay 2s check inter 5s" in text
    )
    assert draining.server.replica_id not in text


def test_a_credential_is_remembered_by_its_connection_alone() -> None:
    """`proc` would be the whole process, and a map or a stick table outlives the connection too."""
    text = render.render_config(CONFIG, Layout(1))
    stored = {line.split("set-var(")[1].split(")")[0] for line in text.splitlines() if "set-var(" in line}
    assert {name for name in stored if not name.startswith("txn.")} == {
        "sess.hash_and_header",
        "sess.client",
    }
    assert "set-map" not in text
    # What is counted by: the ids that our map holds and where a connection comes from, never what the client sent.
    tracked = [line.split("track-sc")[1].split()[1] for line in text.splitlines() if "track-sc" in line]
    assert sorted(set(tracked)) == [
        "be_name",
        SOURCE,
        f"var(txn.key),{KEY_ID}",
        f"var(txn.key),{KEY_ORGANIZATION}",
        "var(txn.running)",
    ]
    # What runs is found by the beginning of a hash, which is no way back to the key.
    (running,) = [line.split(maxsplit=2)[2] for line in text.splitlines() if "set-var-fmt" in line]
    assert running == "%[var(sess.hash_and_header),bytes(0,16)]:%rt"


replica_sets = st.lists(st.lists(st.booleans(), max_size=3), max_size=8)


@settings(max_examples=150, deadline=None)
@given(st.lists(replica_sets, min_size=1, max_size=5), st.sets(st.integers(1, 6)))
def test_placement_never_mixes_containers_and_never_moves_one(
    generations: list[list[list[bool]]], busy: set[int]
) -> None:
    """Containers come, drain and go; each generation is placed on top of the one before."""
    container_ids = [ids.new_container_id() for _ in range(8)]
    servers = {(c, n): Server(ids.new_replica_id(), "127.0.0.1", 80) for c in range(8) for n in range(3)}
    owners = {server.replica_id: number for (number, _), server in servers.items()}
    live = Layout(2)
    for generation in generations:
        routes = {}
        for number, drains in enumerate(generation):
            members = [servers[number, n] for n in range(len(drains))]
            listed = [Server(m.replica_id, m.host, m.port, d) for m, d in zip(members, drains, strict=True)]
            routes[container_ids[number]] = Route(container_ids[number], PROJECT, tuple(listed))
        target = place(GatewayTable(routes), live, busy)
        taken = [placement.slot for placement in target.routes.values() if placement.slot is not None]
        assert len(set(taken)) == len(taken)
        assert max(taken, default=1) <= target.slots
        for (slot, replica_id), placed in target.servers.items():
            if placed.state is ServerState.READY:
                assert target.routes[container_ids[owners[replica_id]]].slot == slot
        for container_id, placement in target.routes.items():
            before = live.routes.get(container_id)
            if before is not None and before.slot is not None and placement.slot is not None:
                assert before.slot == placement.slot
            if placement.slot is not None and (before is None or before.slot is None):
                held = {owners[name] for slot, name in live.servers if slot == placement.slot}
                assert held <= {container_ids.index(container_id)}
                assert held or placement.slot not in busy
        live = target
