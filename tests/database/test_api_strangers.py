"""What a stranger gets at every path with every verb: nothing, but for the routes that are listed as everybody's."""

from collections import Counter

import pytest
from api_support import ANONYMOUS, Api
from api_support import api_fixture as api_fixture
from test_api_access import ROUTES, absent_ids

VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "DEBUG")
USUAL_DOORS = (
    "/docs", "/redoc", "/metrics", "/debug", "/debug/pprof", "/admin", "/.env", "/.git/config", "/api", "/api/v1",
    "/api/v1/", "/api/v2/me", "/api/v1/admin", "/api/v1/users", "/api/v1/operator", "/api/v1/debug", "/api/v1/internal",
    "/api/v1/openapi.json", "/api/v1/../healthz", "//healthz", "/api/v1/me/", "/api/v1//me", "/api/v1/%2e%2e/healthz",
)  # fmt: skip


@pytest.mark.long
async def test_every_verb_at_every_path(api: Api) -> None:
    open_to_all = {route for route, rule in ROUTES.items() if rule == "anybody"}
    # A HEAD is a GET without its body.
    open_to_all |= {route.replace("GET ", "HEAD ", 1) for route in open_to_all if route.startswith("GET ")}
    paths = {route.split(" ")[1] for route in ROUTES}
    before = await api.dump()
    statuses: Counter[int] = Counter()
    for path in (*sorted(paths), *USUAL_DOORS):
        for verb in VERBS:
            if f"{verb} {path}" in open_to_all:
                continue
            answer = await api.ask(ANONYMOUS, verb, path.format(**absent_ids()) if path in paths else path)
            allowed = (401, 404, 405) if path in paths else (404, 405, 307)
            assert answer.status_code in allowed, f"{verb} {path}: {answer.status_code} {answer.text[:200]}"
            statuses[answer.status_code] += 1
    assert await api.dump() == before
    print(f"{sum(statuses.values())} tries of a stranger, {len(open_to_all)} open routes: {dict(statuses)}")
