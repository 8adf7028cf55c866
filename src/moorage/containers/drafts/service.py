"""Drafts: new settings for a container that goes on running until they are applied.

A draft is kept as the edit that was sent and laid over the settings anew whenever it is looked at, so that it says
nothing about fields that it was not about.
"""

from dataclasses import dataclass
from functools import partial

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.capacity import InstanceType, room_for
from moorage.catalog.repository import find_instance_type
from moorage.containers import repository, trial
from moorage.containers.activity import record_action
from moorage.containers.capacity_repository import load_room
from moorage.containers.drafts.difference import Change, difference
from moorage.containers.edit import merged
from moorage.containers.exposure import record_exposure
from moorage.containers.models import ContainerRow
from moorage.containers.prices import prices_of
from moorage.containers.replica_limits.repository import replica_limit
from moorage.containers.replica_limits.service import withdraw_request
from moorage.containers.scaling import same_scaling, within
from moorage.containers.schemas import SettingsPatch
from moorage.containers.secrets import seal, seal_draft, unseal, unseal_draft
from moorage.containers.service import (
    Changed,
    begin_generation,
    put_settings,
    refuse_deleted,
    refuse_on_trial,
)
from moorage.containers.spec import ContainerSecrets, ContainerSettings
from moorage.containers.states import ContainerState, Strategy
from moorage.containers.suspension import refuse_suspended
from moorage.containers.validation import validated
from moorage.containers.versions.update import Update, begin_update, under_way
from moorage.identity.actor import Actor
from moorage.kit.crypto import Keyring
from moorage.kit.errors import ConflictError
from moorage.kit.settings import Settings
from moorage.ledger.hours_repository import read_hours
from moorage.ledger.repository import balance_of
from moorage.ledger.rules import Occupied, cover
from moorage.organizations.models import ProjectRow

Whole = tuple[ContainerSettings, ContainerSecrets]


@dataclass(frozen=True)
class Comparison:
    row: ContainerRow
    changes: list[Change]
    prices_per_hour_microusd: tuple[int, int]
    """Of one replica, before and after."""
    least_replicas: tuple[int, int]
    room_for: int
    """Replicas of the type after, as things are now."""
    available_microusd: int
    rolling_cost_microusd: int
    """Of hours that its replicas need besides those that the container has."""
    replace_cost_microusd: int
    """The same where it stops first, and starts with the fewest."""
    settings: tuple[ContainerSettings, ContainerSettings]
    organization_id: str


async def compare(
    session: AsyncSession, row: ContainerRow, *, keyring: Keyring, settings: Settings
) -> Comparison:
    """What the draft would change; while it is being applied, what it changes."""
    if row.fallback is not None:
        assert row.fallback_secrets is not None, "kept together"
        before = _whole(
            keyring, row.id, ContainerSettings.from_json(row.fallback["settings"]), row.fallback_secrets
        )
        after = _whole(keyring, row.id, ContainerSettings.from_json(row.settings), row.secrets)
    else:
        before = _whole(keyring, row.id, ContainerSettings.from_json(row.settings), row.secrets)
        after = await _drafted(session, row, before, keyring, settings)
    new_type = await _type(session, after[0].instance_type)
    room = await load_room(session)
    old_price, new_price = [(await prices_of(session, one[0])).most_microusd for one in (before, after)]
    project = await session.get(ProjectRow, row.project_id)
    assert project is not None, "a foreign key says so"
    balance = await balance_of(session, project.organization_id)
    # Without the lock: nothing is bought by them, and a pass may move them before anything is applied.
    found = await read_hours(session, row.id)
    # What serves of another type has no hour that serves this one.
    occupied = (
        await repository.occupied_slots(session, row) if row.instance_type == new_type.name else Occupied()
    )
    covered = partial(cover, occupied=occupied, hours=found.hours, instance_type=new_type.name, now=found.now)
    rolling, replacing = [
        len(covered(range(replicas)).hold) * new_price
        for replicas in (within(after[0], row.desired_replicas), after[0].min_replicas)
    ]
    return Comparison(
        row,
        difference(before, after),
        (old_price, new_price),
        (before[0].min_replicas, after[0].min_replicas),
        room_for(new_type, room.nodes, room.used, settings.cpu_overcommit),
        balance.available_microusd,
        rolling,
        replacing,
        (before[0], after[0]),
        project.organization_id,
    )


