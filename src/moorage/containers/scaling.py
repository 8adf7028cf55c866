"""The scaling that was asked for last, laid over every set of settings that the container may have next.

While a draft is being applied there are two sets: those that serve and those on trial, or those on trial and those
to go back to. Whatever becomes of the trial, the scaling that somebody chose meanwhile stays chosen.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from moorage.containers.models import ContainerRow
from moorage.containers.spec import ContainerSettings, ResourceMode


def laid_over(settings: ContainerSettings, sent: Mapping[str, Any]) -> ContainerSettings:
    """A bound that was sent wins over the other one where they contradict each other: a draft may have had others
    than the settings that the sender saw."""
    scaled = replace(settings, resource_mode=ResourceMode.AUTOSCALING, **sent)
    if scaled.min_replicas <= scaled.max_replicas:
        return scaled
    if "max_replicas" in sent:
        return replace(scaled, min_replicas=scaled.max_replicas)
    return replace(scaled, max_replicas=scaled.min_replicas)


def same_scaling(one: ContainerSettings, other: ContainerSettings) -> bool:
    return _scaling(one) == _scaling(other)


def put_scaling(row: ContainerRow, sent: Mapping[str, Any]) -> None:
    """The row is locked by whoever calls."""
    scaled = laid_over(ContainerSettings.from_json(row.settings), sent)
    row.settings, row.desired_replicas = scaled.to_json(), within(scaled, row.desired_replicas)
    if row.trial_settings is not None:
        row.trial_settings = laid_over(ContainerSettings.from_json(row.trial_settings), sent).to_json()
    if row.fallback is not None:
        before = laid_over(ContainerSettings.from_json(row.fallback["settings"]), sent)
        replicas = within(before, row.fallback["desired_replicas"])
        row.fallback = {**row.fallback, "settings": before.to_json(), "desired_replicas": replicas}


def within(settings: ContainerSettings, replicas: int) -> int:
    return min(max(replicas, settings.min_replicas), settings.max_replicas)


def _scaling(settings: ContainerSettings) -> tuple[object, ...]:
    return (
        settings.resource_mode,
        settings.min_replicas,
        settings.max_replicas,
        settings.target_concurrency,
        settings.scale_down_delay_s,
    )
