"""The beginning of an update: a new version, on trial."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers import repository, trial
from moorage.containers.drafts.difference import Change
from moorage.containers.models import ContainerRow
from moorage.containers.rollout import Rollout
from moorage.containers.service import Changed
from moorage.containers.sleep.state import is_asleep
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import Strategy
from moorage.containers.versions.making import changes_json
from moorage.containers.versions.repository import add_version
from moorage.identity.actor import Actor
from moorage.kit.database import database_now
from moorage.kit.errors import ConflictError

_SAME_AT_THE_GATEWAY = ("health_path", "api_path")
"""Settings that a gateway has for a container as a whole. (Its limits wait for the end of the update.)"""


@dataclass(frozen=True)
class Update:
    strategy: Strategy
    settings: ContainerSettings
    sealed_secrets: bytes
    changes: Sequence[Change]
    watch_s: float
    """How long both versions serve beside each other, where the strategy has them do so."""
    back_to: int | None = None
    """The version that it goes back to."""
    pinned: dict[str, Any] | None = None
    """The image that that one ran."""
    share: int | None = None
    promote_after_s: float | None = None
    """Of a canary."""


async def begin_update(session: AsyncSession, actor: Actor, row: ContainerRow, update: Update) -> None:
    """Of a container that runs, is proven, and is not on trial; its row is locked."""
    # Of one that sleeps, or wakes, nothing serves beside which the new version could be.
    strategy = Strategy.REPLACE if is_asleep(row) else update.strategy
    if strategy is not Strategy.REPLACE:
        _refuse_other_paths(row, update)
    if strategy is Strategy.CANARY:
        _refuse_other_type(row, update.settings)
    version = await add_version(
        session,
        row,
        by=actor.id,
        settings=update.settings.to_json(),
        secrets=update.sealed_secrets,
        changes=changes_json(update.changes),
        strategy=strategy,
        reason=f"Back to version {update.back_to}." if update.back_to is not None else None,
    )
    rollout = Rollout(
        strategy,
        version,
        row.version,
        await database_now(session),
        watch_s=update.watch_s,
        pinned=update.pinned,
        of_draft=update.back_to is None,
        share=update.share,
        promote_after_s=update.promote_after_s,
    )
    trial.begin(row, update.settings, update.sealed_secrets, rollout)
    row.reason = row.message = None


async def under_way(session: AsyncSession, row: ContainerRow) -> Changed:
    await session.flush()
    await repository.mark_due(session, [row.id])
    await session.refresh(row)
    return Changed(row, anything=True)


def _refuse_other_type(row: ContainerRow, after: ContainerSettings) -> None:
    """Both use the hours of their slots, and both are to be compared."""
    if after.instance_type != row.instance_type:
        raise ConflictError(
            "A canary runs on the other version's instance type. Apply this change with `rolling`.",
            code="canary_not_possible",
        )


def _refuse_other_paths(row: ContainerRow, update: Update) -> None:
    before, after = ContainerSettings.from_json(row.settings), update.settings
    others = [name for name in _SAME_AT_THE_GATEWAY if getattr(before, name) != getattr(after, name)]
    if others:
        names = {"health_path": "health_check.path", "api_path": "api_path"}
        raise ConflictError(
            f"Both versions share one endpoint for a while, so {' and '.join(names[one] for one in others)} "
            f"cannot change with `{update.strategy}`. Apply that change with `replace`.",
            code=f"{update.strategy}_not_possible",
        )
