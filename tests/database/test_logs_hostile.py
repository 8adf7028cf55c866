"""What a replica prints is inert on the server's side: in rows, lists, streams and files."""

import asyncio
import contextlib
import json
import re
import time

from log_support import BASE_NS, KEYRING, OUT, Printer, chunk
from test_logs_collection import follower
from test_logs_endpoints import Site, events
from test_logs_endpoints import site as site

from moorage.containers.secrets import seal
from moorage.containers.spec import ContainerSecrets
from moorage.engines.base import LogChunk
from moorage.kit.clock import system_clock
from moorage.telemetry.logs.copying import Source
from moorage.telemetry.logs.cursor import DROPPED
from moorage.telemetry.logs.masking import MASK
from moorage.telemetry.logs.preparing import Preparer

HOSTILE = {
    "markup": b"<script>alert(1)</script><img src=x onerror=alert(1)> &amp; {{7*7}}",
    "title by OSC": b"\x1b]0;owned\x07 and \x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "screen and cursor": b"\x1b[2J\x1b[H\x1b[1A\x1b[31mred\x1b[0m\x9b2J",
    "a second line": b"real\r2026-01-01T00:00:00Z fake\n2026-01-01T00:00:00Z rep_x faked\x0b\x0c\x85",
    "an event": b'x\n\nid: stolen\ndata: {"text": "fake"}\n\n',
    "bad UTF-8": b"\xff\xfe \xc3\x28 \xed\xa0\x80 \xf0\x9f\x98 end",
    "direction": "abc\u202eexe.fdp\u2066\u2028".encode(),
    "nul": b"a\x00b",
    "our own word": DROPPED % 999,
}
UNSAFE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
COLOUR = re.compile("\x1b\\[[0-9;:]*m")


async def test_hostile_output_is_inert(site: Site) -> None:
    chunks = [LogChunk(BASE_NS + number, OUT, data, True) for number, data in enumerate(HOSTILE.values())]
    ten_megabytes = [chunk(100, "x" * 16384, ends=False) for _ in range(640)]
    printer = Printer([*chunks, *ten_megabytes, chunk(100, "end")])
    async with asyncio.timeout(60), contextlib.AsyncExitStack() as stack:
        source = await site.world.new_replica(site.source.container_id, printer)
        stream = await stack.enter_async_context(events(site))
        await follower(site.world, source).run()
        streamed = [(await anext(stream))[1] for _ in range(len(HOSTILE) + 1)]
        listed = await site.get(instance=source.replica_id)
        downloaded = await site.client.get(f"{site.path}/download", params={"instance": source.replica_id})
    lines = {line["sequence"]: line for line in streamed}
    assert [lines[number] for number in sorted(lines, reverse=True)] == listed.json()["items"]
    for line in streamed:
        assert UNSAFE.findall(COLOUR.sub("", line["text"])) == []
        # A time that a process prints is text; the line's own is the engine's.
        assert line["time"].startswith("2026-05-01T00:00:00")
        assert line["instance_id"] == source.replica_id
        assert line["stream"] == "stdout", "whatever it says, it is not ours"
    assert lines[0]["text"] == HOSTILE["markup"].decode()
    assert lines[len(HOSTILE)]["text"].endswith(f" … [{640 * 16384 + 3 - 16384} bytes cut]")
    assert listed.headers["content-type"] == "application/json"
    assert listed.headers["x-content-type-options"] == "nosniff"
    assert len(downloaded.text.split("\n")) == len(HOSTILE) + 2
    assert downloaded.headers["content-disposition"].startswith("attachment")
    assert downloaded.headers["x-content-type-options"] == "nosniff"
    assert len(json.dumps(streamed)) < 200_000
    print(f"{len(lines)} hostile lines, 0 control characters, 0 extra events")


async def test_an_environment_of_28_000_secrets_does_not_stop_the_loop(site: Site) -> None:
    """Values of many short lines, as large as the limits allow, and eight lines that nearly match all of them."""
    environment = {
        f"VALUE_{value}": "\n".join(f"{value}{line:07d}" for line in range(3500)) for value in range(8)
    }
    container_id = await site.world.new_container(environment)
    near = "".join(f"{number % 8}{number:06d}x" for number in range(2000))
    printer = Printer([chunk(number, near[number:]) for number in range(8)] + [chunk(9, "a 30000007 b")])
    source = await site.world.new_replica(container_id, printer)
    stalls_s: list[float] = []

    async def watch() -> None:
        while True:
            began_s = time.thread_time()
            await asyncio.sleep(0)
            stalls_s.append(time.thread_time() - began_s)

    async with asyncio.timeout(20):
        watching = asyncio.create_task(watch())
        await follower(site.world, source).run()
        watching.cancel()
    assert (await site.world.texts(source.replica_id))[-1] == f"a {MASK} b"
    assert max(stalls_s) < 0.05, f"the loop's thread computed for {max(stalls_s):.3f} s at a stretch"


async def test_our_own_words_are_told_from_printed_ones_by_their_stream(site: Site) -> None:
    """Not by their text: a container can print the same, and can have it masked."""
    said = (DROPPED % 10_000).decode()
    container_id = await site.world.new_container({"SECRET": said})
    flood = [chunk(number, "x") for number in range(30_000)]
    source = await site.world.new_replica(
        container_id, Printer([chunk(0, "y" + said[1:]), *flood], together=1000)
    )
    await follower(site.world, source).run()
    path = f"/api/v1/containers/{container_id}/logs"
    ours = (await site.client.get(path, params={"stream": "moorage"})).json()["items"]
    assert [(line["stream"], line["text"].split()[1:4]) for line in ours] == [
        ("moorage", ["lines", "dropped", "here:"])
    ]
    printed = (await site.client.get(path, params={"text": "dropped here", "stream": "stdout"})).json()[
        "items"
    ]
    assert [line["text"] for line in printed] == ["y" + said[1:]]
    counted = (
        await site.client.get(
            f"{path}/histogram", params={"from": "2026-05-01T00:00:00Z", "to": "2026-05-01T01:00:00Z"}
        )
    ).json()
    assert sum(counted["series"]["moorage"]) == 1
    downloaded = (await site.client.get(f"{path}/download", params={"stream": "moorage"})).text
    assert downloaded.split()[3] == "moorage"


async def test_replicas_of_a_version_share_what_finds_their_secrets() -> None:
    preparer = Preparer(system_clock)
    secrets = seal(KEYRING, "ctr_x", ContainerSecrets(environment={"TOKEN": "swordfish-43"}))
    other = seal(KEYRING, "ctr_x", ContainerSecrets(environment={"TOKEN": "swordfish-44"}))
    source = Source("rep_x", "ctr_x", "prj_x", "org_x", "engine_x")
    first = await preparer.masker(source, [secrets], KEYRING)
    assert first.hide("swordfish-43") == MASK
    assert await preparer.masker(source, [secrets], KEYRING) is first
    assert (await preparer.masker(source, [other], KEYRING)).hide("swordfish-44") == MASK
