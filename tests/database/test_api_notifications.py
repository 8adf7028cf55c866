"""Who is told what in the console, and that what one has read stays read."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from api_support import Api, Asker, Home, assert_problem, bearer, new_home
from api_support import api_fixture as api_fixture

from moorage.kit.ids import new_activity_id, new_audit_record_id


async def happened(
    api: Api, home: Home, kind: str, *, at: datetime | None = None, minutes_ago: float = 0, **more: Any
) -> None:
    """An activity of the project."""
    values = {"project_id": home.project_id, "container_id": None, "actor": "system", "message": None, **more}
    values["details"] = json.dumps(values.get("details", {}))
    await api.execute(
        "INSERT INTO activities (id, project_id, container_id, at, actor, kind, message, details) VALUES "
        "(:id, :project_id, :container_id, :at, :actor, :kind, :message, CAST(:details AS jsonb))",
        id=new_activity_id(),
        at=at or datetime.now(UTC) - timedelta(minutes=minutes_ago),
        kind=kind,
        **values,
    )


async def recorded(
    api: Api, home: Home, action: str, *, at: datetime | None = None, minutes_ago: float = 0, **more: Any
) -> None:
    """In the organization's audit log."""
    values = {"actor": "system", "target": home.organization_id, **more}
    values["details"] = json.dumps(values.get("details", {}))
    await api.execute(
        "INSERT INTO audit_records (id, organization_id, at, actor, action, target, details) VALUES "
        "(:id, :organization_id, :at, :actor, :action, :target, CAST(:details AS jsonb))",
        id=new_audit_record_id(),
        organization_id=home.organization_id,
        at=at or datetime.now(UTC) - timedelta(minutes=minutes_ago),
        action=action,
        **values,
    )


async def told(api: Api, home: Home, asker: Asker | None = None, **paging: Any) -> list[dict[str, Any]]:
    path = f"/organizations/{home.organization_id}/notifications"
    answer = await api.get(asker or home.admin, path, params=paging)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def titles(found: list[dict[str, Any]]) -> list[str]:
    return [one["title"] for one in found]


async def read(api: Api, home: Home, asker: Asker, until: str) -> None:
    path = f"/api/v1/organizations/{home.organization_id}/notifications/read"
    answer = await api.ask(asker, "PUT", path, json={"until": until})
    assert answer.status_code == 204, answer.text


async def test_what_matters_of_both_logs_newest_first(api: Api) -> None:
    home = await new_home(api)
    container = await api.new_container(home.project_id, "whisper")
    failed = {"from": "STARTING", "to": "FAILED"}
    why = "Listens on 127.0.0.1:8000; expected 0.0.0.0:8080."
    await happened(
        api,
        home,
        "container.state",
        container_id=container,
        details=failed,
        message=why,
        minutes_ago=3,
    )
    await recorded(
        api,
        home,
        "billing.low_credit",
        details={"hours": 24, "available_microusd": 3_000_000},
        minutes_ago=2,
    )
    await happened(
        api, home, "container.stop", container_id=container, message="Stopped because …", minutes_ago=1
    )
    # None of these: what goes on all day, a second reason of one failure, and what somebody asked for.
    await happened(
        api, home, "container.state", container_id=container, details={"from": "STARTING", "to": "RUNNING"}
    )
    await happened(
        api, home, "container.state", container_id=container, details={"from": "FAILED", "to": "FAILED"}
    )
    await happened(api, home, "container.autoscale", container_id=container)
    await happened(api, home, "container.stop", container_id=container, actor="usr_somebody")
    await recorded(api, home, "api_key.create")
    found = await told(api, home)
    assert titles(found) == ["whisper stops", "The credit ends within 24 hours", "whisper failed"]
    assert found[2]["text"] == why
    assert found[2]["event"] == "container.state"
    assert (found[2]["project_id"], found[2]["container_id"]) == (home.project_id, container)
    assert (found[1]["project_id"], found[1]["container_id"]) == (None, None)


async def test_nobody_is_told_of_what_they_did_or_may_not_see(api: Api) -> None:
    home, other = await new_home(api), await new_home(api, "eve@example.com")
    user_id, token = await api.new_person("ben@example.com")
    await api.join(home.organization_id, user_id)
    joined = await api.new_project(home.organization_id, "joined", user_id)
    ben = bearer("ben", token)
    failed = {"from": "STARTING", "to": "FAILED"}
    for project, name in ((home.project_id, "hidden"), (joined, "seen")):
        container = await api.new_container(project, name)
        await happened(
            api, home, "container.state", project_id=project, container_id=container, details=failed
        )
    await recorded(api, home, "invitation.accept", actor=user_id, details={"email": "ben@example.com"})
    await recorded(api, home, "billing.low_credit", details={"hours": 1, "available_microusd": 0})
    await recorded(
        api, home, "organization.suspend", actor=home.user_id, details={"reason": "Abuse"}, minutes_ago=1
    )
    await recorded(api, other, "organization.suspend", details={"reason": "Elsewhere"})
    assert set(titles(await told(api, home))) == {
        "hidden failed",
        "seen failed",
        "ben@example.com joined",
        "The credit ends within an hour",
    }
    assert titles(await told(api, home, ben)) == ["seen failed", "The organization is suspended"]
    assert titles(await told(api, other)) == ["The organization is suspended"]
    foreign = await api.get(other.admin, f"/organizations/{home.organization_id}/notifications")
    assert_problem(foreign, 404, "not_found")


