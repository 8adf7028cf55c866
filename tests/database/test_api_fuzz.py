"""Bodies that nobody would write: whatever is sent, the answer is never a 500."""

import json
from typing import Any

import structlog.testing
from api_support import ANONYMOUS, SMALL, Api, container_body, new_home
from api_support import api_fixture as api_fixture
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

CASES = 200

texts = st.one_of(
    st.text(st.characters(), max_size=20),  # lone surrogates included
    st.sampled_from(
        ["\x00", "a\x00b", "\ud800", "\udfff\ud800", "", "x" * 70_000, "ﷺ" * 70, "../..", "%00", SMALL]
    ),
    st.sampled_from(
        ["2099-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "a@b", "0000-00-00", "local/a", "acme/a"]
    ),
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    texts,
    st.integers(),
    st.sampled_from([0, -1, 2**31, 2**63, 2**64, 10**400, 1e308, float("inf"), float("nan")]),
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)

FULL_CONTAINER = container_body(
    category="chat",
    registry={"provider": "github", "username": "ada", "password": "x"},
    resources={"mode": "autoscaling", "instance_type": SMALL, "min_replicas": 1, "max_replicas": 2},
    start_command="serve",
    port=8080,
    health_check={"path": "/health", "timeout_s": 60},
    env={"TOKEN": "x"},
    infrastructure="any",
)
BODIES: dict[str, dict[str, Any]] = {
    "/projects/{project_id}/containers": FULL_CONTAINER,
    "/projects/{project_id}/api-keys": {"name": "x", "scope": "manage", "expires_at": "2099-01-01T00:00:00Z"},
    "/organizations/{organization_id}/projects": {"name": "x"},
    "/auth/email/start": {"email": "a@b.c"},
    "/auth/email/verify": {"email": "a@b.c", "code": "123456"},
    "/auth/link/verify": {"token": "moor_link_x"},
}
PATHS = [*BODIES, *["/projects/{project_id}/containers"] * 4]
"""Containers most often: they have the most to get wrong."""


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str]:
    """A path, and a valid body with one or two places replaced, or something else altogether."""
    path = draw(st.sampled_from(PATHS))
    if draw(st.integers(0, 9)) == 0:
        return path, json.dumps(draw(values))
    body = json.loads(json.dumps(BODIES[path]))
    for _ in range(draw(st.integers(1, 2))):
        place = body
        while True:
            name = draw(st.sampled_from(sorted(place)))
            if not isinstance(place[name], dict) or not place[name] or draw(st.booleans()):
                break
            place = place[name]
        if draw(st.integers(0, 5)) == 0:
            place[draw(texts)] = draw(values)
        else:
            place[name] = draw(values)
    return path, json.dumps(body)


async def test_never_a_500(api: Api) -> None:
    home = await new_home(api)
    seen: dict[int, int] = {}
    tried: list[tuple[str, str]] = []

    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(requests())
    def collect(request: tuple[str, str]) -> None:
        tried.append(request)

    collect()
    for path, content in tried:
        asker = ANONYMOUS if path.startswith("/auth") else home.admin
        filled = path.format(project_id=home.project_id, organization_id=home.organization_id)
        with structlog.testing.capture_logs() as logged:
            answer = await api.ask(
                asker,
                "POST",
                f"/api/v1{filled}",
                content=content,
                headers={"Content-Type": "application/json"},
            )
        assert answer.status_code < 500, f"POST {path} {content[:1000]}\n{logged}"
        seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
    assert set(seen) <= {200, 201, 202, 401, 403, 409, 413, 422, 429}, seen
    assert sum(seen.values()) >= CASES * 0.9
    print(f"{sum(seen.values())} bodies: {dict(sorted(seen.items()))}")
