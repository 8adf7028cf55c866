"""What things are called in a cluster: every name and label follows from ids. Pure.

`engine_id` is `<namespace>/<name>/<uid>`: it needs no memory of ours, and a name alone is refused by its form.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moorage.engines.base import ReplicaSpec
from moorage.kit.ids import InstallationId, OrganizationId, ReplicaId

PREFIX = "moorage.io/"
LABEL_INSTALLATION = f"{PREFIX}installation"
LABEL_ORGANIZATION = f"{PREFIX}organization"
LABEL_CONTAINER = f"{PREFIX}container"
LABEL_REPLICA = f"{PREFIX}replica"
LABEL_SLOT = f"{PREFIX}slot"
LABEL_GENERATION = f"{PREFIX}generation"
LABELS = frozenset({LABEL_INSTALLATION, LABEL_CONTAINER, LABEL_REPLICA, LABEL_SLOT, LABEL_GENERATION})
"""That every Pod of ours has."""
ANNOTATION_BODIES = f"{PREFIX}bodies"
"""Of a namespace: a hash of what Moorage wrote into it last."""
GATE = f"{PREFIX}secrets"
"""A Pod is not scheduled until its Secrets are there; they are made after it, so that they can belong to it."""

MAIN = "main"
"""The container of a Pod that is the replica."""
DOOR = "door"
"""The container beside it that proves whose Pod this is (`door_body.py`), and what it alone mounts."""
LOOK = "look"
"""How containers begin that are put beside it for a moment (`look_inside.py`)."""
REPLICA_ACCOUNT = "moorage-replica"
PRIORITY_CLASS = "moorage-replica"
TENANT_ROLE = "moorage-tenant"
INFRASTRUCTURE_LABEL = "moorage.node-restriction.kubernetes.io/infrastructure"
"""Of a node. The part before the slash is one that a kubelet may not give itself."""


@dataclass(frozen=True)
class PodKey:
    namespace: str
    name: str
    uid: str

    @property
    def engine_id(self) -> str:
        return f"{self.namespace}/{self.name}/{self.uid}"

    @staticmethod
    def parse(engine_id: str) -> "PodKey | None":
        parts = engine_id.split("/")
        return PodKey(*parts) if len(parts) == 3 and all(parts) else None

    @staticmethod
    def of(pod: Mapping[str, Any]) -> "PodKey":
        metadata = pod["metadata"]
        return PodKey(metadata["namespace"], metadata["name"], metadata["uid"])


def namespace_prefix(installation_id: InstallationId) -> str:
    return f"m-{hashlib.sha256(installation_id.encode()).hexdigest()[:8]}-"


def namespace_of(installation_id: InstallationId, organization_id: OrganizationId) -> str:
    return namespace_prefix(installation_id) + organization_id.replace("_", "-")


def name_of(replica_id: ReplicaId) -> str:
    """Names in a cluster have no underscores."""
    return replica_id.replace("_", "-")


def pull_secret_of(replica_id: ReplicaId) -> str:
    return f"{name_of(replica_id)}-pull"


def door_secret_of(replica_id: ReplicaId) -> str:
    return f"{name_of(replica_id)}-door"


def labels_of(spec: ReplicaSpec, installation_id: InstallationId) -> dict[str, str]:
    """Organization and project are in the database, and need not be told to nodes."""
    return {
        LABEL_INSTALLATION: installation_id,
        LABEL_CONTAINER: spec.container_id,
        LABEL_REPLICA: spec.replica_id,
        LABEL_SLOT: str(spec.slot),
        LABEL_GENERATION: str(spec.generation),
    }