async def test_what_one_has_read_stays_read_for_them_alone(api: Api) -> None:
    home = await new_home(api)
    user_id, token = await api.new_person("ben@example.com")
    await api.join(home.organization_id, user_id, "admin")
    ben = bearer("ben", token)
    for minutes_ago in (3, 2, 1):
        await recorded(api, home, "organization.resume", minutes_ago=minutes_ago)
    await api.execute("UPDATE organization_members SET joined_at = now() - interval '1 hour'")
    newest, middle, oldest = await told(api, home)
    assert [newest["unread"], middle["unread"], oldest["unread"]] == [True, True, True]
    await read(api, home, home.admin, middle["at"])
    assert [one["unread"] for one in await told(api, home)] == [True, False, False]
    await read(api, home, home.admin, oldest["at"])
    assert [one["unread"] for one in await told(api, home)] == [True, False, False]
    assert [one["unread"] for one in await told(api, home, ben)] == [True, True, True]
    # Nothing that is still to come is read.
    await read(api, home, home.admin, "9999-01-01T00:00:00Z")
    await recorded(api, home, "organization.suspend")
    assert [one["unread"] for one in await told(api, home)] == [True, False, False, False]


async def test_a_time_that_no_clock_shows_is_refused(api: Api) -> None:
    home = await new_home(api)
    path = f"/api/v1/organizations/{home.organization_id}/notifications/read"
    for until in ("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"):
        assert_problem(await api.ask(home.admin, "PUT", path, json={"until": until}), 422)


async def test_whoever_joins_has_nothing_to_catch_up_on(api: Api) -> None:
    home = await new_home(api)
    await recorded(api, home, "organization.resume", minutes_ago=60)
    user_id, token = await api.new_person("ben@example.com")
    await api.join(home.organization_id, user_id)
    (one,) = await told(api, home, bearer("ben", token))
    assert one["unread"] is False


async def test_what_is_gone_leads_nowhere_and_what_is_old_is_history(api: Api) -> None:
    home = await new_home(api)
    gone = await api.new_container(home.project_id, "gone")
    failed = {"from": "STARTING", "to": "FAILED"}
    await happened(api, home, "container.state", container_id=gone, details=failed)
    await happened(api, home, "container.state", container_id=gone, details=failed, minutes_ago=31 * 24 * 60)
    deleted = "UPDATE containers SET desired_state = 'deleted', deleted_at = now() WHERE id = :id"
    await api.execute(deleted, id=gone)
    (one,) = await told(api, home)
    assert (one["title"], one["container_id"]) == ("gone failed", None)
    await api.execute("UPDATE projects SET deleted_at = now() WHERE id = :id", id=home.project_id)
    assert await told(api, home) == []


async def test_pages_follow_each_other_across_both_logs(api: Api) -> None:
    home = await new_home(api)
    for minute in range(6):
        # As in one transaction.
        at = datetime.now(UTC) - timedelta(minutes=minute)
        await recorded(api, home, "organization.resume", at=at)
        await happened(api, home, "replica_limit.refused", at=at)
    path, cursor, seen = f"/organizations/{home.organization_id}/notifications", None, []
    while True:
        params = {"limit": 5} | ({"cursor": cursor} if cursor else {})
        answer = (await api.get(home.admin, path, params=params)).json()
        seen += answer["items"]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    assert len({one["id"] for one in seen}) == len(seen) == 12
    assert [one["at"] for one in seen] == sorted((one["at"] for one in seen), reverse=True)


async def test_a_long_history_is_found_by_its_index(api: Api) -> None:
    """However much happens to a project's containers, only what is worth telling is read."""
    home = await new_home(api)
    await api.execute(
        "INSERT INTO activities (id, project_id, at, actor, kind, details) SELECT 'act_' || n, :id, "
        "now() - n * interval '1 second', 'system', 'container.autoscale', '{}' FROM generate_series(1, 20000) n",
        id=home.project_id,
    )
    await happened(api, home, "replica_limit.refused", message="No.")
    await api.execute("ANALYZE activities")

    async def scans() -> int:
        found = await api.rows("SELECT pg_stat_get_numscans('ix_activities_worth_telling'::regclass)")
        return int(found[0][0])

    before = await scans()
    # Each connection counts for itself and tells of it a moment later.
    async with asyncio.timeout(20):
        while await scans() == before:
            assert titles(await told(api, home)) == ["More replicas were refused for default"]
