"""The words for what a container and a replica are doing, and why. Pure."""

from enum import StrEnum


class DesiredState(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"
    DELETED = "deleted"


class ContainerState(StrEnum):
    PENDING = "PENDING"
    """Accepted, and waiting: for the image, a free machine, credit, or an approval. The reason says which."""
    PULLING = "PULLING"
    """The machine pulls the image."""
    STARTING = "STARTING"
    """Replicas have been started, and none passes its health check yet."""
    RUNNING = "RUNNING"
    """At least one replica is ready at the endpoint. A container that sleeps is `RUNNING` too, with `asleep: true`."""
    STOPPING = "STOPPING"
    """It takes no new requests; those in flight may finish."""
    STOPPED = "STOPPED"
    """It has no replicas and costs nothing. The endpoint answers 503."""
    FAILED = "FAILED"
    """The deployment was given up. It has no replicas and costs nothing; its logs stay. The reason says why."""
    DELETING = "DELETING"
    """It is being removed, for good."""


class ReplicaState(StrEnum):
    REQUESTED = "requested"
    """Its row is committed; the engine may or may not have heard of it."""
    STARTING = "starting"
    """Its process runs and has not passed a health check yet."""
    READY = "ready"
    """Passed its health check; no gateway has it yet."""
    ROUTED = "routed"
    """At least one gateway sends it requests."""
    DRAINING = "draining"
    """Gets no new requests; ends when those in flight have."""
    STOPPED = "stopped"
    """Its process has ended."""
    COLLECTED = "collected"
    """Its logs are in; nothing of it is needed any more."""
    REMOVED = "removed"
    """Gone from its machine."""


class TrialStep(StrEnum):
    """How far the application of a draft has come; `trial.py` tells what each step does."""

    PREPARE = "prepare"
    STOP = "stop"
    CANARY = "canary"
    PROVE = "prove"


class Strategy(StrEnum):
    """How new settings take over from those that serve."""

    REPLACE = "replace"
    """Stop, then start."""
    ROLLING = "rolling"
    """Beside each other, until the new ones have served well for a while."""
    CANARY = "canary"
    """Beside each other, the new ones with a share of the requests, until somebody or a rule decides."""


class Outcome(StrEnum):
    """What became of a version."""

    SERVING = "serving"
    REPLACED = "replaced"
    FAILED = "failed"
    ROLLED_BACK = "rolled_back"


LIVE = frozenset({ReplicaState.REQUESTED, ReplicaState.STARTING, ReplicaState.READY, ReplicaState.ROUTED})
SERVING = frozenset({ReplicaState.READY, ReplicaState.ROUTED})


class Reason(StrEnum):
    """A closed list; each one has a sentence in `verdict.py` or where it is found out, a meaning and a fix in
    `reason_words.py`, and a test."""

    IMAGE_NOT_FOUND = "image_not_found"
    REGISTRY_AUTH_FAILED = "registry_auth_failed"
    REGISTRY_UNREACHABLE = "registry_unreachable"
    IMAGE_ARCHITECTURE_MISMATCH = "image_architecture_mismatch"
    IMAGE_TOO_LARGE = "image_too_large"
    PULL_TIMEOUT = "pull_timeout"
    GPU_NOT_DETECTED = "gpu_not_detected"
    GPU_DRIVER_MISMATCH = "gpu_driver_mismatch"
    GPU_LOST = "gpu_lost"
    GPU_BUSY = "gpu_busy"
    GPU_OUT_OF_MEMORY = "gpu_out_of_memory"
    NO_CAPACITY = "no_capacity"
    AWAITING_APPROVAL = "awaiting_approval"
    REPLICA_LIMIT_REFUSED = "replica_limit_refused"
    START_LIMIT = "start_limit"
    INSUFFICIENT_CREDIT = "insufficient_credit"
    START_COMMAND_NOT_FOUND = "start_command_not_found"
    EXITED = "exited"
    OUT_OF_MEMORY = "out_of_memory"
    PIDS_LIMIT = "pids_limit"
    DISK_FULL = "disk_full"
    MISSING_CAPABILITY = "missing_capability"
    PORT_NOT_LISTENING = "port_not_listening"
    LISTENS_ON_LOOPBACK_ONLY = "listens_on_loopback_only"
    LISTENS_ON_OTHER_PORT = "listens_on_other_port"
    HEALTH_CHECK_STATUS = "health_check_status"
    HEALTH_CHECK_TIMEOUT = "health_check_timeout"
    NODE_LOST = "node_lost"
    MACHINE_RECLAIMED = "machine_reclaimed"
    PORT_TAKEN = "port_taken"
    STOPPED_BY_USER = "stopped_by_user"
    STOPPED_NO_CREDIT = "stopped_no_credit"
    SPENDING_LIMIT = "spending_limit"
    SUSPENDED = "suspended"
    ENGINE_ERROR = "engine_error"
    ERRORS_ABOVE_BOUND = "errors_above_bound"
    SLOWER_THAN_BEFORE = "slower_than_before"
    ROLLED_BACK = "rolled_back"
