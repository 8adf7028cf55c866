"""Starts that come to nothing cost nothing, and there is so much of them for an organization and a day."""

import pytest
from api_support import Api, Home, assert_problem, container_body, new_home
from api_support import api_fixture as api_fixture
from reconciler_support import WatchedEngine, life, new_world
from test_api_drafts import deployed, save
from test_renewals import balance, change, rounds

from moorage.containers.unpaid_starts_repository import unpaid_starts_microusd
from moorage.kit.database import Database

H100_MICROUSD = 3_990_000
DAY = "date_trunc('day', now(), 'UTC')"


async def started(
    api: Api,
    home: Home,
    began: str,
    ended: str | None,
    *,
    ready: bool = False,
    state: str = "removed",
    reason: str | None = None,
    times: int = 1,
) -> str:
    """A container that is stopped, and a replica of it that ran on an H100 from then until then; or several, one after
    the other, that took an hour each."""
    ((number,),) = await api.rows("SELECT count(*) FROM containers")
    created = await api.post(
        home.admin, f"/projects/{home.project_id}/containers", container_body(name=f"c-{number}")
    )
    assert created.status_code == 201, created.text
    container_id = str(created.json()["id"])
    await api.execute("UPDATE containers SET state = 'STOPPED', desired_state = 'stopped'")
    await api.execute(
        "INSERT INTO replicas (id, container_id, slot, generation, instance_type, state, node, gpu_device_ids, host,"
        f" host_port, port_released_at, created_at, started_at, ended_at, ready_at, reason, ended_badly)"
        " SELECT :id || hour, :container, 0, 1, 'h100-80gb', :state, 'local', '{}', '127.0.0.1', 20000, now(),"
        f" {began} + hour * interval '1 hour', {began} + hour * interval '1 hour',"
        f" {ended or 'NULL::timestamptz'} - (:times - 1 - hour) * interval '1 hour', {began if ready else 'NULL'}, :reason, false"
        " FROM generate_series(0, :times - 1) AS hour",
        id=f"rep_{number}_",
        times=times,
        container=container_id,
        state=state,
        reason=reason,
    )
    return container_id


async def used(api: Api, home: Home) -> int:
    async with api.database.transaction() as session:
        return await unpaid_starts_microusd(session, home.organization_id)


async def test_stopped_again_and_again_it_is_refused_also_under_another_name(api: Api) -> None:
    home = await new_home(api)
    container_id = await started(
        api, home, f"{DAY} - interval '1 hour'", f"{DAY} + interval '5 hours'", times=6
    )
    assert await used(api, home) == 5 * H100_MICROUSD, "only today's count, at their price"
    again = await api.post(home.admin, f"/containers/{container_id}/start")
    assert again.status_code == 202, "19.95 of 20.00 USD"
    await started(api, home, f"{DAY} + interval '6 hours'", f"{DAY} + interval '7 hours'")
    await api.execute("UPDATE containers SET state = 'STOPPED', desired_state = 'stopped'")
    for path in (f"/containers/{container_id}/start", f"/containers/{container_id}/restart"):
        refused = await api.post(home.admin, path)
        problem = assert_problem(refused, 429, "start_limit")
        assert "daily allowance" in problem["detail"]
        assert "00:00 UTC" in problem["detail"]
        assert 0 < int(refused.headers["retry-after"]) <= 24 * 3600
    await api.execute("UPDATE containers SET deleted_at = now(), desired_state = 'deleted'")
    path = f"/projects/{home.project_id}/containers"
    assert_problem(await api.post(home.admin, path, container_body()), 429, "start_limit")
    other = await new_home(api, "other@example.com")
    assert (
        await api.post(other.admin, f"/projects/{other.project_id}/containers", container_body())
    ).is_success


