"""From a replica's spec to its Pod and Secrets. Pure, so that a test can look at all of it.

The container profile (`engines/profile.py`) in Kubernetes' words, in one function. What Kubernetes has no field for is the
kubelet's: processes, open files, the size of logs. Environment and arguments lie in a Secret, which the kubelet reads: whoever
may look at Pods sees neither.
"""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from moorage.engines.base import GpuHandover, ReplicaSpec
from moorage.engines.doors import Authority
from moorage.engines.kubernetes.door_body import door_container, door_data, door_volume, encoded
from moorage.engines.kubernetes.names import (
    GATE,
    INFRASTRUCTURE_LABEL,
    LABEL_CONTAINER,
    LABEL_REPLICA,
    LOOK,
    MAIN,
    PRIORITY_CLASS,
    REPLICA_ACCOUNT,
    door_secret_of,
    labels_of,
    name_of,
    namespace_of,
    pull_secret_of,
)
from moorage.engines.kubernetes.nodes import (
    ARCHITECTURE_LABEL,
    COMMUNITY,
    GPU_RESOURCE,
    HOSTNAME_LABEL,
    PRODUCT_LABEL,
    product_of,
)
from moorage.engines.profile import GpuGrant, Profile, profile_for
from moorage.kit.ids import InstallationId, ReplicaId
from moorage.outbound.registry.credentials import RegistryCredentials

_ARGUMENT = "MOORAGE_ARGUMENT_"
_SHARED_MEMORY = "shared-memory"
_NAME_FIELD = "metadata.name"
_NODE_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


@dataclass(frozen=True)
class ClusterOptions:
    """What the settings say of a cluster."""

    dns: tuple[str, ...] = ("1.1.1.1", "8.8.8.8")
    stop_grace_s: int = 10
    cpu_overcommit: float = 1.0
    """How many vCPUs the scheduler may promise for a core."""
    runtime_class: str | None = None
    host_users: bool | None = None
    """False: uid 0 inside is nobody on the node. None leaves it to the cluster, which may not know the field."""


def pod_body(
    spec: ReplicaSpec,
    *,
    installation_id: InstallationId,
    image: str,
    architecture: str | None,
    options: ClusterOptions,
    door_image: str | None = None,
) -> dict[str, Any]:
    """`image`: by digest, at the pull proxy; so is the door's, without which it has none. It is created with a gate, which
    goes once its Secrets are there."""
    profile = profile_of(spec)
    body: dict[str, Any] = {
        "restartPolicy": "Never",
        "schedulingGates": [{"name": GATE}],
        "serviceAccountName": REPLICA_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostNetwork": False,
        "hostPID": False,
        "hostIPC": False,
        "shareProcessNamespace": False,
        "priorityClassName": PRIORITY_CLASS,
        "terminationGracePeriodSeconds": options.stop_grace_s,
        # The cluster's own resolver knows every Service, and is at an address that replicas may not reach.
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": list(options.dns), "options": [{"name": "ndots", "value": "1"}]},
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "imagePullSecrets": [{"name": pull_secret_of(spec.replica_id)}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _affinity(spec, architecture)}
        },
        "topologySpreadConstraints": [_spread(spec)],
        "tolerations": _tolerations(spec),
        "containers": [_main(spec, profile, image, options)],
        "volumes": [
            {
                "name": _SHARED_MEMORY,
                "emptyDir": {"medium": "Memory", "sizeLimit": str(profile.shared_memory_bytes)},
            }
        ],
    }
    if door_image is not None:
        body["initContainers"] = [door_container(door_image, spec.port)]
        body["volumes"].append(door_volume(spec))
    if options.runtime_class is not None:
        body["runtimeClassName"] = options.runtime_class
    if options.host_users is not None:
        body["hostUsers"] = options.host_users
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name_of(spec.replica_id),
            "namespace": namespace_of(installation_id, spec.organization_id),
            "labels": labels_of(spec, installation_id),
        },
        "spec": body,
    }


def environment_secret(spec: ReplicaSpec, owner: Mapping[str, Any]) -> dict[str, Any]:
    """What its process gets to read, and nobody who looks at Pods."""
    profile = profile_of(spec)
    arguments = {f"{_ARGUMENT}{index}": value for index, value in enumerate(spec.command or ())}
    values = {**profile.environment, **arguments}
    return _secret(
        name_of(spec.replica_id),
        owner,
        type="Opaque",
        immutable=True,
        data=encoded(values),
    )


def door_secret(
    spec: ReplicaSpec, owner: Mapping[str, Any], authority: Authority, now: datetime
) -> dict[str, Any]:
    """Its key, which nobody has but this door: it is made here and kept nowhere."""
    return _secret(
        door_secret_of(spec.replica_id),
        owner,
        type="Opaque",
        immutable=True,
        data=encoded(door_data(spec, authority, now)),
    )


def pull_secret(owner: Mapping[str, Any], logins: Mapping[str, RegistryCredentials]) -> dict[str, Any]:
    """By the names of images at the pull proxy, each good for that one; a registry's own password never leaves Moorage."""
    config = {"auths": {name: _login(credentials) for name, credentials in logins.items()}}
    return _secret(
        pull_secret_of(ReplicaId(owner["metadata"]["labels"][LABEL_REPLICA])),
        owner,
        type="kubernetes.io/dockerconfigjson",
        # It is made anew where its ticket ended early, and of an immutable one a kubelet would not hear.
        immutable=False,
        data=encoded({".dockerconfigjson": json.dumps(config)}),
    )


