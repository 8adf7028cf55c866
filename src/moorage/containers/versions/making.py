"""A version for every set of settings that somebody gives a container."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.drafts.difference import Change, difference
from moorage.containers.models import ContainerRow
from moorage.containers.secrets import unseal
from moorage.containers.spec import ContainerSecrets, ContainerSettings
from moorage.containers.states import Outcome
from moorage.containers.versions import repository
from moorage.identity.actor import Actor
from moorage.kit.crypto import Keyring

Whole = tuple[ContainerSettings, ContainerSecrets]


def changes_json(changes: Sequence[Change]) -> list[dict[str, Any]]:
    return [{"field": one.field, "from": one.before, "to": one.after} for one in changes]


def whole(keyring: Keyring, container_id: str, settings: Mapping[str, Any], sealed: bytes) -> Whole:
    return ContainerSettings.from_json(dict(settings)), unseal(keyring, container_id, sealed)


async def make_first(session: AsyncSession, actor: Actor, row: ContainerRow) -> None:
    row.version = await repository.add_version(
        session, row, by=actor.id, settings=row.settings, secrets=row.secrets, changes=(), strategy=None
    )


async def make_next(
    session: AsyncSession, actor: Actor, row: ContainerRow, before: Whole, after: Whole
) -> None:
    """Of a container at rest: its settings are others already."""
    changes = difference(before, after)
    if changes:
        row.version = await repository.add_version(
            session,
            row,
            by=actor.id,
            settings=row.settings,
            secrets=row.secrets,
            changes=changes_json(changes),
            strategy=None,
        )


async def note_called_off(session: AsyncSession, row: ContainerRow, why: str) -> None:
    """Before the trial is cancelled."""
    if row.rollout is not None:
        await repository.note_outcome(session, row.id, row.rollout["version"], Outcome.ROLLED_BACK, why)