@pytest.mark.parametrize(
    ("ended", "how", "expected"),
    [
        (f"{DAY} + interval '30 minutes'", {}, H100_MICROUSD // 2),
        (f"{DAY} + interval '2 hours'", {"ready": True}, 0),
        (f"{DAY} + interval '2 hours'", {"reason": "node_lost"}, 0),
        (f"{DAY} + interval '30 minutes'", {"reason": "exited"}, H100_MICROUSD // 2),
        (f"{DAY} + interval '9 hours'", {}, H100_MICROUSD),
        (None, {}, 0),
    ],
    ids=[
        "stopped",
        "it was ready",
        "its machine was lost",
        "it exited",
        "nobody was there to end it",
        "it ended unseen",
    ],
)
async def test_what_counts(api: Api, ended: str | None, how: dict[str, object], expected: int) -> None:
    home = await new_home(api)
    await started(api, home, DAY, ended, **how)  # type: ignore[arg-type]
    assert await used(api, home) == expected


async def test_what_still_starts_counts_up_to_now(api: Api) -> None:
    home = await new_home(api)
    await started(api, home, "now() - interval '1 minute'", None, state="starting")
    ((elapsed_s,),) = await api.rows(
        f"SELECT extract(epoch FROM least(now() - {DAY}, interval '1 minute'))::float8"
    )
    counted_s = await used(api, home) * 3600 / H100_MICROUSD
    assert elapsed_s - 1 < counted_s < elapsed_s + 60


async def test_what_lies_in_a_paid_hour_does_not_count_and_may_start(api: Api) -> None:
    home = await new_home(api)
    container_id = await started(api, home, DAY, f"{DAY} + interval '8 hours'", times=8)
    assert await used(api, home) == 8 * H100_MICROUSD
    await api.execute(
        f"UPDATE hours SET state = 'paid', bought_at = {DAY}, expires_at = {DAY} + interval '1 hour',"
        " due_at = NULL"
    )
    assert await used(api, home) == 7 * H100_MICROUSD
    assert_problem(await api.post(home.admin, f"/containers/{container_id}/start"), 429, "start_limit")
    await api.execute("UPDATE hours SET expires_at = now() + interval '1 minute', due_at = now()")
    assert (await api.post(home.admin, f"/containers/{container_id}/start")).status_code == 202


async def test_a_successor_that_never_takes_over_counts(api: Api) -> None:
    """Two processes, and one hour for both."""
    home = await new_home(api)
    container_id = await started(api, home, DAY, f"{DAY} + interval '8 hours'", times=8)
    await api.execute(
        f"UPDATE hours SET state = 'paid', bought_at = {DAY}, expires_at = {DAY} + interval '25 hours', due_at = now()"
    )
    assert await used(api, home) == 0
    await api.execute(
        "INSERT INTO replicas (id, container_id, slot, generation, instance_type, state, node, gpu_device_ids, host,"
        " host_port, created_at, started_at, ready_at, ended_badly) SELECT 'rep_old', container_id, 0, 0, instance_type, 'routed',"
        f" node, '{{}}', host, 20001, {DAY}, {DAY}, {DAY} + interval '1 hour', false FROM replicas LIMIT 1"
    )
    assert await used(api, home) == 7 * H100_MICROUSD
    await api.execute("UPDATE containers SET state = 'RUNNING', desired_state = 'running'")
    assert_problem(await api.post(home.admin, f"/containers/{container_id}/restart"), 429, "start_limit")
    assert (await api.post(home.admin, f"/containers/{container_id}/start")).status_code == 200


async def test_an_update_can_be_called_off_when_nothing_may_be_started(api: Api) -> None:
    """It is spent just when updates fail; and what served goes on without a start."""
    home = await new_home(api)
    container_id = await deployed(api, home)
    await save(api, home, container_id, {"image": "acme/chat:2"})
    path = f"/containers/{container_id}"
    assert (await api.post(home.admin, f"{path}/draft/apply", {"strategy": "rolling"})).status_code == 202
    await started(api, home, DAY, f"{DAY} + interval '8 hours'", times=8)
    await api.execute("UPDATE containers SET state = 'RUNNING', desired_state = 'running'")
    back = await api.post(home.admin, f"{path}/rollback", {"version": 1})
    assert back.status_code == 202, back.text
    assert (back.json()["version"], back.json()["rollout"]) == (1, None)
    # What would start something waits until tomorrow.
    again = await api.post(home.admin, f"{path}/draft/apply", {"strategy": "rolling"})
    assert_problem(again, 429, "start_limit")
    assert_problem(await api.post(home.admin, f"{path}/rollback", {"version": 2}), 429, "start_limit")


@pytest.mark.long
async def test_a_start_that_goes_on_is_ended(database: Database) -> None:
    """A price at which half a minute is more than a day has."""
    world = await new_world(database)
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await world.create("local/deaf:latest", health_timeout_s=3600)
        await rounds(world, controller, container_id, 3)
        assert len(await world.replicas(container_id, "starting")) == 1
        await change(world, "UPDATE instance_types SET price_per_hour_microusd = 4000000000")
        await rounds(world, controller, container_id, 1)
        assert len(await world.replicas(container_id, "starting")) == 1
        await change(
            world,
            "UPDATE replicas SET created_at = now() - interval '1 minute', started_at = now() - interval '1 minute'",
        )
        await rounds(world, controller, container_id, 6)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("FAILED", "start_limit"), row.message
        assert await world.nothing_left(container_id)
        assert (await balance(world)).held_microusd == 0
