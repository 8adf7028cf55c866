"""Updates with `rolling` under load, on a real Docker engine and HAProxy: a version that is good, and everything that a
version can do wrong. `make prove-updates` prints the figures."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

import pytest

from tests.acceptance.conftest import run_stack
from tests.acceptance.load import Seen, open_loop
from tests.acceptance.stack import Deployed, Person, Stack, until

REQUESTS_PER_S = 100
LEAST_REQUESTS = 4000
WATCH_S = 75
FAILS_AFTER_S = 60
BOUND_PERCENT = 1.0
SERVER = """
import os, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

began = time.monotonic()

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        bad = os.environ["MODE"] == "late" and time.monotonic() - began > float(os.environ["FAILS_AFTER_S"])
        if self.path == "/health":
            status = 503 if os.environ["MODE"] == "unhealthy" else 200
        else:
            status = 500 if bad else 200
        body = os.environ["NAME"].encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

class Server(ThreadingHTTPServer):
    request_queue_size = 128

if os.environ["MODE"] == "crash":
    raise SystemExit(3)
Server(("0.0.0.0", 8000), Handler).serve_forever()
"""
TWO = {"mode": "autoscaling", "instance_type": "cpu-nano", "min_replicas": 2, "max_replicas": 2}


@pytest.fixture
def watching_stack(docker_host: str) -> Iterator[Stack]:
    yield from run_stack(docker_host, "25000-26999", MOORAGE_UPDATE_WATCH_S=str(WATCH_S))


def environment(name: str, mode: str = "good") -> dict[str, str]:
    return {"NAME": name, "MODE": mode, "SERVER": SERVER, "FAILS_AFTER_S": str(FAILS_AFTER_S)}


class Story:
    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.person: Person = stack.sign_up("ann@example.com")
        self.chat: Deployed = self.person.deploy(
            "updated",
            resources=TWO,
            start_command="python3 -c 'import os; exec(os.environ[\"SERVER\"])'",
            port=8000,
            health_check={"path": "/health", "timeout_s": 10},
            env=environment("v1"),
        )
        self.key = self.person.key()

    def load(self) -> AbstractAsyncContextManager[Seen]:
        return open_loop(self.chat, self.key, REQUESTS_PER_S)

    def draft(self, **changes: Any) -> dict[str, Any]:
        saved = self.person.api.put(f"/containers/{self.chat.id}/draft", json=changes)
        assert saved.status_code == 200, saved.text
        needs: dict[str, Any] = saved.json()["rolling"]
        return needs

    def apply(self) -> None:
        answer = self.person.api.post(f"/containers/{self.chat.id}/draft/apply", json={"strategy": "rolling"})
        assert answer.status_code == 202, answer.text

    def roll_back(self, version: int) -> None:
        answer = self.person.api.post(f"/containers/{self.chat.id}/rollback", json={"version": version})
        assert answer.status_code == 202, answer.text

    def versions(self) -> dict[int, dict[str, Any]]:
        items = self.person.api.get(f"/containers/{self.chat.id}/versions").json()["items"]
        return {one["version"]: one for one in items}

    def replicas(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.person.api.get(f"/containers/{self.chat.id}/replicas").json()[
            "items"
        ]
        return found

    def serving(self) -> list[dict[str, Any]]:
        return [one for one in self.replicas() if one["state"] == "routed"]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await asyncio.to_thread(until, condition, what, 240, 0.1)

    async def over(self) -> None:
        """The update has ended, well or not."""
        await self.until(lambda: self.chat.read()["rollout"] is None, "the update is over")

    async def taken_over(self, version: int) -> None:
        await self.until(
            lambda: {one["version"] for one in self.serving()} == {version}, f"only version {version} serves"
        )
        await asyncio.sleep(2)  # Requests that the other one had in flight are answered by then.

    async def enough(self, seen: Seen) -> None:
        await self.until(lambda: len(seen) >= LEAST_REQUESTS, f"{LEAST_REQUESTS} requests")


async def _that_serves(stack: Stack) -> Story:
    story = Story(stack)
    found = story.chat.until_state("RUNNING", "FAILED")
    assert found["state"] == "RUNNING", found["message"]
    await story.until(lambda: len(story.serving()) == 2, "two replicas serve")
    return story


@pytest.mark.long
@pytest.mark.quiet
@pytest.mark.timeout(600)
async def test_a_good_version_takes_over(watching_stack: Stack) -> None:
    await _good(await _that_serves(watching_stack))


@pytest.mark.proof
@pytest.mark.quiet
@pytest.mark.timeout(1800)
async def test_an_update_cannot_take_a_service_down(watching_stack: Stack) -> None:
    story = await _that_serves(watching_stack)
    await _good(story)
    await _crashes(story)
    await _never_healthy(story)
    await _does_not_fit(story)
    await _fails_late(story)
    await _controller_killed(story)
    await _rolled_back_by_hand(story)
    _history(story)
    story.chat.delete()


async def _good(story: Story) -> None:
    needs = story.draft(env=environment("v2"))
    assert (needs["cost_microusd"], needs["beside_at_least"]) == (0, 1)
    async with story.load() as seen:
        story.apply()
        await story.over()
        await story.taken_over(2)
        await story.enough(seen)
    _none_failed("a good version", seen)
    assert seen.answers[-1][2] == "v2"
    assert story.versions()[2]["outcome"] == "serving"


async def _crashes(story: Story) -> None:
    await _goes_back(story, "one that crashes", env=environment("v3", "crash"), reason="exited")


async def _never_healthy(story: Story) -> None:
    await _goes_back(
        story,
        "one that never becomes healthy",
        env=environment("v4", "unhealthy"),
        reason="health_check_status",
    )


async def _does_not_fit(story: Story) -> None:
    resources = {**TWO, "instance_type": "h200-141gb"}
    await _goes_back(story, "one that does not fit", resources=resources, reason="no_capacity")


async def _goes_back(story: Story, what: str, *, reason: str, **changes: Any) -> None:
    before = {one["id"] for one in story.serving()}
    story.draft(**changes)
    async with story.load() as seen:
        story.apply()
        await story.over()
        await story.enough(seen)
    _none_failed(what, seen)
    assert set(seen.answered_by) == {"v2"}
    assert {one["id"] for one in story.serving()} == before, "the very same processes serve"
    found = story.chat.read()
    assert (found["state"], found["version"], found["reason"]) == ("RUNNING", 2, reason)


async def _fails_late(story: Story) -> None:
    before = {one["id"] for one in story.serving()}
    story.draft(resources=TWO, env=environment("v6", "late"))
    async with story.load() as seen:
        story.apply()
        await story.over()
        await story.enough(seen)
    wrong = [one for one in seen.answers if one[1] != "200"]
    assert wrong, "it failed, or nothing was tried"
    assert {(status, name) for _, status, name in wrong} == {("500", "v6")}, "only its own answers fail"
    passed_at, ended_at = _bound_passed_at(seen), max(at for at, _, _ in wrong)
    print(
        f"one that fails after {FAILS_AFTER_S} s: {len(wrong)} of {len(seen)} requests failed, all its own, of its "
        f"{seen.answered_by['v6']}; the last {ended_at - passed_at:.1f} s after its bound was passed"
    )
    assert ended_at - passed_at <= 10
    assert {one["id"] for one in story.serving()} == before
    found = story.chat.read()
    assert (found["version"], found["reason"]) == (2, "errors_above_bound")


def _bound_passed_at(seen: Seen) -> float:
    answers = errors = 0
    for at, status, name in sorted(seen.answers):
        if name == "v6":
            answers += 1
            errors += status != "200"
            if errors >= 5 and 100 * errors / answers > BOUND_PERCENT:
                return at
    raise AssertionError("its bound was never passed")


async def _controller_killed(story: Story) -> None:
    story.draft(env=environment("v7"))
    async with story.load() as seen:
        story.apply()
        story.stack.kill("controller")
        await story.until(lambda: any(one["version"] == 7 for one in story.serving()), "both versions serve")
        story.stack.kill("controller")
        await story.over()
        await story.taken_over(7)
        await story.enough(seen)
    _none_failed("a good version, and the controller killed twice", seen)
    assert seen.answers[-1][2] == "v7"


async def _rolled_back_by_hand(story: Story) -> None:
    async with story.load() as seen:
        story.roll_back(2)
        await story.over()
        await story.taken_over(8)
        await story.enough(seen)
    _none_failed("rolled back by hand", seen)
    ready_at = max(
        datetime.fromisoformat(one["ready_at"]).timestamp() for one in story.replicas() if one["version"] == 8
    )
    last_other = max(at for at, _, name in seen.answers if name == "v7")
    print(f"a rollback by hand took effect {last_other - ready_at:.2f} s after its replicas were ready")
    assert last_other - ready_at <= 1
    assert seen.answers[-1][2] == "v2"


def _none_failed(what: str, seen: Seen) -> None:
    print(
        f"{what}: {len(seen) - seen.outcomes['200']} of {len(seen)} requests failed; {dict(seen.answered_by)}"
    )
    assert len(seen) >= LEAST_REQUESTS
    assert dict(seen.outcomes) == {"200": len(seen)}


def _history(story: Story) -> None:
    found = story.versions()
    outcomes = {number: (one["strategy"], one["outcome"]) for number, one in sorted(found.items())}
    for number, one in sorted(found.items()):
        print(f"version {number}: {one['outcome']}, served {one['served_s']:.0f} s. {one['reason'] or ''}")
    assert outcomes == {
        1: (None, "replaced"),
        2: ("rolling", "replaced"),
        3: ("rolling", "rolled_back"),
        4: ("rolling", "rolled_back"),
        5: ("rolling", "rolled_back"),
        6: ("rolling", "rolled_back"),
        7: ("rolling", "replaced"),
        8: ("rolling", "serving"),
    }
    for number in (3, 4, 5):
        assert found[number]["served_s"] == 0
    assert all(found[number]["served_s"] > FAILS_AFTER_S / 2 for number in (2, 6, 7))
    assert all(one["reason"] for number, one in found.items() if number in (3, 4, 5, 6, 8))
    for one in found.values():
        assert one["created_by"].startswith("usr_")
        assert one["digest"], "of the image that it ran, or was to run"
        secrets = [change for change in one["changes"] if change["field"].startswith("env.")]
        assert {value for change in secrets for value in (change["from"], change["to"])} <= {"***", None}
