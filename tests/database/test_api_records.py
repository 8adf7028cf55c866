"""Every change leaves a record: from the route table, one activity or audit record for each route that changes something."""

import pytest
from api_support import SAFE_METHODS, Api, bearer
from api_support import api_fixture as api_fixture
from test_api_access import (
    ACME,
    ASKERS,
    EXPECTED,
    FIXED_ANSWERS,
    NOT_SET_UP,
    OK,
    REMOVE_PROJECT,
    ROUTES,
    new_town,
)

RECORDED_ELSEWHERE = {
    "POST /api/v1/auth/device/{user_code}": "the session that comes of it",
    "POST /api/v1/auth/logout": "the session's own end",
    "DELETE /api/v1/me/sessions": "the sessions' own ends",
    "DELETE /api/v1/me/sessions/{session_id}": "the session's own end",
    "PUT /api/v1/organizations/{organization_id}/notifications/read": "nothing: how far somebody has read is theirs alone",
    "POST /api/v1/projects/{project_id}/containers/preflight": "nothing: it only looks",
    "POST /api/v1/projects/{project_id}/models/resolve": "nothing: it only looks",
    "POST /api/v1/containers/{container_id}/autoscaling/replay": "nothing: it only reckons",
}
"""Routes of signed-in people that belong to no organization, or that change nothing."""


@pytest.mark.long
async def test_every_changing_route(api: Api) -> None:
    town = await new_town(api)
    recorded, missing = 0, []
    changing = [
        (route, EXPECTED[rule])
        for route, rule in ROUTES.items()
        if route.split(" ")[0] not in SAFE_METHODS and rule != "anybody" and OK in EXPECTED[rule]
        if route not in {*FIXED_ANSWERS, *NOT_SET_UP, *RECORDED_ELSEWHERE}
    ]
    for route, answers in changing:
        asker = town.askers["admin" if answers[ASKERS.index("admin")] == OK else ASKERS[answers.index(OK)]]
        ids = await town.ids(town.acme, ACME, route)
        if route == REMOVE_PROJECT:
            ids["project_id"] = await api.new_project(town.acme.organization_id, "to be removed")
        # Of what is so already there is nothing to do, and nothing to record.
        if route.endswith("/stop"):
            await api.execute("UPDATE containers SET desired_state = 'running'")
        if route.endswith("/auto-top-up"):
            await api.execute("UPDATE auto_top_ups SET monthly_cap_microusd = 60000000")
        if route.endswith("/intake"):
            await api.execute("UPDATE nodes SET cordoned_at = now()")
        before = await records(api)
        answer = await town.request(asker, route, ids)
        assert answer.status_code < 300, f"{asker.name}: {route}: {answer.text}"
        if await records(api) > before:
            recorded += 1
        else:
            missing.append(route)
    assert missing == []
    # The audit log reads them when there may be nothing else left to name it.
    nameless = "SELECT kind FROM activities WHERE actor <> 'system' AND container_id IS NOT NULL AND NOT details ? 'name'"
    assert await api.rows(nameless) == []
    assert len(changing) >= 20
    print(f"{recorded} of {len(changing)} changing routes leave a record")


async def test_invitation_is_recorded(api: Api) -> None:
    """Nobody in the route table is invited, so this one route has a test of its own."""
    town = await new_town(api)
    _, token = await api.new_person("invited@example.com")
    _, link = await api.new_invitation(town.acme.organization_id, "invited@example.com")
    before = await records(api)
    answer = await api.post(bearer("invited", token), f"/invitations/{link}/accept")
    assert answer.status_code == 200
    assert await records(api) == before + 1


async def records(api: Api) -> int:
    (row,) = await api.rows("SELECT (SELECT count(*) FROM activities) + (SELECT count(*) FROM audit_records)")
    return int(row[0])
