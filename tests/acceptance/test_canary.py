"""Canaries under load, on a real Docker engine and HAProxy: exact shares, a version with errors that the rule drops, a slow one
too, and a good one that it promotes, with the controller killed meanwhile. `make prove-updates` prints the figures."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.conftest import run_stack
from tests.acceptance.load import Seen, open_loop
from tests.acceptance.stack import Deployed, Person, Stack, until
from tests.acceptance.test_updates import TWO, Story

REQUESTS_PER_S = 100
SHARE_REQUESTS = 10_000
PROMOTE_AFTER_S = 60
SERVER = """
import os, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

numbers, lock = iter(range(10**9)), threading.Lock()

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status = 200
        if self.path != "/health":
            with lock:
                number = next(numbers)
            if int(os.environ["ERROR_EACH"]) and number % int(os.environ["ERROR_EACH"]) == 0:
                status = 500
            time.sleep(float(os.environ["TAKES_S"]))
        body = os.environ["NAME"].encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

class Server(ThreadingHTTPServer):
    request_queue_size = 128

Server(("0.0.0.0", 8000), Handler).serve_forever()
"""


@pytest.fixture
def stack(docker_host: str) -> Iterator[Stack]:
    yield from run_stack(docker_host, "27000-28999")


def environment(name: str, *, error_each: int = 0, takes_s: float = 0.02) -> dict[str, str]:
    return {"NAME": name, "SERVER": SERVER, "ERROR_EACH": str(error_each), "TAKES_S": str(takes_s)}


class CanaryStory(Story):
    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.person: Person = stack.sign_up("ann@example.com")
        self.chat: Deployed = self.person.deploy(
            "watched",
            resources=TWO,
            start_command="python3 -c 'import os; exec(os.environ[\"SERVER\"])'",
            port=8000,
            health_check={"path": "/health", "timeout_s": 30},
            env=environment("v1"),
        )
        self.key = self.person.key()

    def begin(self, share: int, **options: Any) -> None:
        body = {"strategy": "canary", "share": share, **options}
        answer = self.person.api.post(f"/containers/{self.chat.id}/draft/apply", json=body)
        assert answer.status_code == 202, answer.text

    async def serves(self) -> None:
        await self.until(lambda: self.chat.read()["rollout"]["serving_since"], "the canary serves")

    def decide(self, how: str) -> None:
        answer = self.person.api.post(f"/containers/{self.chat.id}/canary/{how}")
        assert answer.status_code == 202, answer.text

    def side_by_side(self) -> str:
        both = sorted(self.versions().items())[-2:]
        return "; ".join(
            f"version {number}: {one['answers']} answers, {one['errors']} errors, p95 {one['response_p95_ms'] or 0:.0f} ms"
            for number, one in both
        )


@pytest.mark.proof
@pytest.mark.quiet
@pytest.mark.timeout(1800)
async def test_a_canary_is_judged_by_what_it_answers(stack: Stack) -> None:
    story = CanaryStory(stack)
    found = story.chat.until_state("RUNNING", "FAILED")
    assert found["state"] == "RUNNING", found["message"]
    await story.until(lambda: len(story.serving()) == 2, "two replicas serve")
    await _exact_share(story)
    await _errors(story)
    await _slow(story)
    await _good(story)
    outcomes = {number: one["outcome"] for number, one in sorted(story.versions().items())}
    assert outcomes == {1: "replaced", 2: "rolled_back", 3: "rolled_back", 4: "rolled_back", 5: "serving"}
    for number, one in sorted(story.versions().items()):
        print(f"version {number}: {one['outcome']}, served {one['served_s']:.0f} s. {one['reason'] or ''}")
    story.chat.delete()


async def _exact_share(story: CanaryStory) -> None:
    story.draft(env=environment("v2"))
    story.begin(10)
    await story.serves()
    seen = Seen()
    async with open_loop(story.chat, story.key, REQUESTS_PER_S, seen=seen):
        await story.until(lambda: len(seen) >= SHARE_REQUESTS, f"{SHARE_REQUESTS} requests")
        print(f"side by side: {story.side_by_side()}")
    share = 100 * seen.answered_by["v2"] / len(seen)
    print(f"10 % asked for: {share:.2f} % of {len(seen)} requests; {len(seen) - seen.outcomes['200']} failed")
    assert abs(share - 10) <= 1
    assert dict(seen.outcomes) == {"200": len(seen)}
    story.decide("abort")
    await story.over()


async def _errors(story: CanaryStory) -> None:
    before = {one["id"] for one in story.serving() if one["version"] == 1}
    story.draft(env=environment("v3", error_each=20))
    async with open_loop(story.chat, story.key, REQUESTS_PER_S) as seen:
        story.begin(20)
        await story.over()
    wrong = [one for one in seen.answers if one[1] != "200"]
    assert wrong, "it failed, or nothing was tried"
    assert {(status, name) for _, status, name in wrong} == {("500", "v3")}, "only its own answers fail"
    print(
        f"5 % errors: {len(wrong)} of {len(seen)} requests failed, all its own, of its {seen.answered_by['v3']}"
    )
    found = story.chat.read()
    assert (found["version"], found["reason"]) == (1, "errors_above_bound")
    assert {one["id"] for one in story.serving()} >= before, "the very same processes serve"


async def _slow(story: CanaryStory) -> None:
    story.draft(env=environment("v4", takes_s=0.2))
    async with open_loop(story.chat, story.key, REQUESTS_PER_S) as seen:
        story.begin(20)
        await story.over()
    assert dict(seen.outcomes) == {"200": len(seen)}
    print(f"ten times as slow: dropped after {seen.answered_by['v4']} answers of {len(seen)}")
    assert story.chat.read()["reason"] == "slower_than_before"


async def _good(story: CanaryStory) -> None:
    story.draft(env=environment("v5"))
    async with open_loop(story.chat, story.key, REQUESTS_PER_S) as seen:
        story.begin(20, promote_after_s=PROMOTE_AFTER_S)
        await story.serves()
        story.stack.kill("controller")
        await story.over()
        await story.taken_over(5)
    print(
        f"a good one: promoted by the rule; {len(seen) - seen.outcomes['200']} of {len(seen)} requests failed"
    )
    assert dict(seen.outcomes) == {"200": len(seen)}
    assert seen.answers[-1][2] == "v5"
    until(lambda: story.chat.read()["version"] == 5, "it is the container's version", 10, 0.1)
