"""The operator's own machines of the scene: what they have, and who closed them."""

import json
from datetime import datetime, timedelta
from typing import Any

from moorage.machines.states import MachineState
from moorage.machines.words import sentence
from tests.browser.world import World
from tests.database.api_support import Api

Machine = tuple[str, str]
"""Its engine and its name."""
_GIB = 2**30
_MIB = 2**20
_L40S, _L4 = ("NVIDIA L40S", 46_068), ("NVIDIA L4", 23_034)
"""With so many MiB, as the driver says it."""
_MACHINES = (
    ("gpu-node-03", MachineState.ACTIVE, 8, _L40S, 128, 1024),
    ("gpu-node-05", MachineState.ACTIVE, 4, _L4, 64, 512),
    ("rack-2", MachineState.PAUSED, 2, _L4, 32, 256),
    ("rack-3", MachineState.DRAINING, 2, _L4, 32, 256),
    ("rack-4", MachineState.LOST, 2, _L4, 32, 256),
)
"""Name, state, GPUs of which kind, vCPUs, GiB."""
_STOPPED = {
    MachineState.PAUSED: timedelta(days=9, hours=2, minutes=29),
    MachineState.DRAINING: timedelta(minutes=12),
    MachineState.LOST: timedelta(minutes=13),
}
"""How long ago."""


def gpus_of(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"GPU-{name}-{number}" for number in range(count))


def add_machines(world: World, joined: datetime) -> dict[str, Machine]:
    """By name. Nobody describes them again, so those that answer are seen ahead of time."""
    api, now = world.api, world.now()
    hub = world.do(api.new_hub())
    found = {}
    for name, state, count, (model, gpu_mib), vcpus, memory_gib in _MACHINES:
        gpus = [
            {"device_id": gpu, "model": model, "memory_bytes": gpu_mib * _MIB} for gpu in gpus_of(name, count)
        ]
        facts = {"gpus": [model] * count, "cpus": vcpus, "memory_bytes": memory_gib * _GIB}
        with world.at(joined):
            engine = world.do(api.new_machine(name=name, facts=facts, message=sentence(MachineState.ACTIVE)))
            world.do(_describe(api, engine, name, gpus, vcpus, memory_gib))
        world.do(_look_after(api, engine, now + timedelta(hours=1)))
        if state in _STOPPED:
            with world.at(now - _STOPPED[state]):
                world.do(_stop(api, engine, state))
        found[name] = (engine, name)
    world.do(_joining(api))
    # Nobody looks after it here.
    ahead = now + timedelta(hours=1)
    world.do(
        api.execute("UPDATE tunnel_hubs SET seen_at = :ahead WHERE id = :id", ahead=ahead, id=hub.hub_id)
    )
    return found


def count_replicas(world: World, machines: dict[str, Machine]) -> None:
    """As the machines' own rows say it."""
    world.do(
        world.api.execute(
            "UPDATE machines SET replicas = (SELECT count(*) FROM replicas WHERE engine = machines.id AND "
            "state NOT IN ('stopped', 'collected', 'removed')) WHERE id = ANY(:ids)",
            ids=[engine for engine, _ in machines.values()],
        )
    )


async def _describe(
    api: Api, engine: str, name: str, gpus: list[dict[str, Any]], vcpus: int, memory_gib: int
) -> None:
    await api.execute(
        "INSERT INTO nodes (engine, name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, gpu_driver, "
        "cuda_version, seen_at) VALUES (:engine, :name, 'operator', 'amd64', :cpu, :memory, CAST(:gpus AS jsonb), '580.95', "
        "'13.0', now())",
        engine=engine,
        name=name,
        cpu=vcpus * 1000,
        memory=memory_gib * _GIB,
        gpus=json.dumps(gpus),
    )


async def _look_after(api: Api, engine: str, seen_at: datetime) -> None:
    await api.execute("UPDATE machines SET seen_at = :at WHERE id = :id", at=seen_at, id=engine)
    await api.execute("UPDATE nodes SET seen_at = :at WHERE engine = :id", at=seen_at, id=engine)


async def _stop(api: Api, engine: str, state: MachineState) -> None:
    """By the operator's word, or because it fell silent; and what the reconciler makes of that."""
    if state is MachineState.LOST:
        await api.execute(
            "UPDATE machines SET state = 'lost', state_before_loss = 'active', state_since = now(), seen_at = now(), "
            "message = :message WHERE id = :id",
            message=sentence(state),
            id=engine,
        )
        await api.execute(
            "UPDATE nodes SET seen_at = now(), ready = false, unready_since = now() WHERE engine = :id",
            id=engine,
        )
        return
    word = "pause" if state is MachineState.PAUSED else "drain"
    answer = await api.post(api.operator, f"/machines/{engine}/{word}", {})
    assert answer.is_success, answer.text
    await api.execute(
        "UPDATE nodes SET cordoned_at = now(), draining_at = CASE WHEN :drains THEN now() END WHERE engine = :id",
        drains=state is MachineState.DRAINING,
        id=engine,
    )


async def _joining(api: Api) -> None:
    nothing_yet = ("address", "port", "public_key", "sealed_credential", "secret_hash", "joined_at")
    machine_id = await api.new_machine("joining", name="rack-5", **dict.fromkeys(nothing_yet))
    await api.execute(
        "INSERT INTO machine_join_tokens (token_hash, machine_id, expires_at) "
        "VALUES ('\\x00', :id, now() + interval '20 minutes')",
        id=machine_id,
    )
