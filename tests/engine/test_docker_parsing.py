"""What is read from the kernel and from NVIDIA's tool."""

import json
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import ClientSession, StreamReader, web
from aiohttp.test_utils import TestServer

from moorage.engines.base import ListeningSocket, ReplicaUsage
from moorage.engines.docker.connection import _items, json_messages
from moorage.engines.docker.processes import process_limit_reached_by
from moorage.engines.docker.sockets import listening_sockets_of, parse_table
from moorage.engines.docker.usage import usage_files_of
from moorage.kit.clock import VirtualClock
from moorage.kit.errors import EngineError

_HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def _row(address: str, state: str) -> str:
    return f"   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 1\n"


@pytest.mark.parametrize(
    ("address", "state", "expected"),
    [
        ("0100007F:1F40", "0A", [ListeningSocket("127.0.0.1", 8000)]),
        ("00000000:1F90", "0A", [ListeningSocket("0.0.0.0", 8080)]),
        ("0100007F:1F40", "01", []),  # a connection, not a listener
        ("0B00007F:A3B1", "0A", []),  # Docker's own resolver
        ("00000000000000000000000000000000:1F90", "0A", [ListeningSocket("::", 8080)]),
        ("00000000000000000000000001000000:0050", "0A", [ListeningSocket("::1", 80)]),
        ("0000000000000000FFFF00000100007F:0050", "0A", [ListeningSocket("127.0.0.1", 80)]),
    ],
)
def test_socket_table(address: str, state: str, expected: list[ListeningSocket]) -> None:
    assert parse_table(_HEADER + _row(address, state)) == expected


def test_of_very_many_sockets_the_first_are_looked_at(tmp_path: Path) -> None:
    """A container opens as many as it has memory for, and whoever looks at them serves everybody."""
    process = tmp_path / "42"
    (process / "net").mkdir(parents=True)
    rows = "".join(_row(f"0100007F:{port:04X}", "0A") for port in range(1, 60_001))
    (process / "net" / "tcp").write_text(_HEADER + rows)
    (process / "net" / "tcp6").write_text(_HEADER)
    (process / "cgroup").write_text("0::/system.slice/docker-abc123.scope\n")
    began_s = time.thread_time()
    found = listening_sockets_of(42, "abc123", tmp_path)
    assert time.thread_time() - began_s < 0.05
    assert 300 < len(found) < 1000
    assert found[0] == ListeningSocket("127.0.0.1", 1)


def test_sockets_of_another_process_are_not_shown(tmp_path: Path) -> None:
    """On another machine's engine the pid means a stranger here."""
    process = tmp_path / "42"
    (process / "net").mkdir(parents=True)
    (process / "net" / "tcp").write_text(_HEADER + _row("00000000:1F90", "0A"))
    (process / "net" / "tcp6").write_text(_HEADER)
    (process / "cgroup").write_text("0::/system.slice/docker-abc123.scope\n")
    assert listening_sockets_of(42, "abc123", tmp_path) == (ListeningSocket("0.0.0.0", 8080),)
    assert listening_sockets_of(42, "def456", tmp_path) == ()
    assert listening_sockets_of(43, "abc123", tmp_path) == ()


