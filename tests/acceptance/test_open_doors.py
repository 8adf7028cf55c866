"""No open side doors: what a running installation listens on, and what it answers to somebody without credentials."""

import re
from collections import Counter
from collections.abc import Iterable

import httpx
import pytest

from tests.acceptance.listening import listening, reachable_by
from tests.acceptance.stack import Stack

SOCKETS = (
    "run/api.sock", "run/haproxy.sock", "run/haproxy-master.sock", "run/holder.sock", "run/postgres/.s.PGSQL.5432",
    "run/released.sock", "run/requests.sock",
)  # fmt: skip
"""Between our own processes."""
ANOTHER_USER = 54_321

VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "DEBUG")
CLOSED = (401, 404, 405)
OPEN_ROUTES = {
    "GET /openapi.json", "HEAD /openapi.json", "GET /docs", "HEAD /docs", "GET /docs/api", "HEAD /docs/api", "GET /healthz", "GET /readyz", "GET /sign-in",
    "GET /api/v1/auth/providers", "POST /api/v1/auth/email/start", "POST /api/v1/auth/email/verify",
    "POST /api/v1/auth/link/verify", "POST /api/v1/auth/device", "POST /api/v1/auth/device/token",
    "POST /api/v1/webhooks/stripe", "POST /api/v1/machines/join", "GET /api/v1/machines/join.sh",
    "GET /api/v1/machines/join-community.sh",
    "GET /api/v1/machines/moorage.tar.gz",
}  # fmt: skip
NOT_DESCRIBED = (
    "/openapi.json", "/sign-in", "/device", "/api/v1/webhooks/stripe", "/docs/api", "/docs", "/redoc", "/debug", "/debug/pprof",
    "/admin", "/stats", "/haproxy?stats", "/.env", "/.git/config", "/api", "/api/v1", "/api/v1/internal", "/api/v2/me",
)  # fmt: skip
"""By the API's description: pages, what a provider calls, and doors that others left open."""
AT_THE_GATEWAY = (
    "/", "/c/ctr_aaaaaaaaaaaaaaaaaaaa", "/c/ctr_aaaaaaaaaaaaaaaaaaaa/api/v1/chat/completions", "/c/", "/metrics",
    "/stats", "/haproxy?stats", "/healthz", "/api/v1/me", "//c/x", "/c/../stats",
)  # fmt: skip


def test_what_listens(stack: Stack) -> None:
    found = listening(stack.home)
    front_doors = {f"127.0.0.1:{stack.api_port}", f"127.0.0.1:{stack.gateway_port}"}
    assert front_doors < found["tcp"]
    # The third is where the engine pulls images: without the password of a pull it tells nobody anything.
    (pulls,) = found["tcp"] - front_doors
    assert pulls.startswith("127.0.0.1:")
    assert {httpx.get(f"http://{pulls}{path}").status_code for path in ("/", "/v2/", "/v2/_catalog")} <= {
        401,
        404,
    }
    assert found["udp"] == set()
    assert found["unix"] == set(SOCKETS)
    sockets = [stack.home / name for name in SOCKETS]
    assert len(reachable_by(0, sockets)) == len(SOCKETS), "the look itself works"
    assert reachable_by(ANOTHER_USER, sockets) == []
    print(f"3 ports, all on loopback; {len(SOCKETS)} sockets, 0 of them within reach of another user")


def test_what_another_user_can_read(stack: Stack) -> None:
    """Logs name addresses, ids and failed statements."""
    logs = sorted((stack.home / "log").iterdir())
    assert {"api.log", "controller.log", "gateway.log", "haproxy.log", "postgres.log"} <= {
        one.name for one in logs
    }
    assert [one.name for one in logs if one.stat().st_mode & 0o077] == []


@pytest.mark.long
def test_what_answers(stack: Stack) -> None:
    """Every verb at every path, through the front door."""
    described = httpx.get(f"{stack.api_url}/openapi.json").json()["paths"]
    opened, tries = tried(stack.api_url, {*described, *NOT_DESCRIBED})
    assert opened == OPEN_ROUTES
    at_gateway, more_tries = tried(f"http://127.0.0.1:{stack.gateway_port}", AT_THE_GATEWAY)
    assert at_gateway == set()
    print(f"{tries + more_tries} tries of a stranger; open are the {len(OPEN_ROUTES)} of the list, 0 others")


def tried(url: str, paths: Iterable[str]) -> tuple[set[str], int]:
    opened, statuses = set(), Counter[int]()
    with httpx.Client(base_url=url, timeout=30) as client:
        for path in sorted(paths):
            for verb in VERBS:
                answer = client.request(verb, re.sub(r"\{[^}]*\}", "absent", path))
                statuses[answer.status_code] += 1
                # A verb that nobody knows is not even read.
                if answer.status_code not in CLOSED and (verb, answer.status_code) != ("DEBUG", 400):
                    opened.add(f"{verb} {path}")
    return opened, statuses.total()