async def save_draft(
    session: AsyncSession,
    actor: Actor,
    container_id: str,
    patch: SettingsPatch,
    *,
    keyring: Keyring,
    settings: Settings,
) -> Comparison:
    row = await repository.lock_container(session, container_id)
    refuse_deleted(row)
    refuse_on_trial(row)
    row.draft = seal_draft(keyring, row.id, patch.model_dump(mode="json", exclude_unset=True))
    row.draft_saved_by, row.draft_saved_at = actor.id, func.now()
    _forget_failure(row)
    compared = await compare(session, row, keyring=keyring, settings=settings)
    # Names only: a value may be a secret.
    record_action(
        session, row, actor.id, "container.draft_save", {"fields": [one.field for one in compared.changes]}
    )
    record_exposure(session, compared.organization_id, actor, row, *compared.settings)
    await session.flush()
    await session.refresh(row)
    return compared


async def discard_draft(session: AsyncSession, actor: Actor, container_id: str) -> None:
    row = await repository.lock_container(session, container_id)
    refuse_deleted(row)
    refuse_on_trial(row)
    if row.draft is None:
        return
    row.draft = row.draft_saved_at = row.draft_saved_by = None
    _forget_failure(row)
    record_action(session, row, actor.id, "container.draft_discard")


async def apply_draft(
    session: AsyncSession,
    actor: Actor,
    container_id: str,
    *,
    keyring: Keyring,
    settings: Settings,
    strategy: Strategy = Strategy.REPLACE,
    share: int | None = None,
    promote_after_s: float | None = None,
) -> Changed:
    """Of a container that runs: as a new version, and back again if that does not become healthy. From rest it is an edit
    and a start, whatever the strategy."""
    row = await repository.lock_container(session, container_id)
    refuse_deleted(row)
    refuse_on_trial(row)
    if row.draft is None:
        raise ConflictError("There is no draft to apply. Save one first.", code="no_draft")
    compared = await compare(session, row, keyring=keyring, settings=settings)
    details = {"fields": [one.field for one in compared.changes]}
    if row.state in (ContainerState.STOPPED, ContainerState.FAILED):
        await put_settings(session, actor, row, _patch(row, keyring), keyring, settings)
        trial.succeed(row)
        return await begin_generation(session, actor, row, "container.draft_apply", details)
    await refuse_suspended(session, row.project_id)
    refuse_unproven(row)
    before = _whole(keyring, row.id, ContainerSettings.from_json(row.settings), row.secrets)
    spec, secrets = await _drafted(session, row, before, keyring, settings)
    await refuse_over_limit(session, row, spec)
    if not same_scaling(before[0], spec):
        await withdraw_request(session, actor, row)
    await begin_update(
        session,
        actor,
        row,
        Update(
            strategy,
            spec,
            seal(keyring, row.id, secrets),
            compared.changes,
            settings.update_watch_s,
            share=share,
            promote_after_s=promote_after_s,
        ),
    )
    of_canary = {"share": share, "promote_after_s": promote_after_s} if share is not None else {}
    record_action(
        session, row, actor.id, "container.draft_apply", {**details, "strategy": strategy, **of_canary}
    )
    return await under_way(session, row)


def refuse_unproven(row: ContainerRow) -> None:
    """What is not healthy itself cannot be gone back to."""
    proven = row.state == ContainerState.RUNNING and row.serving_generation == row.generation
    if not proven:
        what = "its last restart failed" if row.state == ContainerState.RUNNING else f"it is {row.state}"
        raise ConflictError(
            f"The draft cannot be applied now: {what}. Wait until the container runs, or stop it first.",
            code="container_not_settled",
        )


async def refuse_over_limit(session: AsyncSession, row: ContainerRow, spec: ContainerSettings) -> None:
    """What runs is not stopped for something that then waits for the operator."""
    limit = await replica_limit(session, row.project_id)
    if spec.max_replicas > limit:
        raise ConflictError(
            f"A container of this project may have {limit} replicas. Ask the operator for more first "
            "(POST /projects/{project}/replica-limit-requests).",
            code="replica_limit",
        )


async def _drafted(
    session: AsyncSession, row: ContainerRow, before: Whole, keyring: Keyring, settings: Settings
) -> Whole:
    if row.draft is None:
        return before
    return await validated(session, merged(row.name, *before, _patch(row, keyring)), settings)


def _patch(row: ContainerRow, keyring: Keyring) -> SettingsPatch:
    assert row.draft is not None, "asked for only where there is one"
    return SettingsPatch.model_validate(unseal_draft(keyring, row.id, row.draft))


def _whole(keyring: Keyring, container_id: str, settings: ContainerSettings, sealed: bytes) -> Whole:
    return settings, unseal(keyring, container_id, sealed)


async def _type(session: AsyncSession, instance_type: str) -> InstanceType:
    found = await find_instance_type(session, instance_type)
    assert found is not None, "validated settings name one, and a foreign key keeps those of rows"
    return found


def _forget_failure(row: ContainerRow) -> None:
    if row.trial_failure is not None:
        row.trial_failure = row.reason = row.message = None
