"""The operator's machines and catalogue: what is free, prices for later hours, types that are not offered any more."""

from typing import Any

import httpx
from api_support import SMALL, Api, assert_problem, container_body, new_home
from api_support import api_fixture as api_fixture
from reconciler_support import WatchedEngine, life, new_world
from sqlalchemy import text

from moorage.catalog import instance_types
from moorage.catalog.repository import replace_nodes
from moorage.containers import service
from moorage.engines.base import GpuDevice, NodeCapacity
from moorage.kit.database import Database

GIBIBYTE = 2**30
TYPE = {
    "name": "l4",
    "gpu_model": "NVIDIA L4",
    "gpu_count": 1,
    "vcpu_millis": 4000,
    "memory_bytes": 16 * GIBIBYTE,
    "price_per_hour_microusd": 800_000,
}
RACK = NodeCapacity(
    "rack-1",
    "operator",
    "amd64",
    8000,
    64 * GIBIBYTE,
    (GpuDevice("GPU-1", "NVIDIA L4", 24 * GIBIBYTE), GpuDevice("GPU-2", "NVIDIA L4", 24 * GIBIBYTE)),
    "580.65.06",
    "13.0",
)


async def with_rack(api: Api) -> None:
    async with api.database.transaction() as session:
        await replace_nodes(session, [RACK])


async def patch(api: Api, path: str, body: dict[str, Any]) -> httpx.Response:
    return await api.ask(api.operator, "PATCH", f"/api/v1{path}", json=body)


async def delete(api: Api, path: str) -> httpx.Response:
    return await api.ask(api.operator, "DELETE", f"/api/v1{path}")


async def catalogue(api: Api) -> dict[str, Any]:
    listed = await api.get(api.operator, "/operator/instance-types")
    return {one["name"]: one for one in listed.json()["items"]}


async def audit(api: Api) -> list[tuple[str, str, dict[str, Any]]]:
    listed = await api.get(api.operator, "/operator/audit")
    return [(one["action"], one["target"], one["details"]) for one in listed.json()["items"]]


async def test_machines(api: Api) -> None:
    home = await new_home(api)
    await with_rack(api)
    container_id = await api.new_container(home.project_id, "chat")
    replica_id = await api.new_replica(container_id, node="rack-1")
    await api.execute("UPDATE replicas SET gpu_device_ids = '{GPU-2}' WHERE id = :id", id=replica_id)
    [node] = (await api.get(api.operator, "/operator/nodes")).json()["items"]
    assert (node["state"], node["gpu_driver"], node["cuda_version"]) == ("ready", "580.65.06", "13.0")
    assert [(gpu["device_id"], gpu["in_use"]) for gpu in node["gpus"]] == [("GPU-1", False), ("GPU-2", True)]
    small = (await catalogue(api))[SMALL]
    promised = {"cpu_millis": small["vcpu_millis"], "memory_bytes": small["memory_bytes"], "gpus": 1}
    assert node["promised"] == promised
    assert node["free"] == {
        "cpu_millis": int(8000 * node["cpu_overcommit"]) - promised["cpu_millis"],
        "memory_bytes": 64 * GIBIBYTE - promised["memory_bytes"],
        "gpus": 1,
    }
    await api.execute("UPDATE nodes SET seen_at = now() - interval '2 minutes'")
    [node] = (await api.get(api.operator, "/operator/nodes")).json()["items"]
    assert node["state"] == "silent"


async def test_a_gpu_that_no_type_offers_is_proposed_and_said(api: Api) -> None:
    await with_rack(api)
    await api.execute(
        "UPDATE nodes SET gpu_handover = 'direct', gpu_handover_reason = 'the engine has no NVIDIA runtime', "
        """findings = '[{"code": "x", "message": "A fault.", "command": "reboot", "broken": true}]'"""
    )
    [node] = (await api.get(api.operator, "/operator/nodes")).json()["items"]
    assert node["gpu_handover"] == "direct"
    assert node["message"].endswith("the engine has no NVIDIA runtime.")
    assert node["findings"] == [{"code": "x", "message": "A fault.", "command": "reboot", "broken": True}]
    await api.execute("DELETE FROM instance_types WHERE gpu_count > 0")
    proposals = (await api.get(api.operator, "/operator/instance-types/proposals")).json()["items"]
    assert [one["gpu_count"] for one in proposals] == [1, 2]
    wanted = {name: value for name, value in proposals[0].items() if name != "because"}
    price = wanted["price_per_hour_microusd"] or 1_000_000
    made = await api.post(
        api.operator, "/operator/instance-types", wanted | {"price_per_hour_microusd": price}
    )
    assert made.status_code == 201, made.text
    assert made.json()["free"] == 2
    assert (await api.get(api.operator, "/operator/instance-types/proposals")).json()["items"] == []


