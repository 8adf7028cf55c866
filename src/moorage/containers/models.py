"""Tables of containers, their replicas, and what the gateways report about those.

`desired_*` columns are written by the API, all others by the reconciler. Everything the reconciler needs
in order to find work is `reconcile_at`; `changes` counts the reasons to look again, so that a pass that
was under way when one arrived cannot overwrite it.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import String

from moorage.engines.base import LOCAL_ENGINE
from moorage.kit.database import Base, CreatedAt

LIVE_STATES = "('requested', 'starting', 'ready', 'routed')"


class ContainerRow(Base):
    __tablename__ = "containers"
    __table_args__ = (
        Index(
            "uq_containers_project_id_name",
            "project_id",
            "name",
            unique=True,
            postgresql_where=text("deleted_at IS NULL"),
        ),
        Index("ix_containers_project_id_created_at", "project_id", "created_at", "id"),
        Index(
            "ix_containers_reconcile_at", "reconcile_at", postgresql_where=text("reconcile_at IS NOT NULL")
        ),
        Index("ix_containers_asleep_since", "id", postgresql_where=text("asleep_since IS NOT NULL")),
        Index("ix_containers_rollout", "id", postgresql_where=text("rollout IS NOT NULL")),
        CheckConstraint("length(name) BETWEEN 1 AND 63", name="name_length"),
        CheckConstraint("desired_state IN ('running', 'stopped', 'deleted')", name="desired_state"),
        CheckConstraint(
            "state IN ('PENDING','PULLING','STARTING','RUNNING','STOPPING','STOPPED','FAILED','DELETING')",
            name="state",
        ),
        CheckConstraint("desired_replicas BETWEEN 1 AND 1000", name="desired_replicas"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str]
    instance_type: Mapped[str] = mapped_column(ForeignKey("instance_types.name"))
    settings: Mapped[dict[str, Any]] = mapped_column(JSONB)
    """`spec.ContainerSettings` without its secrets."""
    secrets: Mapped[bytes]
    """JSON of the registry password and the environment, encrypted for this row."""
    created_at: Mapped[CreatedAt]
    deleted_at: Mapped[datetime | None]

    desired_state: Mapped[str]
    desired_replicas: Mapped[int]
    generation: Mapped[int]
    """Grows with every start and restart: one generation is one deployment."""

    avoidance: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """Machines that one generation stays away from: `avoidance.Avoidance`."""
    stop_reason: Mapped[str | None]
    """Why it should be stopped, if not because somebody asked for it."""

    state: Mapped[str]
    state_since: Mapped[datetime]
    reason: Mapped[str | None]
    message: Mapped[str | None]
    progress: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    failed_generation: Mapped[int] = mapped_column(default=0)
    """The newest generation that was given up; it is not tried again."""
    failure_reason: Mapped[str | None]
    """Why it was given up; these two outlive what `reason` and `message` say about the present."""
    failure_message: Mapped[str | None]
    failure_fix: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """The change of a setting that is offered with it; gone once the settings are others."""
    serving_generation: Mapped[int] = mapped_column(default=0)
    """The newest generation that had a replica at the endpoint."""
    serving_image: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """That it runs, as `trial.py` keeps one: a restart that fails has fetched another. None where that is not known."""
    resumed_generation: Mapped[int] = mapped_column(default=0, server_default="0")
    """What serves became this one when a restart failed; for as long as it is the newest, that is worth saying."""
    unready_since: Mapped[datetime | None]
    """Since when no replica of a container that once served is at the endpoint."""
    image_generation: Mapped[int] = mapped_column(default=0)
    """The generation that the three columns below were found out for."""
    image_ref: Mapped[str | None]
    image_digest: Mapped[str | None]
    port: Mapped[int | None]
    image_gpu_environment: Mapped[dict[str, str] | None] = mapped_column(JSONB(none_as_null=True))
    """What it asks of a GPU's driver, in NVIDIA's variables."""

    draft: Mapped[bytes | None]
    """An edit that waits to be applied: JSON of what was sent, encrypted for this row."""
    draft_saved_at: Mapped[datetime | None]
    draft_saved_by: Mapped[str | None]
    # A draft that is being applied; `trial.py` says what happens when.
    trial_settings: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    trial_secrets: Mapped[bytes | None]
    trial_image: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    trial_failure: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """Why the last one was given up; until somebody changes or starts the container again."""
    fallback: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """What ran before it: settings, image, replicas."""
    fallback_secrets: Mapped[bytes | None]
    version: Mapped[int] = mapped_column(default=1, server_default="1")
    """Of its settings: `versions/models.py`."""
    rollout: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """How the settings on trial take over: `rollout.Rollout`."""

    asleep_since: Mapped[datetime | None]
    """It has no replicas, or is about to have none, until somebody asks something of it: `sleep/`."""
    woken_at: Mapped[datetime | None]
    """When somebody did; until a replica is at the endpoint again."""

    reconcile_at: Mapped[datetime | None]
    next_look_at: Mapped[datetime | None]
    """When the last pass wanted the next one, whoever asked for one since."""
    watched_since: Mapped[datetime | None]
    """When the last time ended in which nobody looked at it: `attention.py`."""
    changes: Mapped[int] = mapped_column(default=0)
    failed_passes: Mapped[int] = mapped_column(default=0)


class ReplicaRow(Base):
    __tablename__ = "replicas"
    __table_args__ = (
        # One live replica for a slot of a generation, whatever two controllers believe; beside it perhaps one that
        # serves until this one does, because its machine is to be empty.
        Index(
            "uq_replicas_live_slot",
            "container_id",
            "generation",
            "slot",
            unique=True,
            postgresql_where=text(f"state IN {LIVE_STATES} AND moving_since IS NULL"),
        ),
        # A port is somebody's until every gateway has let go of it.
        Index(
            "uq_replicas_host_port",
            "engine",
            "node",
            "host_port",
            unique=True,
            postgresql_where=text("port_released_at IS NULL"),
        ),
        Index("ix_replicas_container_id_created_at", "container_id", "created_at"),
        Index("ix_replicas_not_removed", "container_id", postgresql_where=text("state <> 'removed'")),
        Index("ix_replicas_engine", "engine", postgresql_where=text("state <> 'removed'")),
        CheckConstraint(
            "state IN ('requested','starting','ready','routed','draining','stopped','collected','removed')",
            name="state",
        ),
        Index(
            "ix_replicas_without_capsule", "id", postgresql_where=text("ended_badly AND capsule_at IS NULL")
        ),
        CheckConstraint("slot >= 0", name="slot_not_negative"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    container_id: Mapped[str] = mapped_column(ForeignKey("containers.id"))
    slot: Mapped[int]
    generation: Mapped[int]
    version: Mapped[int] = mapped_column(default=1, server_default="1")
    """Of the container's settings that it runs with."""
    instance_type: Mapped[str] = mapped_column(ForeignKey("instance_types.name"))
    """Of its container, and of the hours of its slot."""
    sibling_type: Mapped[str | None] = mapped_column(ForeignKey("instance_types.name"))
    """The type of the other kind that it took instead, for its price: same sizes, somebody else's machine."""
    state: Mapped[str]
    engine: Mapped[str] = mapped_column(default=LOCAL_ENGINE, server_default=LOCAL_ENGINE)
    """The name of the engine that has it, and below the machine."""
    node: Mapped[str]
    engine_identity: Mapped[str | None]
    """Of the engine that it was given to; None where that was not known."""
    gpu_device_ids: Mapped[list[str]] = mapped_column(ARRAY(String), default=list)
    host: Mapped[str | None]
    """Where it is reached, as its engine said."""
    host_port: Mapped[int | None]
    """Allocated here and unique on its machine; else as its engine said."""
    has_door: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    """Whoever connects there checks that it is this replica (`engines/doors.py`)."""
    port_idle_since: Mapped[datetime | None]
    """From then on whoever reads what to route finds that it has ended."""
    port_released_at: Mapped[datetime | None]
    engine_id: Mapped[str | None]
    created_at: Mapped[CreatedAt]
    waits_since: Mapped[datetime | None]
    """That it has room, and does not begin because another fills the cache of its machine first."""
    turn_at: Mapped[datetime | None]
    """When it need not wait any more."""
    started_at: Mapped[datetime | None]
    ready_at: Mapped[datetime | None]
    routed_at: Mapped[datetime | None]
    draining_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    collected_at: Mapped[datetime | None]
    """When the last line of its logs was stored."""
    exit_code: Mapped[int | None]
    reason: Mapped[str | None]
    message: Mapped[str | None]
    fix: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    ended_badly: Mapped[bool] = mapped_column(default=False)
    probe_history: Mapped[list[dict[str, Any]] | None] = mapped_column(JSONB)
    """Of one that ended badly: `probe_history.ProbeRun`s, oldest first."""
    capsule_at: Mapped[datetime | None]
    """When its crash capsule was written."""
    unfunded_at: Mapped[datetime | None]
    """When its next hour could not be paid: it drains while the last one lasts."""
    missing_since: Mapped[datetime | None]
    """Since when its engine does not know it, while that is not believed yet: no hour is bought for it."""
    moving_since: Mapped[datetime | None]
    """Since when another is to take its place, because its machine is to be empty. It serves until then."""