def look_body(number: int, image: str) -> dict[str, Any]:
    """An ephemeral container: it shares the Pod's network, and prints what listens there."""
    return {
        "name": f"{LOOK}-{number}",
        "image": image,
        "imagePullPolicy": "Always",
        "command": ["cat", "/proc/net/tcp", "/proc/net/tcp6"],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "File",
    }


def profile_of(spec: ReplicaSpec) -> Profile:
    """The device plugin chooses GPUs and tells the runtime which; neither we nor the image may."""
    ids = spec.gpu_device_ids
    grant = GpuGrant(GpuHandover.RUNTIME, ids, chosen_by_engine=True) if ids else None
    return profile_for(spec, gpus=grant)


def _main(spec: ReplicaSpec, profile: Profile, image: str, options: ClusterOptions) -> dict[str, Any]:
    cpu_millis = profile.cpu_quota_us * 1000 // profile.cpu_period_us
    gpus = {GPU_RESOURCE: str(len(spec.gpu_device_ids))} if spec.gpu_device_ids else {}
    exact = {"memory": str(profile.memory_bytes), "ephemeral-storage": str(profile.disk_bytes), **gpus}
    body: dict[str, Any] = {
        "name": MAIN,
        "image": image,
        # The pull proxy is asked with this ticket, whatever the node has: a cached private image is nobody else's.
        "imagePullPolicy": "Always",
        "ports": [{"containerPort": spec.port, "protocol": "TCP"}],
        "envFrom": [{"secretRef": {"name": name_of(spec.replica_id)}}],
        # Kubernetes cannot take a variable of the image's away; an empty one orders nothing.
        "env": [{"name": name, "value": ""} for name in profile.withheld_environment],
        "resources": {
            "requests": {"cpu": f"{max(1, int(cpu_millis / options.cpu_overcommit))}m", **exact},
            "limits": {"cpu": f"{cpu_millis}m", **exact},
        },
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": not profile.no_new_privileges,
            "capabilities": {"drop": list(profile.dropped_capabilities)},
            "procMount": "Default",
        },
        # Never its output: what stands there is shown.
        "terminationMessagePolicy": "File",
        "volumeMounts": [{"name": _SHARED_MEMORY, "mountPath": "/dev/shm"}],  # noqa: S108 - inside a container
        "stdin": False,
        "tty": False,
    }
    if spec.command is not None:
        # The kubelet puts the Secret's values in place of these.
        body["command"] = [f"$({_ARGUMENT}{index})" for index in range(len(spec.command))]
    return body


def _affinity(spec: ReplicaSpec, architecture: str | None) -> dict[str, Any]:
    # A node that says nothing of whose it is is the operator's.
    rules = [_where(INFRASTRUCTURE_LABEL, "NotIn", [COMMUNITY])]
    if architecture is not None:
        rules.append(_where(ARCHITECTURE_LABEL, "In", [architecture]))
    if spec.gpu_device_ids and spec.gpu_model is not None:
        rules.append(_where(PRODUCT_LABEL, "In", [product_of(spec.gpu_model)]))
    term = {"matchExpressions": rules}
    if names := _names(spec):
        term["matchFields"] = names
    return {"nodeSelectorTerms": [term]}


def _names(spec: ReplicaSpec) -> list[dict[str, Any]]:
    """By the node's own name: its hostname label is another one in some clusters, and would then exclude nothing. The API server takes one
    value in each of these, all of which hold. It refuses a Pod for a name that no node can have, such as another engine's machine has."""
    avoided = [name for name in sorted(spec.avoided_nodes) if _NODE_NAME.fullmatch(name)]
    only = [_where(_NAME_FIELD, "In", [spec.only_node])] if spec.only_node is not None else []
    return only + [_where(_NAME_FIELD, "NotIn", [name]) for name in avoided]


def _where(key: str, operator: str, values: Sequence[str]) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def _spread(spec: ReplicaSpec) -> dict[str, Any]:
    return {
        "topologyKey": HOSTNAME_LABEL,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {LABEL_CONTAINER: spec.container_id}},
    }


def _tolerations(spec: ReplicaSpec) -> list[dict[str, Any]]:
    # For good: whether a replica on a node that is not heard of has to go is the plan's to say, which knows whether
    # gateways still reach it. Kubernetes would take it away after five minutes, answering or not.
    away = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ]
    gpu = [{"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}] if spec.gpu_device_ids else []
    return away + gpu


def _secret(
    name: str,
    owner: Mapping[str, Any],
    *,
    type: str,  # noqa: A002 - the field's name
    immutable: bool,
    data: Mapping[str, str],
) -> dict[str, Any]:
    metadata = owner["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": dict(metadata["labels"]),
            # It goes with its Pod, whoever removes that.
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "blockOwnerDeletion": False,
                    "controller": False,
                }
            ],
        },
        "type": type,
        "immutable": immutable,
        "data": dict(data),
    }


def _login(credentials: RegistryCredentials) -> dict[str, str]:
    username, password = credentials.username, credentials.password
    auth = base64.b64encode(f"{username}:{password}".encode()).decode()
    return {"username": username, "password": password, "auth": auth}
