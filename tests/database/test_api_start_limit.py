"""A container that failed to start too often: the start is refused, and says when it may be tried again."""

from api_support import Api, Home, assert_problem, container_body, new_home
from api_support import api_fixture as api_fixture


async def failed(api: Api, home: Home, times: int, *, reason: str = "exited", was_ready: bool = False) -> str:
    created = await api.post(home.admin, f"/projects/{home.project_id}/containers", container_body())
    container_id = str(created.json()["id"])
    await api.execute("UPDATE containers SET state = 'FAILED', failed_generation = generation")
    await api.execute(
        "INSERT INTO replicas (id, container_id, slot, generation, instance_type, state, node, gpu_device_ids,"
        " host, host_port, port_released_at, ended_at, reason, ended_badly, ready_at)"
        " SELECT 'rep_' || n, id, 0, n, instance_type, 'removed', 'local', '{}', '127.0.0.1', 20000, now(),"
        " now() - n * interval '1 minute', :reason, true, CASE WHEN :ready THEN now() END"
        " FROM containers, generate_series(1, :times) n WHERE id = :id",
        id=container_id,
        times=times,
        reason=reason,
        ready=was_ready,
    )
    return container_id


async def test_the_seventh_waits(api: Api) -> None:
    home = await new_home(api)
    container_id = await failed(api, home, 6)
    for verb in ("start", "restart"):
        refused = await api.post(home.admin, f"/containers/{container_id}/{verb}")
        problem = assert_problem(refused, 429, "start_limit")
        assert "may start again at" in problem["detail"]
        assert 53 * 60 <= int(refused.headers["retry-after"]) <= 54 * 60 + 60
    await api.execute("UPDATE replicas SET ended_at = ended_at - interval '55 minutes'")
    assert (await api.post(home.admin, f"/containers/{container_id}/start")).status_code == 202


async def test_the_sixth_may_start(api: Api) -> None:
    home = await new_home(api)
    container_id = await failed(api, home, 5)
    assert (await api.post(home.admin, f"/containers/{container_id}/start")).status_code == 202


async def test_what_was_ready_or_lost_does_not_count(api: Api) -> None:
    home = await new_home(api)
    container_id = await failed(api, home, 6, was_ready=True)
    assert (await api.post(home.admin, f"/containers/{container_id}/start")).status_code == 202


async def test_a_lost_machine_is_not_its_fault(api: Api) -> None:
    home = await new_home(api)
    container_id = await failed(api, home, 6, reason="node_lost")
    assert (await api.post(home.admin, f"/containers/{container_id}/start")).status_code == 202


async def test_starts_have_a_pace_and_stops_have_none(api: Api) -> None:
    home = await new_home(api)
    created = await api.post(home.admin, f"/projects/{home.project_id}/containers", container_body())
    container_id = str(created.json()["id"])
    for _ in range(3):
        for verb in ("stop", "start"):
            answer = await api.post(home.admin, f"/containers/{container_id}/{verb}")
            assert answer.status_code == 202, answer.text
    for _ in range(3):
        assert (await api.post(home.admin, f"/containers/{container_id}/restart")).status_code == 202
    for verb in ("start", "restart"):
        refused = await api.post(home.admin, f"/containers/{container_id}/{verb}")
        problem = assert_problem(refused, 429, "too_many_starts")
        assert "6 times within a minute" in problem["detail"]
        assert 1 <= int(refused.headers["retry-after"]) <= 60
    other = await api.post(
        home.admin, f"/projects/{home.project_id}/containers", container_body(name="other")
    )
    assert (await api.post(home.admin, f"/containers/{other.json()['id']}/restart")).status_code == 202
    assert (await api.post(home.admin, f"/containers/{container_id}/stop")).status_code == 202
    assert_problem(await api.post(home.admin, f"/containers/{container_id}/start"), 429, "too_many_starts")
    await api.execute("UPDATE activities SET at = at - interval '1 minute'")
    assert (await api.post(home.admin, f"/containers/{container_id}/start")).status_code == 202
    gone = await api.ask(home.admin, "DELETE", f"/api/v1/containers/{container_id}")
    assert gone.status_code == 202
