"""From a replica's spec to the body of Docker's create call. Pure, so that a test can look at all of it."""

import hashlib
import json
from typing import Any

from moorage.engines.base import GpuHandover, ReplicaSpec
from moorage.engines.cache_environment import CACHE_FOLDER
from moorage.engines.profile import GpuGrant, Profile, profile_for
from moorage.kit.ids import InstallationId

LABEL_INSTALLATION = "moorage.installation"
LABEL_ORGANIZATION = "moorage.organization"
LABEL_PROJECT = "moorage.project"
LABEL_CONTAINER = "moorage.container"
LABEL_REPLICA = "moorage.replica"
LABEL_SLOT = "moorage.slot"
LABEL_GENERATION = "moorage.generation"

CACHE_PREFIX = "moor-cache-"
"""Of the names of volumes that are caches. An image that declares a volume gets one with a random name."""
HOST_ADDRESS = "127.0.0.1"
"""Replicas are published on loopback, or on a machine's address in the tunnel: whoever wants to reach one goes through the
gateway."""


def name_of(replica_id: str) -> str:
    """A replica's name at the engine: made from its id, so that a lost reply is adopted and not repeated, but not the id
    itself. Docker's resolver tells everybody on a network the names behind its addresses."""
    return f"moor-{hashlib.sha256(replica_id.encode()).hexdigest()[:32]}"


def create_body(
    spec: ReplicaSpec,
    *,
    installation_id: InstallationId,
    network: str,
    dns: tuple[str, ...],
    runtime: str | None = None,
    bounds_disk: bool = False,
    gpus: GpuGrant | None = None,
    published_on: str = HOST_ADDRESS,
    image_user: str = "",
) -> dict[str, Any]:
    """`bounds_disk`: the engine's storage can. `image_user`: whom the image says that it runs as."""
    profile = profile_for(spec, runtime, gpus)
    body: dict[str, Any] = {
        "Image": spec.image,
        # Host names have no underscores.
        "Hostname": spec.replica_id.replace("_", "-"),
        # A name alone takes a variable away that the image sets.
        "Env": [f"{name}={value}" for name, value in profile.environment.items()]
        + list(profile.withheld_environment),
        "Labels": labels(spec, installation_id),
        "ExposedPorts": {_port(spec): {}},
        "AttachStdin": False,
        "OpenStdin": False,
        "Tty": False,
        # A health check of the image's own would be a second opinion, and runs inside the user's limits.
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": host_config(profile)
        | {
            "NetworkMode": network,
            "Dns": list(dns),
            "PortBindings": {_port(spec): [{"HostIp": published_on, "HostPort": str(spec.host_port)}]},
        },
    }
    if spec.cache is not None:
        body["HostConfig"].setdefault("Mounts", []).append(cache_mount(spec, installation_id, image_user))
    if bounds_disk:
        body["HostConfig"]["StorageOpt"] = {"size": str(profile.disk_bytes)}
    if spec.command is not None:
        # An entrypoint of ours also makes Docker forget the image's CMD.
        body["Entrypoint"] = list(spec.command)
        body["Cmd"] = []
    return body


def host_config(profile: Profile) -> dict[str, Any]:
    """The profile in Docker's words. Whatever it left unsaid would be Docker's default, which changes with its version."""
    body: dict[str, Any] = {
        "Privileged": False,
        "CapDrop": list(profile.dropped_capabilities),
        "SecurityOpt": [
            f"no-new-privileges:{json.dumps(profile.no_new_privileges)}",
            f"seccomp={json.dumps(profile.system_calls, separators=(',', ':'))}",
        ],
        "MaskedPaths": list(profile.masked_paths),
        "ReadonlyPaths": list(profile.read_only_paths),
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "Memory": profile.memory_bytes,
        "MemorySwap": profile.memory_bytes,
        "CpuPeriod": profile.cpu_period_us,
        "CpuQuota": profile.cpu_quota_us,
        "CpuShares": profile.cpu_shares,
        "PidsLimit": profile.pids_limit,
        "Ulimits": [
            {"Name": "nofile", "Soft": profile.open_files_limit, "Hard": profile.open_files_limit},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ],
        "ShmSize": profile.shared_memory_bytes,
        "OomScoreAdj": profile.out_of_memory_score_adjustment,
        "LogConfig": {"Type": profile.log_driver, "Config": dict(profile.log_options)},
        "RestartPolicy": {"Name": profile.restart_policy},
        "Init": profile.init,
    }
    if profile.runtime is not None:
        body["Runtime"] = profile.runtime
    return body | (_gpus(profile.gpus) if profile.gpus is not None else {})


def _gpus(grant: GpuGrant) -> dict[str, Any]:
    match grant.way:
        case GpuHandover.RUNTIME:
            request = {"Driver": "nvidia", "DeviceIDs": list(grant.device_ids), "Capabilities": [["gpu"]]}
            return {"DeviceRequests": [request]}
        case GpuHandover.CDI:
            return {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": list(grant.cdi_names)}]}
        case GpuHandover.DIRECT:
            return {
                "Devices": [
                    # To read and write; nobody inside makes nodes of its own.
                    {"PathOnHost": node, "PathInContainer": node, "CgroupPermissions": "rw"}
                    for node in grant.device_nodes
                ],
                "Mounts": [
                    {
                        "Type": "bind",
                        "Source": source,
                        "Target": target,
                        "ReadOnly": True,
                        "BindOptions": {"Propagation": "rprivate"},
                    }
                    for target, source in grant.files.items()
                ],
            }
    raise ValueError(f"no GPU is handed over by way of {grant.way}")


def cache_mount(spec: ReplicaSpec, installation_id: InstallationId, image_user: str) -> dict[str, Any]:
    """A volume of the engine's: nobody inside can name another. One for each user that an image runs as, because without
    capabilities not even uid 0 may write to what another user made."""
    assert spec.cache is not None
    kept = spec.cache.kept
    whose = f"{installation_id}/{spec.container_id if kept else spec.replica_id}/{image_user}"
    its_labels = {
        LABEL_INSTALLATION: installation_id,
        LABEL_ORGANIZATION: spec.organization_id,
        LABEL_PROJECT: spec.project_id,
        LABEL_CONTAINER: spec.container_id,
        **({} if kept else {LABEL_REPLICA: spec.replica_id}),
    }
    return {
        "Type": "volume",
        "Source": f"{CACHE_PREFIX}{hashlib.sha256(whose.encode()).hexdigest()[:32]}",
        "Target": CACHE_FOLDER,
        # What the image has there is not copied: it would be a copy for each cache.
        "VolumeOptions": {"NoCopy": True, "Labels": its_labels, "DriverConfig": {"Name": "local"}},
    }


def labels(spec: ReplicaSpec, installation_id: InstallationId) -> dict[str, str]:
    return {
        LABEL_INSTALLATION: installation_id,
        LABEL_ORGANIZATION: spec.organization_id,
        LABEL_PROJECT: spec.project_id,
        LABEL_CONTAINER: spec.container_id,
        LABEL_REPLICA: spec.replica_id,
        LABEL_SLOT: str(spec.slot),
        LABEL_GENERATION: str(spec.generation),
    }


def _port(spec: ReplicaSpec) -> str:
    return f"{spec.port}/tcp"