@pytest.mark.parametrize(
    ("membership", "folder"),
    [
        ("4:pids:/docker/abc123\n0::/init\n", "pids/docker/abc123"),
        ("0::/system.slice/docker-abc123.scope\n", "system.slice/docker-abc123.scope"),
    ],
)
def test_the_limit_of_processes_in_both_kinds_of_control_groups(
    tmp_path: Path, membership: str, folder: str
) -> None:
    group, process = tmp_path / "cgroup" / folder, tmp_path / "proc" / "42"
    for one in (group, process):
        one.mkdir(parents=True)
    (process / "cgroup").write_text(membership)

    def reached(engine_id: str) -> bool:
        return process_limit_reached_by(42, engine_id, tmp_path / "proc", tmp_path / "cgroup")

    assert not reached("abc123"), "there is no counter"
    (group / "pids.events").write_text("max 0\n")
    assert not reached("abc123")
    (group / "pids.events").write_text("max 7\n")
    assert reached("abc123")
    assert not reached("def456"), "the pid means a stranger here"


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        (
            "4:memory:/docker/abc123\n2:cpu,cpuacct:/docker/abc123\n0::/init\n",
            {
                "cpuacct/docker/abc123/cpuacct.usage": "2500000000\n",
                "memory/docker/abc123/memory.usage_in_bytes": "5000\n",
                "memory/docker/abc123/memory.stat": "inactive_file 1\ntotal_inactive_file 3000\n",
            },
        ),
        (
            "0::/system.slice/docker-abc123.scope\n",
            {
                "system.slice/docker-abc123.scope/cpu.stat": "usage_usec 2500000\nuser_usec 7\n",
                "system.slice/docker-abc123.scope/memory.current": "5000\n",
                "system.slice/docker-abc123.scope/memory.stat": "anon 9\ninactive_file 3000\n",
            },
        ),
    ],
)
def test_usage_in_both_kinds_of_control_groups(
    tmp_path: Path, membership: str, files: dict[str, str]
) -> None:
    groups, process = tmp_path / "cgroup", tmp_path / "proc" / "42"
    process.mkdir(parents=True)
    (process / "cgroup").write_text(membership)
    for name, text in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(text)
    assert usage_files_of(42, "def456", tmp_path / "proc", groups) is None, "the pid means a stranger here"
    found = usage_files_of(42, "abc123", tmp_path / "proc", groups)
    assert found is not None
    assert found.read(VirtualClock()) == ReplicaUsage(0.0, 2.5, 2000)
    (groups / next(iter(files))).unlink()
    assert found.read(VirtualClock()) is None, "it has ended"


async def test_messages_may_be_longer_than_a_buffer() -> None:
    """An event repeats the labels of the image, which its author may make as long as they like."""
    label = "x" * 300_000
    sent = json.dumps({"status": label}).encode() + b'\n{"status": "next"}\n'
    assert [message["status"] for message in await _received(sent)] == [label, "next"]


async def test_message_that_is_cut_off() -> None:
    with pytest.raises(EngineError):
        await _received(b'{"status": "Downl')


@pytest.mark.parametrize("at_a_time", [1, 3, 7, 1000, 10**6])
@pytest.mark.parametrize("is_ascii", [True, False])
async def test_a_list_is_read_item_by_item(at_a_time: int, is_ascii: bool) -> None:
    for listed in (
        [],
        [{"a": "]},{["}],
        [{"n": number, "t": "\u2603\U0001f9a0" * number} for number in range(40)],
    ):
        sent = json.dumps(listed, ensure_ascii=is_ascii).encode() + b"\n"
        assert await _items_of(sent, at_a_time) == listed


@pytest.mark.parametrize(
    "sent", [b'[{"a": 1}, {"b"', b'{"message": ', b"[{}, oh", b"", b"[", b'[{"a": 1}', b'[{"a": []},']
)
async def test_a_list_that_breaks_off_is_an_error(sent: bytes) -> None:
    with pytest.raises(EngineError, match="breaks off"):
        await _items_of(sent, 4)


class _InPieces:
    """As aiohttp hands out what has arrived."""

    def __init__(self, sent: bytes, at_a_time: int) -> None:
        self._pieces = [sent[at : at + at_a_time] for at in range(0, len(sent), at_a_time)]

    async def iter_any(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def _items_of(sent: bytes, at_a_time: int) -> list[Any]:
    content = cast("StreamReader", _InPieces(sent, at_a_time))
    return [item async for item in _items(content, "list")]


async def _received(data: bytes) -> list[Mapping[str, Any]]:
    """Through a real response, with the limits that it has."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=data)

    application = web.Application()
    application.router.add_get("/", answer)
    async with (
        TestServer(application) as server,
        ClientSession() as session,
        session.get(server.make_url("/")) as response,
    ):
        return [message async for message in json_messages(response.content)]
