"""What the plan is told: a container's rows, beside what was seen of it and what this process knows.

Nothing is asked here that takes time: rows are loaded, engines were looked at, and the watches say what they saw last.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from moorage.catalog.capacity import keeps_caches
from moorage.containers.caches.turns import untried
from moorage.containers.capacity_repository import Room
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.reconciler.cache_turns import turns_of, warm_versions
from moorage.containers.reconciler.doubts import Doubted
from moorage.containers.reconciler.engine_calls import EngineCalls
from moorage.containers.reconciler.funding import Funding
from moorage.containers.reconciler.loading_repository import NO_ROUTE, Loaded
from moorage.containers.reconciler.observation import Seen
from moorage.containers.reconciler.operations import Operations
from moorage.containers.reconciler.placing import Placing
from moorage.containers.reconciler.pulse import Silences
from moorage.containers.rollout import Rollout
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import Reason, ReplicaState
from moorage.containers.stop_reasons import stopped_because
from moorage.containers.trial import trial_step
from moorage.containers.update_rule import Figures, errors_above_bound
from moorage.containers.verdict import Fix, Verdict
from moorage.containers.views import Beside, ContainerView, ReplicaView
from moorage.kit.ids import ReplicaId
from moorage.kit.settings import Settings


@dataclass(frozen=True)
class PlanViews:
    settings: Settings
    operations: Operations
    calls: EngineCalls
    funding: Funding
    placing: Placing
    why_evicted: Callable[[ReplicaRow], Verdict | None]
    """By a watch of its machine, or because it is moved."""
    step_on: Callable[[str, str], Mapping[str, Any]]
    """Of a container's start on an engine, as far as its cache tells."""

    def of_container(
        self, loaded: Loaded, seen: Seen, room: Room, doubted: Doubted, larger: str | None
    ) -> ContainerView:
        row = loaded.container
        settings = ContainerSettings.from_json(row.settings)
        room_for = self.placing.room_for(loaded, room)
        # What ended before it slept says nothing about how it wakes.
        failures = [one for one in loaded.failures if row.woken_at is None or one.ended_at > row.woken_at]
        last_failure = failures[-1].verdict if failures else None
        if row.failed_generation == row.generation:
            last_failure = _failure(row) or last_failure
        return ContainerView(
            desired_state=loaded.desired_state,
            desired_replicas=row.desired_replicas,
            first_slot=loaded.first_slot,
            generation=row.generation,
            failed_generation=row.failed_generation,
            serving_generation=row.serving_generation,
            unready_since=row.unready_since,
            watched_since=loaded.watched_since,
            image_known=row.image_generation == row.generation,
            pulling=row.id in seen.busy,
            bringing_image=any(
                one.id in seen.busy and self.calls.starts.lacks_image(one) for one in loaded.replicas
            ),
            port=row.port or 0,
            health_path=settings.health_path,
            health_timeout=timedelta(seconds=settings.health_timeout_s),
            drain_limit=timedelta(seconds=self.settings.drain_timeout_s),
            memory_bytes=loaded.instance_type.memory_bytes,
            disk_bytes=loaded.instance_type.disk_bytes,
            instance_type=loaded.instance_type.name,
            larger_instance_type=larger,
            approval=loaded.approval,
            failed_starts=loaded.failed_starts,
            failed_starts_per_hour=self.settings.failed_starts_per_hour,
            allowance_spent=self.funding.allowance_spent(loaded),
            trial=trial_step(row),
            trial_failure=_trial_failure(row),
            serving_image_known=row.serving_image is not None,
            restart_failure=_failure(row) if row.resumed_generation == row.generation else None,
            beside=self._beside(loaded),
            doubt=doubted.verdict,
            room_for=room_for,
            no_room_message=self.placing.why_no_room(loaded, room) if room_for <= 0 else "",
            avoids_nodes=bool(self.placing.avoided(loaded)),
            recent_failures=[(failure.slot, failure.ended_at) for failure in failures],
            asleep_since=row.asleep_since,
            waking=row.woken_at is not None,
            last_failure=last_failure,
            unpayable_slots=self.funding.unpayable_slots(loaded),
            unpayable_because=self.funding.unpayable_because(loaded),
            stopped_because=stopped_because(loaded.stop_reason),
            engine_failing=self.operations.engine_failing(row.id) or bool(seen.unreachable),
        )

    def _download_kept(self, loaded: Loaded, row: ReplicaRow) -> int | None:
        if row.state != ReplicaState.STARTING or not keeps_caches(loaded.instance_type):
            return None
        step = self.step_on(row.engine, row.container_id)
        return step["cache_bytes"] if step.get("step") == "download" else None

    def _beside(self, loaded: Loaded) -> Beside | None:
        rollout = Rollout.from_json(loaded.container.rollout)
        if rollout is None or rollout.from_generation is None:
            return None
        called_off = None
        if rollout.called_off_by is not None:
            called_off = Verdict(Reason.ROLLED_BACK, f"It was rolled back to version {rollout.from_version}.")
        new, old = (loaded.figures.get(one, Figures()) for one in (rollout.version, rollout.from_version))
        return Beside(
            old_generation=rollout.from_generation,
            begun_at=rollout.begun_at,
            watch=rollout.watch,
            errors=errors_above_bound(new, old, self.settings.update_error_percent),
            called_off=called_off,
        )

    def of_replicas(
        self,
        loaded: Loaded,
        rows: Sequence[ReplicaRow],
        seen: Seen,
        doubted: Doubted,
        machines: Silences,
    ) -> list[ReplicaView]:
        warm = warm_versions(loaded)
        behind_cache = untried(turns_of(rows, seen), warm)
        return [
            ReplicaView(
                id=ReplicaId(row.id),
                slot=row.slot,
                generation=row.generation,
                state=ReplicaState(row.state),
                created_at=row.created_at,
                started_at=row.started_at,
                draining_at=row.draining_at,
                ended_at=row.ended_at,
                collected=row.collected_at is not None,
                observed=seen.engine.get(row.id),
                probe=seen.probes.get(row.id),
                sockets=seen.sockets.get(row.id, ()),
                process_limit_reached=row.id in seen.at_process_limit,
                last_lines=seen.last_lines.get(row.id, ()),
                busy=row.id in seen.busy,
                at_gateways=row.id in loaded.routes,
                taking_requests=loaded.routes.get(row.id, NO_ROUTE).taking_requests,
                in_flight=loaded.routes.get(row.id, NO_ROUTE).in_flight,
                failing_since=loaded.routes.get(row.id, NO_ROUTE).failing_since,
                failing=loaded.routes.get(row.id, NO_ROUTE).failing,
                unfunded=row.unfunded_at is not None,
                evicted=self.why_evicted(row) or seen.lost_gpus.get(row.id),
                probing=row.id in seen.probing,
                doubted=row.id in doubted.replica_ids,
                replaced=row.ended_badly,
                unreachable=row.id in seen.unreachable,
                silent_since=_silent_since(row, seen, machines),
                machine_left=row.id in seen.unreachable and machines.left(row.engine),
                moving=row.moving_since is not None,
                routed_at=row.routed_at,
                download_kept_bytes=self._download_kept(loaded, row),
                cache_worked=0 < row.version <= warm.get(row.engine, 0),
                untried=row.id in behind_cache,
            )
            for row in rows
        ]


def _silent_since(replica: ReplicaRow, seen: Seen, machines: Silences) -> datetime | None:
    if replica.id not in seen.unreachable:
        return None
    observed = seen.engine.get(replica.id)
    return (
        observed.unreachable_since if observed is not None else machines.since(replica.engine, replica.node)
    )


def _failure(row: ContainerRow) -> Verdict | None:
    """Why the last generation that was given up was."""
    if row.failure_reason is None:
        return None
    return Verdict(Reason(row.failure_reason), row.failure_message or "", Fix.from_json(row.failure_fix))


def _trial_failure(row: ContainerRow) -> Verdict | None:
    failure = row.trial_failure
    return None if failure is None else Verdict(Reason(failure["reason"]), failure["message"])
