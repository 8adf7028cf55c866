"""Where a machine finds the pull proxy: an installation that is restored on another host has another address in the tunnel."""

import asyncio
from pathlib import Path
from typing import Any

from moorage.machines.on_machine.files import MachineFiles
from moorage.node.main import _pull_proxy
from moorage.node.relay import LOOPBACK, Relay
from moorage.node.settings import load_node_settings


def membership_at(*hubs: str) -> dict[str, Any]:
    return {
        "installation_id": "ins_" + "a" * 20,
        "address": "10.99.0.9",
        "port": 7420,
        "door_port": 7421,
        "replica_ports": [20000, 29999],
        "hubs": [{"address": hub} for hub in hubs],
    }


def test_a_hub_that_moved_is_noted_and_all_else_stays(tmp_path: Path) -> None:
    files = MachineFiles(tmp_path)
    files.write_node_settings(membership_at("10.99.0.1"))
    file = files.node_settings
    file.write_text(file.read_text() + 'docker_host = "unix:///run/other.sock"\n')
    begun_with = load_node_settings(file)
    files.note_pull_proxy(membership_at())
    assert load_node_settings(file) == begun_with, "no hub is there for now"
    files.note_pull_proxy(membership_at("10.99.0.2", "10.99.0.3"))
    assert load_node_settings(file) == begun_with.model_copy(update={"pulls_address": "10.99.0.2"})
    assert _pull_proxy(begun_with, file) == ("10.99.0.2", 7421)
    assert files.docker_host == "unix:///run/other.sock"
    file.write_text("half a li")
    assert _pull_proxy(begun_with, file) == ("10.99.0.1", 7421)
    assert _pull_proxy(begun_with, None) == ("10.99.0.1", 7421)


async def test_the_relay_asks_for_each_connection() -> None:
    async def saying(words: bytes) -> tuple[asyncio.Server, int]:
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(words)
            writer.close()

        server = await asyncio.start_server(answer, LOOPBACK, 0)
        return server, int(server.sockets[0].getsockname()[1])

    (first, first_port), (second, second_port) = await saying(b"first"), await saying(b"second")
    ports = [first_port]
    async with Relay(lambda: (LOOPBACK, ports[-1])) as relay, first, second:
        for port, words in ((first_port, b"first"), (second_port, b"second")):
            ports.append(port)
            reader, writer = await asyncio.open_connection(LOOPBACK, relay.port)
            assert await asyncio.wait_for(reader.read(), 10) == words
            writer.close()