class CacheRow(Base):
    """What a container keeps on a machine between its starts. The row is there before anything is in it, and goes after it."""

    __tablename__ = "container_caches"
    __table_args__ = (
        Index("uq_container_caches_container_id_engine", "container_id", "engine", unique=True),
        Index("ix_container_caches_engine", "engine"),
        CheckConstraint("size_bytes >= 0 AND compiled_bytes >= 0", name="sizes"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    container_id: Mapped[str] = mapped_column(ForeignKey("containers.id"))
    engine: Mapped[str]
    node: Mapped[str]
    created_at: Mapped[CreatedAt]
    used_at: Mapped[CreatedAt]
    """When a replica last had it."""
    measured_at: Mapped[datetime | None]
    size_bytes: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    compiled_bytes: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    warm_version: Mapped[int] = mapped_column(default=0, server_default="0")
    """The newest version of the container's settings that became ready with it; 0: nobody knows what is in it."""
    deleting_at: Mapped[datetime | None]
    """Since when somebody wants it gone; it goes once no replica has it."""


class MachineDoubtRow(Base):
    """So many replicas of a machine are missing at once that its engine is rather wrong than right. Until they are back,
    or the time for that is over, or the operator says that they are gone."""

    __tablename__ = "machine_doubts"

    engine: Mapped[str] = mapped_column(primary_key=True, default=LOCAL_ENGINE, server_default=LOCAL_ENGINE)
    node: Mapped[str] = mapped_column(primary_key=True)
    since: Mapped[CreatedAt]
    missing: Mapped[int]
    expected: Mapped[int]
    gone_at: Mapped[datetime | None]
    """When the operator said so."""


class DoorAuthorityRow(Base):
    """What signs for the doors of replicas (`engines/doors.py`). Gateways trust all of them, so that one can succeed another."""

    __tablename__ = "door_authorities"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """From 1 on. Two processes that make the next one make the same number, and only one of them succeeds."""
    made_at: Mapped[datetime]
    certificate: Mapped[str]
    sealed_key: Mapped[bytes]


class GatewayRow(Base):
    """One HAProxy with its agent. Silent is not gone: what it held when it fell silent it may still serve."""

    __tablename__ = "gateways"

    id: Mapped[str] = mapped_column(primary_key=True)
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    limit_divisor: Mapped[int | None]
    """It lets in this part of each rate where `limit_shares` says nothing else, or less. Null: of a version that knows nothing of
    other gateways."""
    limits_agreed_at: Mapped[datetime | None]
    """When it last looked what the others let in."""


class LimitShareRow(Base):
    """What a gateway holds of a limit that some gateway uses much of; of any other each has an equal part."""

    __tablename__ = "limit_shares"

    scope: Mapped[str] = mapped_column(primary_key=True)
    """Whose requests are counted: `rate_rules.Scope`."""
    subject: Mapped[str] = mapped_column(primary_key=True)
    """The key or the organization."""
    gateway_id: Mapped[str] = mapped_column(
        ForeignKey("gateways.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    held: Mapped[int]
    used: Mapped[int]
    hungry: Mapped[bool]


class ReplicaRouteRow(Base):
    """That this gateway has this replica as a server. No row in any gateway: its port may be used again."""

    __tablename__ = "replica_routes"

    gateway_id: Mapped[str] = mapped_column(ForeignKey("gateways.id", ondelete="CASCADE"), primary_key=True)
    replica_id: Mapped[str] = mapped_column(ForeignKey("replicas.id"), primary_key=True, index=True)
    draining: Mapped[bool]
    in_flight: Mapped[int]
    changed_at: Mapped[datetime]
    failure: Mapped[str | None]
    """How it fails its health checks (`verdict.ProbeFailure`), three in a row and more; null while it answers them."""
    failure_status: Mapped[int | None]
    answered: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    """Of one that fails: the requests it has answered all the same."""
    failing_since: Mapped[datetime | None]
    """Since when it has failed its checks and answered no request either."""


WORTH_TELLING = text(
    "(kind IN ('container.draft_failed', 'container.restart_failed', 'replica_limit.approved', 'replica_limit.refused')"
    " OR (kind = 'container.state' AND details->>'to' = 'FAILED' AND details->>'from' IS DISTINCT FROM 'FAILED')"
    " OR (kind = 'container.stop' AND actor = 'system'))"
)
"""The few activities that people are told of in the console (`inbox/told.py`). Written out and not bound, so that the index is found."""


WOKEN_BY_REQUEST = "A request woke it."
ACTIONS = text(
    f"(actor <> 'system' AND (kind <> 'container.wake' OR message IS DISTINCT FROM '{WOKEN_BY_REQUEST}'))"
)
"""What people and keys did, which the audit log shows (`audit/repository.py`). A request that wakes a container says whose key it
came with, and is not an action of anybody. Written out and not bound, as above."""


class ActivityRow(Base):
    """Who changed what, when and why; also what the system did by itself."""

    __tablename__ = "activities"
    __table_args__ = (
        Index("ix_activities_container_id_at", "container_id", "at", "id"),
        Index("ix_activities_project_id_at", "project_id", "at", "id"),
        Index("ix_activities_worth_telling", "project_id", "at", "id", postgresql_where=WORTH_TELLING),
        Index("ix_activities_actions", "project_id", "at", "id", postgresql_where=ACTIONS),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str]
    container_id: Mapped[str | None]
    at: Mapped[CreatedAt]
    actor: Mapped[str]
    """`usr_…`, `key_…`, or `system`."""
    kind: Mapped[str]
    reason: Mapped[str | None]
    message: Mapped[str | None]
    details: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict)