async def test_only_the_operator_reads_which_machine_is_short_of_what(api: Api) -> None:
    await with_rack(api)
    made = await api.post(api.operator, "/operator/instance-types", TYPE)
    assert made.status_code == 201, made.text
    await api.execute(
        "UPDATE nodes SET gpus = (SELECT jsonb_agg(gpu || "
        """'{"unusable_because": "its device node /dev/nvidia0 is missing"}') FROM jsonb_array_elements(gpus) gpu)"""
    )
    home = await new_home(api)
    listed = (await api.get(home.admin, "/instance-types")).json()["items"]
    told = next(one["unavailable_reason"] for one in listed if one["name"] == TYPE["name"])
    assert told == "It cannot be used now."
    operator = (await catalogue(api))[TYPE["name"]]["unavailable_reason"]
    assert operator == f"{told} rack-1 has it, but its device node /dev/nvidia0 is missing."


async def test_create_and_change(api: Api) -> None:
    await with_rack(api)
    created = await api.post(api.operator, "/operator/instance-types", TYPE)
    assert (created.status_code, created.json()["free"]) == (201, 2), created.text
    assert created.json()["gpu_memory_bytes"] == 24 * 2**30, "what the machine says, of each"
    assert_problem(
        await api.post(api.operator, "/operator/instance-types", TYPE), 409, "instance_type_exists"
    )
    for wrong in ({"gpu_count": 0}, {"gpu_model": None}, {"price_per_hour_microusd": 0}, {"name": "A b"}):
        answer = await api.post(api.operator, "/operator/instance-types", {**TYPE, "name": "other", **wrong})
        assert answer.status_code == 422, wrong
    changed = await patch(
        api, "/operator/instance-types/l4", {"price_per_hour_microusd": 900_000, "enabled": True}
    )
    assert changed.json()["price_per_hour_microusd"] == 900_000
    sizes = await patch(api, "/operator/instance-types/l4", {"memory_bytes": 1})
    assert sizes.status_code == 422, "sizes were promised"
    absent = await patch(api, "/operator/instance-types/none", {"enabled": False})
    assert absent.status_code == 404
    assert await audit(api) == [
        (
            "instance_type.change",
            "l4",
            {"price_per_hour_microusd": {"from": 800_000, "to": 900_000}},
        ),
        ("instance_type.create", "l4", {"price_per_hour_microusd": 800_000}),
    ]


async def test_not_offered_any_more(api: Api) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/containers"
    running = await api.post(home.admin, path, container_body("before"))
    assert running.status_code == 201, running.text
    await patch(api, f"/operator/instance-types/{SMALL}", {"enabled": False})
    offered = (await api.get(home.admin, "/instance-types")).json()["items"]
    assert SMALL not in {one["name"] for one in offered}
    assert not (await catalogue(api))[SMALL]["enabled"]
    refused = await api.post(home.admin, path, container_body("after"))
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "resources.instance_type")
    assert "no longer offered" in refused.text
    # What has it goes on, and is still listed with its price.
    restarted = await api.post(home.admin, f"/containers/{running.json()['id']}/restart")
    assert restarted.status_code == 202, restarted.text
    assert len((await api.get(home.admin, path)).json()["items"]) == 1


async def test_one_in_use_cannot_be_deleted(api: Api) -> None:
    home = await new_home(api)
    await api.post(home.admin, f"/projects/{home.project_id}/containers", container_body("chat"))
    path = f"/operator/instance-types/{SMALL}"
    assert_problem(await delete(api, path), 409, "instance_type_in_use")
    assert SMALL in await catalogue(api)
    await api.post(api.operator, "/operator/instance-types", TYPE)
    assert (await delete(api, "/operator/instance-types/l4")).status_code == 204
    assert "l4" not in await catalogue(api)
    assert (await audit(api))[0][:2] == ("instance_type.delete", "l4")


async def test_a_new_price_is_for_later_hours(database: Database) -> None:
    """One is paid and one is held at the old price; what is admitted after the change costs the new one."""
    world = await new_world(database)
    container_id = await world.create(replicas=2)
    async with life(world, WatchedEngine(world.machine)) as controller:
        for _ in range(4):
            await controller.round(container_id)
        held_id = await world.create()
        async with database.transaction() as session:
            await instance_types.change(
                session, world.actor, "cpu-nano", price_per_hour_microusd=77_000, enabled=None
            )
        for _ in range(4):
            await controller.round(held_id)
        await world.ask(service.stop_container, held_id)
        for _ in range(4):
            await controller.round(held_id)
        later_id = await world.create(replicas=3)
        for _ in range(4):
            await controller.round(later_id)
    old, later = {5_000}, {77_000}
    assert [await prices(database, one) for one in (container_id, held_id, later_id)] == [old, old, later]


async def prices(database: Database, container_id: str) -> set[int]:
    async with database.transaction() as session:
        found = await session.execute(
            text("SELECT price_microusd FROM hours WHERE container_id = :id"), {"id": container_id}
        )
        return set(found.scalars())
