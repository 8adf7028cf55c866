"""A container's row as the API shows it."""

from dataclasses import asdict
from datetime import timedelta

from fastapi import Response
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.siblings import PriceRange
from moorage.containers import repository
from moorage.containers.models import ContainerRow
from moorage.containers.prices import prices_of
from moorage.containers.rollout import Rollout
from moorage.containers.schemas import (
    AutoscalingResources,
    CacheSettings,
    Container,
    DraftSummary,
    EndpointLimits,
    FixRead,
    GeneralResources,
    HealthCheck,
    RegistryRead,
    ReplicaCounts,
    RolloutRead,
    TrialFailure,
)
from moorage.containers.service import Changed, has_fix
from moorage.containers.sleep.state import is_asleep
from moorage.containers.spec import ContainerSettings, ResourceMode
from moorage.containers.states import ContainerState, TrialStep
from moorage.containers.trial import trial_step
from moorage.kit.settings import Settings


async def answer(
    session: AsyncSession, changed: Changed, settings: Settings, response: Response
) -> Container:
    """202 while it happens, 200 when there was nothing to do."""
    response.status_code = 202 if changed.anything else 200
    return await shown(session, changed.row, settings)


async def shown(session: AsyncSession, row: ContainerRow, settings: Settings) -> Container:
    ready, prices = await repository.ready_count_and_prices(session, row)
    return container_json(row, ready, prices, settings)


async def shown_new(session: AsyncSession, row: ContainerRow, settings: Settings) -> Container:
    """Nothing of it is ready yet, and its type was read when it was checked, so this asks nobody."""
    prices = await prices_of(session, ContainerSettings.from_json(row.settings))
    return container_json(row, 0, prices, settings)


def container_json(row: ContainerRow, ready: int, prices: PriceRange, settings: Settings) -> Container:
    spec = ContainerSettings.from_json(row.settings)
    return Container(
        id=row.id,
        project_id=row.project_id,
        name=row.name,
        state=ContainerState(row.state),
        state_since=row.state_since,
        reason=row.reason,
        message=row.message,
        fix=FixRead.model_validate(row.failure_fix) if has_fix(row) else None,
        endpoint_url=settings.endpoint_url(row.id),
        replicas=ReplicaCounts(desired=0 if row.asleep_since else row.desired_replicas, ready=ready),
        progress=row.progress,
        generation=row.generation,
        created_at=row.created_at,
        category=spec.category,
        image=spec.image,
        image_digest=row.image_digest,
        registry=RegistryRead(
            provider=spec.registry_provider,
            username=spec.registry_username,
            has_password=spec.registry_username is not None,
        ),
        resources=_resources(spec),
        start_command=spec.start_command,
        port=spec.port or row.port,
        health_check=HealthCheck(path=spec.health_path, timeout_s=spec.health_timeout_s),
        limits=EndpointLimits(**asdict(spec.limits)),
        env=dict.fromkeys(spec.environment_names),
        plain_env=dict(spec.plain_environment),
        infrastructure=spec.infrastructure,
        accept_exposure=spec.accept_exposure,
        api_path=spec.api_path,
        sleep_after_s=spec.sleep_after_s,
        asleep=is_asleep(row) and row.state == ContainerState.RUNNING,
        asleep_since=row.asleep_since,
        woken_at=row.woken_at,
        cache=CacheSettings(size_gib=spec.cache_gib) if spec.cache_gib is not None else None,
        price_per_hour_microusd=prices.most_microusd,
        least_price_per_hour_microusd=prices.least_microusd,
        draft=draft_summary(row),
        version=row.version,
        rollout=_rollout(row, settings),
    )


def _rollout(row: ContainerRow, settings: Settings) -> RolloutRead | None:
    rollout = Rollout.from_json(row.rollout)
    if rollout is None:
        return None
    longest = timedelta(seconds=settings.canary_longest_s)
    return RolloutRead(
        strategy=rollout.strategy,
        version=rollout.version,
        from_version=rollout.from_version,
        begun_at=rollout.begun_at,
        beside=rollout.is_beside or trial_step(row) is TrialStep.CANARY,
        watch_s=rollout.watch_s,
        share=rollout.share,
        promote_after_s=rollout.promote_after_s,
        serving_since=rollout.serving_since,
        error_bound_percent=settings.update_error_percent if rollout.is_canary else None,
        ends_at=rollout.begun_at + longest if rollout.is_canary else None,
    )


def draft_summary(row: ContainerRow) -> DraftSummary | None:
    applying = trial_step(row) is not None
    if row.draft is None and row.trial_failure is None and not applying:
        return None
    failure = TrialFailure.model_validate(row.trial_failure) if row.trial_failure is not None else None
    return DraftSummary(
        saved_at=row.draft_saved_at, saved_by=row.draft_saved_by, applying=applying, failure=failure
    )


def _resources(spec: ContainerSettings) -> GeneralResources | AutoscalingResources:
    if spec.resource_mode is ResourceMode.GENERAL:
        return GeneralResources(instance_type=spec.instance_type)
    return AutoscalingResources(
        mode="autoscaling",
        instance_type=spec.instance_type,
        min_replicas=spec.min_replicas,
        max_replicas=spec.max_replicas,
        target_concurrency=spec.target_concurrency,
        scale_down_delay_s=spec.scale_down_delay_s,
    )
