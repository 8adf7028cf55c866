"""What the operator sees: nodes, machines, requests, health."""

from cli_server.times import CREATED_AT

LIMIT_REQUEST = {
    "id": "rlr_1",
    "project_id": "prj_one",
    "container_id": None,
    "replicas": 40,
    "note": "launch day",
    "state": "pending",
    "created_at": CREATED_AT,
    "answer": None,
}


TYPE_PROPOSAL = {
    "name": "h200-141gb-small",
    "gpu_model": "NVIDIA H200",
    "gpu_count": 1,
    "vcpu_millis": 16_000,
    "memory_bytes": 113 * 2**30,
    "disk_bytes": 200 * 2**30,
    "price_per_hour_microusd": 4_990_000,
    "infrastructure": "operator",
    "because": "rack-1 has NVIDIA H200, but is smaller than what h200-141gb promises.",
}


NODE = {
    "name": "rack-1",
    "state": "silent",
    "seen_s_ago": 71.2,
    "infrastructure": "operator",
    "architecture": "amd64",
    "gpu_driver": "580.65.06",
    "cuda_version": "13.0",
    "gpus": [
        {
            "device_id": "GPU-4711",
            "model": "NVIDIA H200",
            "memory_bytes": 150 * 2**30,
            "in_use": True,
            "unusable_because": None,
        }
    ],
    "gpu_handover": "direct",
    "message": "GPUs are handed over directly: the engine has no NVIDIA runtime.",
    "findings": [
        {"code": "x", "message": "Its driver is unloaded.", "command": "nvidia-smi -pm 1", "broken": False}
    ],
    "total": {"cpu_millis": 16_000, "memory_bytes": 128 * 2**30, "gpus": 1},
    "promised": {"cpu_millis": 16_000, "memory_bytes": 28 * 2**30, "gpus": 1},
    "free": {"cpu_millis": 240_000, "memory_bytes": 100 * 2**30, "gpus": 0},
    "cpu_overcommit": 16.0,
}


OPERATOR_STATUS = {
    "version": "0.1.0",
    "reconcilers": [
        {"name": "containers", "holder": "one", "last_run_at": CREATED_AT, "age_s": 0.4}
        | {"last_error": None, "consecutive_failures": 0, "objects_failing": 0}
    ],
    "gateways": [{"id": "gtw_1", "seen_at": CREATED_AT, "alive": True, "servers": 2}],
    "nodes": [{"name": "local", "cpu_millis": 2000, "memory_bytes": 8 * 2**30, "gpus": []}],
    "containers": {"RUNNING": 3},
}


OPERATOR_HEALTH = {
    "state": "warning",
    "parts": [
        {
            "name": "database",
            "state": "ok",
            "message": "Answers; 0.10 GiB.",
            "since": None,
            "what_to_do": None,
        },
        {
            "name": "disk",
            "state": "warning",
            "message": "9.0 GiB (9%) free at /var/lib/moorage.",
            "since": CREATED_AT,
            "what_to_do": "Make room.",
        },
    ],
}


MACHINE = {
    "id": "mch_1",
    "name": "rack-7",
    "infrastructure": "operator",
    "state": "active",
    "state_since": "2026-01-02T03:04:05Z",
    "returns_as": None,
    "joins_until": None,
    "message": "It takes containers.",
    "stopped_by": None,
    "paused_until": None,
    "empty_by": None,
    "owner_organization_id": None,
    "tier": "standard",
    "reliability": 0.984,
    "days": None,
    "proven_at": "2026-01-02T03:04:05Z",
    "proof_failure": None,
    "proof_due_at": None,
    "runtime": None,
    "gpu_handover": "runtime",
    "address": "198.19.1.0",
    "gpus": ["NVIDIA L4"],
    "facts": {
        "architecture": "x86_64",
        "kernel": "6.1",
        "system": "Debian 12",
        "cpus": 8,
        "memory_bytes": 2**35,
        "disk_free_bytes": 2**38,
        "gpus": ["NVIDIA L4"],
        "docker": None,
    },
    "replicas": 2,
    "created_at": "2026-01-02T03:00:00Z",
    "joined_at": "2026-01-02T03:04:00Z",
    "seen_at": "2026-01-02T03:04:05Z",
}
