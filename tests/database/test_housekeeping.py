"""Everything has an end: what housekeeping removes, and what it leaves."""

import json
from collections import Counter
from datetime import UTC, datetime

from api_support import Api, Home, new_home
from api_support import api_fixture as api_fixture

from moorage.containers.rollout import Rollout
from moorage.containers.states import Strategy
from moorage.entrypoints.housekeeping import Housekeeping
from moorage.gateway.version_figures_repository import add_figures, add_response_times
from moorage.kit.clock import system_clock
from moorage.kit.ids import ReplicaId, new_gateway_id
from moorage.reconcile.lease import LeaseKeeper


async def clean(api: Api) -> None:
    await api.execute("UPDATE leases SET expires_at = now() - interval '1 second'")
    lease = await LeaseKeeper(api.database, "housekeeping", "test", system_clock).acquire()
    assert lease is not None
    await Housekeeping(api.database, api.settings, system_clock).reconcile("all", lease)


async def count(api: Api, table: str) -> int:
    return int((await api.rows(f"SELECT count(*) FROM {table}"))[0][0])


async def deleted_container(api: Api, home: Home) -> str:
    container_id = await api.new_container(home.project_id, "old")
    await api.new_replica(container_id, "removed")
    await api.execute("UPDATE replicas SET port_released_at = now() WHERE state = 'removed'")
    await api.ask(home.admin, "DELETE", f"/api/v1/containers/{container_id}")
    await api.execute("UPDATE containers SET deleted_at = now() WHERE id = :id", id=container_id)
    return container_id


async def days_pass(api: Api, days: int) -> None:
    for table, columns in {
        "replicas": ("created_at", "ended_at"),
        "containers": ("deleted_at",),
        "activities": ("at",),
        "audit_records": ("at",),
        "invitations": ("expires_at", "closed_at"),
        "api_keys": ("created_at", "revoked_at", "expires_at"),
        "hours": ("held_at",),
    }.items():
        for column in columns:
            await api.execute(f"UPDATE {table} SET {column} = {column} - interval '1 day' * :days", days=days)


async def test_what_is_gone_for_long_leaves_no_rows(api: Api) -> None:
    home = await new_home(api)
    await deleted_container(api, home)
    kept = await api.new_container(home.project_id, "kept")
    living = await api.new_replica(kept)
    key_id, _ = await api.new_key(home.project_id, "inference", name="spare")
    await api.ask(home.admin, "DELETE", f"/api/v1/api-keys/{key_id}")
    rotated, _ = await api.new_key(home.project_id, "inference", name="rotated")
    await api.post(home.admin, f"/api-keys/{rotated}/rotate", {"overlap_s": 7200})
    await api.new_invitation(home.organization_id, "late@example.com")
    await api.execute(
        "INSERT INTO hours (id, organization_id, project_id, container_id, instance_type, slot, price_microusd, state)"
        " VALUES ('hour_1', :organization_id, :project_id, :container_id, 'cpu-nano', 7, 1, 'released')",
        organization_id=home.organization_id,
        project_id=home.project_id,
        container_id=kept,
    )
    tables = ("replicas", "containers", "activities", "audit_records", "invitations", "api_keys", "hours")
    before = {table: await count(api, table) for table in tables}
    assert all(before.values()), before
    await days_pass(api, 29)
    await clean(api)
    assert {table: await count(api, table) for table in tables} == before, "it is kept for a month"
    await days_pass(api, 2)
    await clean(api)
    assert await api.rows("SELECT id FROM replicas") == [(living,)], "live ones stay, however old"
    assert await count(api, "hours") == before["hours"] - 1
    assert await count(api, "containers") == 2
    await days_pass(api, 400)
    await clean(api)
    assert await api.rows("SELECT id FROM containers") == [(kept,)]
    left = {table: await count(api, table) for table in ("activities", "audit_records", "invitations")}
    assert left == {"activities": 0, "audit_records": 0, "invitations": 0}
    assert await api.rows("SELECT id FROM api_keys WHERE revoked_at IS NOT NULL") == []
    assert await api.rows("SELECT replaces FROM api_keys") == [(rotated,)], "what ended by itself goes too"


