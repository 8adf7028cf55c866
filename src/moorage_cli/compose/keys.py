"""What becomes of each key of a compose service that is not a setting of Moorage's. Pure."""

from collections.abc import Mapping

from moorage_cli.other_tools import meanings as m
from moorage_cli.other_tools.meanings import Meaning

TAKEN = frozenset(
    {
        *("image", "container_name", "entrypoint", "command", "environment", "env_file", "ports", "expose"),
        *("healthcheck", "deploy", "scale", "gpus", "cpus", "mem_limit", "mem_reservation", "restart"),
        *("build", "runtime"),
    }
)
"""`service.py` reads them."""

MEANINGS: Mapping[str, Meaning] = {
    "annotations": m.LABELS,
    "attach": m.NO_MEANING,
    "blkio_config": m.SHARES,
    "cap_add": m.RIGHTS,
    "cap_drop": m.CAPABILITIES,
    "cgroup": m.RIGHTS,
    "cgroup_parent": m.RIGHTS,
    "configs": m.SECRET_FILES,
    "cpu_count": m.SHARES,
    "cpu_percent": m.SHARES,
    "cpu_shares": m.SHARES,
    "cpuset": m.SHARES,
    "depends_on": m.OTHERS,
    "develop": m.NO_MEANING,
    "device_cgroup_rules": m.RIGHTS,
    "devices": m.DEVICES,
    "dns": m.NAMES,
    "dns_opt": m.NAMES,
    "dns_search": m.NAMES,
    "domainname": m.NAMES,
    "extends": m.OTHER_FILES,
    "external_links": m.NAMES,
    "extra_hosts": m.NAMES,
    "group_add": m.USER,
    "hostname": m.NAMES,
    "init": m.INIT,
    "ipc": m.SHARED_MEMORY,
    "labels": m.LABELS,
    "label_file": m.LABELS,
    "links": m.NAMES,
    "logging": m.LOGS,
    "memswap_limit": m.SHARES,
    "mem_swappiness": m.SHARES,
    "network_mode": m.NETWORK,
    "networks": m.NETWORKS,
    "oom_score_adj": m.SHARES,
    "pid": m.RIGHTS,
    "pids_limit": m.PROCESS_LIMITS,
    "platform": m.PLATFORM,
    "post_start": m.HOOKS,
    "pre_stop": m.HOOKS,
    "privileged": m.RIGHTS,
    "profiles": m.NO_MEANING,
    "pull_policy": m.PULLS,
    "read_only": m.READ_ONLY,
    "secrets": m.SECRET_FILES,
    "security_opt": m.RIGHTS,
    "shm_size": m.SHARED_MEMORY,
    "storage_opt": m.DISKS,
    "stdin_open": m.INPUT,
    "stop_grace_period": m.STOPPING,
    "stop_signal": m.STOP_SIGNAL,
    "sysctls": m.RIGHTS,
    "tmpfs": m.VOLUMES,
    "tty": m.TERMINAL,
    "ulimits": m.PROCESS_LIMITS,
    "use_api_socket": m.ENGINE,
    "user": m.USER,
    "userns_mode": m.RIGHTS,
    "uts": m.RIGHTS,
    "volumes": m.VOLUMES,
    "volumes_from": m.VOLUMES,
    "working_dir": m.WORKING_DIRECTORY,
}
"""A key that is not here is refused: nobody knows what it would have done."""

OF_DEPLOY: Mapping[str, Meaning] = {
    "endpoint_mode": m.NO_MEANING,
    "labels": m.LABELS,
    "placement": m.PLACEMENT,
    "restart_policy": m.RESTARTS,
    "rollback_config": m.UPDATES,
    "update_config": m.UPDATES,
}

GIVEN_ANYWAY = (["no-new-privileges"], ["no-new-privileges:true"], ["no-new-privileges=true"])
"""What every container has: nothing in it gains rights by starting a program."""
