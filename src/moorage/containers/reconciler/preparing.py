"""Where the image of new settings is fetched before those that serve are stopped for them: on each machine that their replicas would
go to once the old ones are gone. Otherwise nobody serves for as long as another machine pulls."""

from collections.abc import Mapping
from dataclasses import replace

from moorage.catalog.capacity import Used
from moorage.catalog.repository import find_instance_type
from moorage.containers.capacity_repository import HOLDS_RESOURCES
from moorage.containers.reconciler import trials
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.reconciler.placing import Placing
from moorage.containers.rollout import Rollout
from moorage.containers.spec import ContainerSettings
from moorage.engines.base import MachineKey


async def engines_after(placing: Placing, loaded: Loaded) -> list[str]:
    """The one whose replica comes first, first. None where nothing has room even then."""
    after = await _as_it_will_be(placing, loaded)
    if after is None:
        return []
    room = await placing.room(after)
    slots = range(after.first_slot, after.first_slot + after.container.desired_replicas)
    places = placing.places(after, room, slots, without_its_own(room.used, loaded))
    return list(dict.fromkeys(placement.engine for _, placement in places))


def without_its_own(used: Mapping[MachineKey, Used], loaded: Loaded) -> dict[MachineKey, Used]:
    """What others hold."""
    left = dict(used)
    for row in loaded.replicas:
        machine = MachineKey(row.engine, row.node)
        if row.state not in HOLDS_RESOURCES or machine not in left:
            continue
        held, its = left[machine], loaded.type_of(row)
        left[machine] = Used(
            held.cpu_millis - its.vcpu_millis,
            held.memory_bytes - its.memory_bytes,
            held.gpu_device_ids - set(row.gpu_device_ids),
        )
    return left


async def _as_it_will_be(placing: Placing, loaded: Loaded) -> Loaded | None:
    before, row = loaded.container, trials.on_trial(loaded.container)
    settings, rollout = ContainerSettings.from_json(row.settings), Rollout.from_json(before.rollout)
    row.desired_replicas, row.instance_type = settings.min_replicas, settings.instance_type
    row.version = rollout.version if rollout is not None else before.version
    row.serving_generation = before.serving_generation
    if settings.instance_type == loaded.instance_type.name:
        return replace(loaded, container=row, replicas=(), canary=None)
    async with placing.database.reading() as session:
        instance_type = await find_instance_type(session, settings.instance_type)
    if instance_type is None:
        return None
    return replace(loaded, container=row, replicas=(), canary=None, instance_type=instance_type, sibling=None)