async def test_more_than_a_portion_goes_in_one_round(api: Api) -> None:
    await api.execute(
        "INSERT INTO activities (id, project_id, at, actor, kind, details)"
        " SELECT 'act_' || n, 'prj_gone', now() - interval '500 days', 'system', 'container.start', '{}'"
        " FROM generate_series(1, 4500) AS n"
    )
    await clean(api)
    assert await count(api, "activities") == 0


async def test_decisions_dated_ahead_by_a_wrong_clock_keep_no_container(api: Api) -> None:
    """The autoscaler removes its decisions by their age; these have none for a long time yet."""
    home = await new_home(api)
    container_ids = [await deleted_container(api, home) for _ in range(2)]
    await api.execute(
        "INSERT INTO autoscaling_decisions (container_id, at, replicas_before, replicas, wanted, reason, inputs)"
        " VALUES (:id, now() + interval '1 year', 1, 2, 2, 'Demand.', '{}')",
        id=container_ids[0],
    )
    await days_pass(api, api.settings.history_retention_days + 1)
    await clean(api)
    assert (await count(api, "autoscaling_decisions"), await count(api, "containers")) == (0, 0)


async def test_what_starts_took_is_forgotten_with_the_replicas_of_that_time(api: Api) -> None:
    for days in (0, 29, 31):
        await api.execute(
            "INSERT INTO measured_steps (at, organization_id, infrastructure, instance_type, image, step, bytes, took_s) "
            "VALUES (now() - interval '1 day' * :days, 'org_1', 'operator', 'cpu-nano', 'a', 'pull', 1, 1)",
            days=days,
        )
    await clean(api)
    assert await count(api, "measured_steps") == 2


async def test_what_versions_answered_goes_with_their_container(api: Api) -> None:
    home = await new_home(api)
    container_id = await deleted_container(api, home)
    await api.execute(
        "INSERT INTO version_figures (container_id, version, gateway_id) VALUES (:id, 2, 'gtw_1')",
        id=container_id,
    )
    await api.execute(
        "INSERT INTO version_response_times (container_id, version, gateway_id, bucket) VALUES (:id, 2, 'gtw_1', 7)",
        id=container_id,
    )
    await days_pass(api, api.settings.history_retention_days + 1)
    await clean(api)
    tables = ("containers", "container_versions", "version_figures", "version_response_times")
    assert {table: await count(api, table) for table in tables} == dict.fromkeys(tables, 0)


async def test_what_a_gateway_says_late_of_a_container_that_is_gone_is_not_kept(api: Api) -> None:
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "updated")
    replica_id = ReplicaId(await api.new_replica(container_id))
    rollout = Rollout(Strategy.ROLLING, 2, 1, datetime.now(UTC), from_generation=1)
    await api.execute(
        "UPDATE containers SET rollout = CAST(:rollout AS jsonb)", rollout=json.dumps(rollout.to_json())
    )
    gateway, figures = new_gateway_id(), {"answers": 1, "errors": 0}
    tables = ("version_figures", "version_response_times")
    for deleted in (False, True):
        if deleted:
            await api.execute("UPDATE containers SET deleted_at = now()")
            for table in tables:
                await api.execute(f"DELETE FROM {table}")
        async with api.database.transaction() as session:
            await add_figures(session, gateway, {replica_id: figures})
            await add_response_times(session, gateway, {replica_id: Counter({7: 1})})
        assert [await count(api, table) for table in tables] == ([0, 0] if deleted else [1, 1])


async def test_health_says_how_much_is_kept(api: Api) -> None:
    health = (await api.get(api.operator, "/operator/health")).json()
    [history] = [part for part in health["parts"] if part["name"] == "history"]
    assert "kept: ended replicas 30 days, history 400 days" in history["message"]
