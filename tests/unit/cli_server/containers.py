"""Containers, and what belongs to one, as the API shows them."""

from typing import Any

from cli_server.times import CREATED_AT

REQUEST = {
    "request_id": "req_seen",
    "project_id": "prj_one",
    "container_id": "ctr_0",
    "key_id": "key_0",
    "status": 503,
    "ended": "queue_timeout",
    "method": "POST",
    "path": "/v1/embeddings",
    "retries": 2,
    "container": {"id": "ctr_0", "name": "chat", "deleted": False},
    "key": {"id": "key_0", "name": "mobile-app", "hint": "7q2d", "scope": "inference"},
    "replica": {"id": "rep_abcdef", "version": 3, "node": "gpu-node-04"},
    "cost": {"share_microusd": 16_757, "requests": 37},
    "moments": [{"at": "2026-01-31T12:00:00Z", "teller": "gateway", "what": "POST /v1/embeddings arrived"}],
    "lines": {
        "instance_id": "rep_abcdef",
        "from_time": "2026-01-31T12:00:00Z",
        "to_time": "2026-01-31T12:01:01Z",
    },
    "explanation": ["It waited 60.0 s for a free replica.", "All replicas were busy."],
}


REQUEST_SUMMARY = {
    "request_id": "req_seen",
    "started_at": "2026-01-31T12:00:00Z",
    "status": 503,
    "total_ms": 60_000,
    "ended": "queue_timeout",
    "method": "POST",
    "path": "/v1/embeddings",
    "key_id": "key_0",
    "key_name": "mobile-app",
}


SCALING = {"min_replicas": 1, "max_replicas": 4, "target_concurrency": 6, "scale_down_delay_s": 300}


AUTOSCALING = {
    "policy": SCALING,
    "replicas": {"desired": 3, "ready": 2, "coming": 1, "startup_s": 4.2},
    "items": [
        {
            "at": CREATED_AT,
            "replicas_before": 1,
            "replicas": 3,
            "wanted": 5,
            "limited_by": "max_replicas",
            "reason": "12.0 in flight over the last 6 s + headroom 6.3 = 18.3, ÷ 4 → 5 replicas. Wants 5, capped by max 3.",
            "inputs": {},
        }
    ],
}


DIAGNOSIS = {
    "state": "done",
    "replica_id": "rep_abcdef",
    "node": "here",
    "message": "Names resolve. 1.1.1.1:443 does not answer.",
    "findings": {
        "resolvers": ["127.0.0.11"],
        "upstream_resolvers": ["1.1.1.1"],
        "names": [{"name": "huggingface.co", "addresses": ["18.0.0.1"], "failure": None}],
        "outbound": [{"address": "1.1.1.1", "port": 443, "outcome": "timed_out"}],
        "forbidden": [{"address": "169.254.169.254", "port": 80, "outcome": "timed_out"}],
        "listening": [{"address": "0.0.0.0", "port": 8000}],
        "egress": "Every public address is allowed.",
    },
}


_FIGURES = {"hours_bought": 4, "cost_microusd": 80000, "over_target_share": 0.125, "changes": 3}


REPLAY = {
    "since": CREATED_AT,
    "until": CREATED_AT,
    "policy": SCALING,
    "as_it_was": _FIGURES | {"replica_hours": 9.5},
    "replayed": _FIGURES | {"replica_hours": 7.25},
    "pattern": "workday",
}


CAPSULE = {
    "replica_id": "rep_1",
    "container_id": "ctr_1",
    "written_at": CREATED_AT,
    "ended_at": CREATED_AT,
    "reason": "exited",
    "message": "The process ended with exit code 3.",
    "exit_code": 3,
    "generation": 2,
    "image_digest": "sha256:abc",
    "node": "here",
    "gpu_device_ids": [],
    "probes": [{"by": "controller", "outcome": "status", "status": 500, "count": 7}],
    "last_lines": [{"time": CREATED_AT, "stream": "stderr", "text": "Traceback: no model \x1b[31mfound"}],
}


ACTIVITY = [
    {"id": "act_2", "at": "2026-01-31T12:00:09Z", "actor": "system", "kind": "container.state"}
    | {"reason": "exited", "message": "The process ended.", "details": {}},
    {"id": "act_1", "at": CREATED_AT, "actor": "usr_1", "kind": "container.create"}
    | {"reason": None, "message": None, "details": {}},
]


def container(container_id: str, name: str, url: str) -> dict[str, Any]:
    return {
        "id": container_id,
        "project_id": "prj_one",
        "name": name,
        "state": "RUNNING",
        "state_since": CREATED_AT,
        "reason": None,
        "message": None,
        "fix": None,
        "endpoint_url": f"{url}/c/{container_id}",
        "replicas": {"desired": 1, "ready": 1},
        "progress": None,
        "generation": 1,
        "created_at": CREATED_AT,
        "category": None,
        "image": "local/chat:latest",
        "image_digest": None,
        "registry": {"provider": "local", "username": None, "has_password": False},
        "resources": {"mode": "general", "instance_type": "cpu-small"},
        "start_command": None,
        "port": 8000,
        "health_check": {"path": "/health", "timeout_s": 60},
        "limits": {
            "max_body_bytes": 2**20,
            "request_timeout_s": 600,
            "idle_timeout_s": 3600,
            "max_concurrency": 8,
            "retry_unanswered": False,
        },
        "env": {"CHAT_TOKEN_DELAY_MS": None},
        "plain_env": {},
        "infrastructure": "operator",
        "accept_exposure": False,
        "api_path": "/api/v1",
        "sleep_after_s": None,
        "cache": None,
        "asleep": False,
        "asleep_since": None,
        "woken_at": None,
        "price_per_hour_microusd": 10_000,
        "least_price_per_hour_microusd": 10_000,
        "draft": None,
        "version": 1,
        "rollout": None,
    }


def replica(generation: int) -> dict[str, Any]:
    return {
        "id": "rep_abcdef",
        "slot": 0,
        "generation": generation,
        "state": "routed",
        "node": "local",
        "community": {"gpus": ["NVIDIA L4"], "tier": "standard", "reliability": 0.984},
        "created_at": CREATED_AT,
        "started_at": CREATED_AT,
        "ready_at": CREATED_AT,
        "ended_at": None,
        "exit_code": None,
        "reason": None,
        "message": None,
    }


def log_line(sequence: int, text: str, stream: str = "stdout") -> dict[str, Any]:
    return {
        "time": f"2026-01-31T12:00:{sequence:02d}.500000Z",
        "container_id": "ctr_0",
        "instance_id": "rep_abcdef",
        "stream": stream,
        "sequence": sequence,
        "text": text,
    }
