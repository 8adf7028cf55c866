"""An HTTP server that answers as Moorage documents it, for tests of the command line.

The CLI is a client of a public API, so the API is an external system to it. This one keeps just enough state for
the stories that the tests tell: what a container goes through is a script, one step for each time it is asked for.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Moor = Callable[..., Any]
"""Runs `moor` with these arguments and gives its result back."""

OPERATOR_KEY = "moor_op_test"
SESSION_TOKEN = "moor_ses_test"
MANAGE_KEY = "moor_manage_test"
CREATED_AT = "2026-01-31T12:00:00Z"


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
TEMPLATE = {
    "name": "vllm",
    "title": "vLLM",
    "summary": "Chat under load",
    "kinds": ["chat"],
    "formats": ["safetensors"],
    "precisions": ["bf16"],
    "runs_without_gpu": False,
    "example": "hf:Qwen/Qwen2.5-7B-Instruct",
    "instance_type": "l4-24gb",
    "price_per_hour_microusd": 800_000,
}
MODEL_PLAN = {
    "ok": True,
    "reason": None,
    "message": "Each replica needs 31.6 GB. It fits on l40s-48gb.",
    "model": {
        "id": "hf:Qwen/Qwen2.5-7B-Instruct",
        "parameters": 7_615_616_512,
        "precision": "bf16",
        "license": "apache-2.0",
        "download_bytes": 15_231_233_024,
    },
    "template": TEMPLATE,
    "other_templates": [{"name": "sglang"}],
    "instance_type": "l40s-48gb",
    "instance_types": [
        {
            "instance_type": "l4-24gb",
            "gpu_count": 1,
            "infrastructure": "operator",
            "price_per_hour_microusd": 800_000,
            "fits": False,
            "reason": "It is 9.1 GB short of the 31.6 GB that are needed.",
            "memory": {"total_bytes": 31_600_000_000},
            "total_bytes": 24_152_899_584,
            "longest_context_tokens": 6144,
            "free": 3,
        },
        {
            "instance_type": "l40s-48gb",
            "gpu_count": 1,
            "infrastructure": "operator",
            "price_per_hour_microusd": 1_550_000,
            "fits": True,
            "reason": None,
            "memory": {"total_bytes": 31_600_000_000},
            "total_bytes": 48_305_799_168,
            "longest_context_tokens": None,
            "free": 5,
        },
    ],
}
MODEL_REFUSED = {
    "ok": False,
    "reason": "model_not_found",
    "message": "The hub knows no model acme/gone.",
}
MODEL_GATED = {"ok": False, "reason": "model_gated", "message": "acme/gated is gated."}
PREFLIGHT = {
    "reason": "image_not_found",
    "message": "As the registry says.",
    "digest": "sha256:4711",
    "platforms": ["linux/amd64"],
    "size_bytes": 2**30,
    "exposed_ports": [8000],
    "port": 9000,
    "warnings": ["The image exposes 8000, not 9000."],
    "proposal": None,
}
PROPOSAL = {
    "server": "vLLM",
    "api_path": "/v1",
    "port": 8000,
    "health_path": "/health",
    "message": "vLLM serves its API at /v1.",
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


_FIGURES = {"hours_bought": 4, "cost_microusd": 80000, "over_target_share": 0.125, "changes": 3}
REPLAY = {
    "since": CREATED_AT,
    "until": CREATED_AT,
    "policy": SCALING,
    "as_it_was": _FIGURES | {"replica_hours": 9.5},
    "replayed": _FIGURES | {"replica_hours": 7.25},
    "pattern": "workday",
}


class FakeMoorage:
    """The state, and what was asked for. `steps` is what the newest container shows at each look."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, str, dict[str, Any], Any]] = []
        self.headers: list[dict[str, str]] = []
        self.projects = [project("prj_one", "main")]
        self.containers: dict[str, dict[str, Any]] = {}
        self.steps: list[dict[str, Any]] = []
        self.keys: list[dict[str, Any]] = []
        self.log_lines: list[dict[str, Any]] = []
        self.event_batches: list[list[str]] = []
        self.invitations: list[dict[str, Any]] = []
        self.device_answers: list[tuple[int, dict[str, Any]]] = []
        self.device_expires_in_s = 600
        self.ready = True
        self.refusals: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
        self.unanswered_gets = 0
        self.files: dict[str, bytes] = {}
        self.unanswered_posts = 0
        """Done, but the connection breaks before the answer."""
        self.done: dict[str, Any] = {}
        """Answers by Idempotency-Key."""
        self.chat_answers: list[tuple[int, str, bytes]] = []
        self.page_size = 200
        self.draft: dict[str, Any] = {}
        self.versions: list[dict[str, Any]] = []
        self.sleeps: list[dict[str, Any]] = []
        self.savings: dict[str, Any] = {}
        self.caches: list[dict[str, Any]] = []
        self.diagnoses: list[dict[str, Any]] = []

    def add_container(self, name: str = "chat", **changes: Any) -> dict[str, Any]:
        made = container(f"ctr_{len(self.containers)}", name, self.url) | changes
        self.containers[made["id"]] = made
        return made

    def asked(self, method: str, path: str) -> list[Any]:
        """The bodies of the requests to this path."""
        return [body for asked, at, _, body in self.requests if (asked, at) == (method, f"/api/v1{path}")]

    def queries(self, path: str) -> list[dict[str, Any]]:
        return [query for _, at, query, _ in self.requests if at == f"/api/v1{path}"]


ORGANIZATION = {"id": "org_one", "name": "ada", "role": "admin", "created_at": CREATED_AT}
MEMBERS = [
    {"user_id": "usr_1", "email": "ada@example.com", "role": "admin", "joined_at": CREATED_AT},
    {"user_id": "usr_2", "email": "bea@example.com", "role": "user", "joined_at": CREATED_AT},
]


def project(project_id: str, name: str) -> dict[str, Any]:
    return {"id": project_id, "organization_id": "org_one", "name": name, "created_at": CREATED_AT}


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
        "env": {"CHAT_TOKEN_DELAY_MS": None},
        "infrastructure": "operator",
        "api_path": "/api/v1",
        "sleep_after_s": None,
        "cache": None,
        "asleep": False,
        "asleep_since": None,
        "woken_at": None,
        "price_per_hour_microusd": 10_000,
        "draft": None,
        "version": 1,
        "rollout": None,
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


@contextmanager
def serving(fake: FakeMoorage) -> Iterator[FakeMoorage]:
    class Bound(_Handler):
        moorage = fake

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    fake.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    moorage: FakeMoorage
    protocol_version = "HTTP/1.1"
    # Headers and body leave together; apart, each answer would wait 40 ms for an acknowledgement.
    wbufsize = 65536

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        if parts.path == "/elsewhere/api/v1/me":
            self._send(200, "text/html", b"<h1>Welcome")
            return
        self.moorage.requests.append((self.command, parts.path, query, body))
        self.moorage.headers.append({name.lower(): value for name, value in self.headers.items()})
        if self.command == "GET" and self.moorage.unanswered_gets > 0:
            self.moorage.unanswered_gets -= 1
            self.close_connection = True
            return
        key = self.headers.get("Idempotency-Key")
        if key in self.moorage.done:
            self._json(*self.moorage.done[key])
            return
        if parts.path.startswith("/c/"):
            self._chat()
        elif parts.path == "/readyz":
            ready = self.moorage.ready
            self._json(200 if ready else 503, {"status": "ready" if ready else "not_ready"})
        else:
            self._route(parts.path.removeprefix("/api/v1"), query, body)

    def _route(self, path: str, query: dict[str, str], body: Any) -> None:
        fake = self.moorage
        if path in fake.files:
            return self._send(200, "application/pdf", fake.files[path])
        refusal = fake.refusals.get((self.command, path))
        if refusal is not None:
            return self._json(refusal[0], {"status": refusal[0], "request_id": "req_1", **refusal[1]})
        match [self.command, *path.strip("/").split("/")]:
            case ["POST", "auth", "email", "start"]:
                return self._json(202, {"message": "A code is on its way."})
            case ["POST", "auth", "email", "verify"] if body["code"] == "123456":
                return self._json(200, {"session_token": SESSION_TOKEN})
            case ["POST", "auth", "link", "verify"] if body["token"] == "moor_link_test":
                return self._json(200, {"session_token": SESSION_TOKEN})
            case ["POST", "auth", "device"]:
                url = f"{fake.url}/device?code=BCDF-GHJK"
                started = {"device_code": "moor_dev_test", "user_code": "BCDF-GHJK", "verification_url": url}
                return self._json(201, {**started, "interval_s": 0, "expires_in_s": fake.device_expires_in_s})
            case ["POST", "auth", "device", "token"] if fake.device_answers:
                return self._json(*fake.device_answers.pop(0))
            case ["POST", "auth", "email" | "link", "verify"]:
                return self._problem(401, "authentication_failed", "The code is wrong or expired.")
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token not in (OPERATOR_KEY, SESSION_TOKEN, MANAGE_KEY):
            return self._problem(401, "authentication_failed", "Sign in.")
        return self._signed_in(path, query, body, token)

    def _signed_in(self, path: str, query: dict[str, str], body: Any, token: str) -> None:
        fake = self.moorage
        match [self.command, *path.strip("/").split("/")]:
            case ["GET", "me"] if token == MANAGE_KEY:
                self._json(200, {"user": None, "project_id": "prj_one", "csrf_token": None})
            case ["GET", "me"]:
                user = {"id": "usr_1", "email": "ada@example.com", "is_operator": token == OPERATOR_KEY}
                self._json(200, {"user": user, "project_id": None, "csrf_token": None})
            case ["POST", "auth", "logout"]:
                self._json(204, None)
            case ["GET", "operator", "status"] if token == OPERATOR_KEY:
                self._json(200, OPERATOR_STATUS)
            case ["GET", "operator", "health"] if token == OPERATOR_KEY:
                self._json(200, OPERATOR_HEALTH)
            case ["GET", "organizations", _, "caches"]:
                self._page(fake.caches, query)
            case ["DELETE", "organizations", _, "caches", cache_id]:
                self._json(202, {"id": cache_id, "deleting": True})
            case ["GET", "templates"]:
                self._page([TEMPLATE], query)
            case ["POST", "projects", _, "models", "resolve"]:
                refused = {"hf:acme/gone": MODEL_REFUSED, "hf:acme/gated": MODEL_GATED}
                self._json(200, refused.get(body["model"], MODEL_PLAN))
            case ["POST", "projects", _, "models", "deploy"]:
                self._json(201, fake.add_container(body.get("name") or "Qwen2.5-7B-Instruct"))
            case ["GET", "projects", _, "containers", "proposal"]:
                self._json(200, {"proposal": PROPOSAL if "vllm" in query["image"] else None})
            case ["GET", "operator", "instance-types", "proposals"]:
                self._json(200, {"items": [TYPE_PROPOSAL], "next_cursor": None})
            case ["POST", "projects", _, "containers", "preflight"]:
                exposed = PROPOSAL | {"port": 8001} if "vllm" in body["image"] else None
                found = {"image": body["image"], "ok": "absent" not in body["image"], "proposal": exposed}
                self._json(200, PREFLIGHT | found)
            case ["POST", "projects", _, "replica-limit-requests"]:
                self._json(201, LIMIT_REQUEST | body)
            case ["GET", "projects", _, "replica-limit-requests"]:
                self._page([LIMIT_REQUEST], query)
            case ["GET", "operator", "replica-limit-requests"]:
                self._page([LIMIT_REQUEST], query)
            case ["POST", "operator", "replica-limit-requests", "rlr_1", "approve" | "refuse" as verb]:
                state = "approved" if verb == "approve" else "refused"
                self._json(200, LIMIT_REQUEST | {"state": state, "current_limit": 40} | body)
            case ["GET", "operator", "machines"]:
                self._page([MACHINE], query)
            case ["POST", "operator", "machines"]:
                command = "f=$(mktemp) && curl … && printf %s moor_join_x | $(command -v sudo) sh $f"
                added = {"id": MACHINE["id"], "token": "moor_join_x", "command": command}
                self._json(201, {**added, "expires_at": "2026-01-02T03:34:05Z"})
            case ["POST", "machines", "mch_1", "command"]:
                added = {"id": MACHINE["id"], "token": "moor_join_y", "command": "curl … moor_join_y"}
                self._json(200, {**added, "expires_at": "2026-01-02T04:04:05Z"})
            case ["GET", "machines", "mch_1"]:
                self._json(200, MACHINE)
            case ["POST", "machines", "mch_1", ("pause" | "resume" | "drain") as verb]:
                states = {"pause": "paused", "resume": "active", "drain": "draining"}
                self._json(200, {**MACHINE, "state": states[verb]})
            case ["DELETE", "machines", "mch_1"]:
                self._json(204, None)
            case ["GET", "operator", "nodes"]:
                self._page([NODE], query)
            case ["GET", "operator", "instance-types"]:
                self._page([one | {"enabled": True} for one in INSTANCE_TYPES], query)
            case ["POST", "operator", "instance-types"]:
                self._json(201, body | {"enabled": True})
            case ["PATCH", "operator", "instance-types", name]:
                self._json(200, {"name": name, "price_per_hour_microusd": 10_000, "enabled": True} | body)
            case ["DELETE", "operator", "instance-types" | "gateways", _]:
                self._json(204, None)
            case ["GET", "operator", "status"]:
                self._problem(403, "forbidden", "Only the operator of this installation can do this.")
            case ["GET", "organizations"]:
                self._page([ORGANIZATION], query)
            case ["POST", "organizations"]:
                self._json(201, {**ORGANIZATION, "id": "org_two", "name": body["name"]})
            case ["GET", "organizations", "org_one", "members"]:
                self._page(MEMBERS, query)
            case ["PATCH", "organizations", "org_one", "members", "usr_2"]:
                self._json(200, {**MEMBERS[1], **body})
            case ["DELETE", "organizations", "org_one", "members", "usr_2"]:
                self._json(200, {"user_id": "usr_2", "revoked_key_ids": ["key_0"]})
            case ["GET", "organizations", "org_one", "invitations"]:
                self._page(fake.invitations, query)
            case ["POST", "organizations", "org_one", "invitations"]:
                made = {"id": "inv_1", "state": "pending", "created_at": CREATED_AT, "expires_at": CREATED_AT}
                fake.invitations.append({**made, **body})
                self._json(201, fake.invitations[-1])
            case ["DELETE", "organizations", "org_one", "invitations", "inv_1"]:
                fake.invitations.clear()
                self._json(204, None)
            case ["DELETE", "projects", project_id]:
                fake.projects = [one for one in fake.projects if one["id"] != project_id]
                self._json(204, None)
            case ["GET", "organizations", "org_one", "projects"]:
                self._page(fake.projects, query)
            case ["POST", "organizations", "org_one", "projects"]:
                fake.projects.append(project("prj_new", body["name"]))
                self._json(201, fake.projects[-1])
            case ["GET", "projects", project_id]:
                self._one([one for one in fake.projects if one["id"] == project_id])
            case ["GET", "projects", _, "containers"]:
                self._page(list(fake.containers.values()), query)
            case ["GET", "projects", _, "logs"]:
                self._page(fake.log_lines[::-1], query)
            case ["POST", "projects", project_id, "containers"]:
                made = fake.add_container(body["name"], project_id=project_id, state="PENDING")
                self._json(201, made)
            case ["GET", "projects", _, "api-keys"]:
                self._page(fake.keys, query)
            case ["POST", "projects", project_id, "api-keys"]:
                key = {
                    "id": f"key_{len(fake.keys)}",
                    "project_id": project_id,
                    "hint": "wxyz",
                    "status": "active",
                    "message": None,
                    "revoked_at": None,
                    "requests_per_minute": None,
                    "last_used_at": None,
                    "last_used_from": None,
                }
                fake.keys.append({**key, "created_at": CREATED_AT, "expires_at": None, **body})
                self._json(201, {**fake.keys[-1], "key": "moor_secret"})
            case ["POST", "api-keys", key_id, "rotate"]:
                old = next(one for one in fake.keys if one["id"] == key_id)
                fake.keys.append({**old, "id": f"key_{len(fake.keys)}", "replaces": key_id})
                self._json(201, {**fake.keys[-1], "key": "moor_rotated"})
            case ["PATCH", "api-keys", key_id]:
                changed = next(one for one in fake.keys if one["id"] == key_id)
                if "disabled" in body:
                    changed["status"] = "disabled" if body["disabled"] else "active"
                changed.update(body)
                self._json(200, changed)
            case ["GET", "api-keys", key_id]:
                self._one([one for one in fake.keys if one["id"] == key_id])
            case ["DELETE", "api-keys", key_id]:
                fake.keys = [one for one in fake.keys if one["id"] != key_id]
                self._json(204, None)
            case ["GET", "requests", "req_seen"]:
                self._json(200, REQUEST)
            case ["GET", "instance-types"]:
                self._page(INSTANCE_TYPES, query)
            case [_, "containers", container_id, *rest]:
                self._container(container_id, rest, query)
            case _:
                self._problem(404, "not_found", "There is nothing at this path.")

    def _container(self, container_id: str, rest: list[str], query: dict[str, str]) -> None:
        fake = self.moorage
        found = fake.containers.get(container_id)
        if found is None:
            return self._problem(404, "not_found", "There is no such container.")
        match [self.command, *rest]:
            case ["GET"]:
                if fake.steps:
                    found.update(fake.steps.pop(0))
                if found["state"] == "GONE":
                    del fake.containers[container_id]
                    return self._problem(404, "not_found", "There is no such container.")
                return self._json(200, found)
            case ["DELETE"]:
                found["state"] = "DELETING"
                return self._json(202, found)
            case ["POST", "start" | "restart" as verb]:
                anything = verb == "restart" or found["state"] != "RUNNING"
                if anything:
                    found.update(state="PENDING", generation=found["generation"] + 1)
                return self._json(202 if anything else 200, found)
            case ["PATCH"]:
                return self._json(200, found)
            case ["GET" | "PUT", "draft"]:
                return self._json(200, fake.draft)
            case ["DELETE", "draft"]:
                return self._json(204, None)
            case ["POST", "draft", "apply"]:
                return self._json(202, found)
            case ["GET", "versions"]:
                return self._json(200, {"items": fake.versions, "next_cursor": None})
            case ["POST", "wake"]:
                anything = bool(found["asleep_since"])
                if anything:
                    found.update(asleep_since=None, woken_at="2026-01-31T12:00:00Z")
                return self._json(202 if anything else 200, found)
            case ["GET", "sleeps"]:
                return self._json(200, {"items": fake.sleeps, "next_cursor": None})
            case ["GET", "savings"]:
                return self._json(200, fake.savings)
            case ["POST", "rollback"] | ["POST", "canary", *_]:
                return self._json(202, found)
            case ["POST", "fix"]:
                found.update(state="PENDING", generation=found["generation"] + 1, fix=None)
                return self._json(202, found)
            case ["POST", "stop"]:
                anything = found["state"] != "STOPPED"
                found["state"] = "STOPPING" if anything else "STOPPED"
                return self._json(202 if anything else 200, found)
            case ["POST", "scale"]:
                found["resources"] = SCALING | {"mode": "autoscaling", "instance_type": "cpu-small"}
                return self._json(202, found)
            case ["POST", "autoscaling", "replay"]:
                return self._json(200, REPLAY)
            case ["GET", "autoscaling"]:
                return self._json(200, {**AUTOSCALING, "next_cursor": None})
            case ["POST", "doctor"]:
                return self._json(202, {"state": "asked"})
            case ["GET", "doctor"]:
                return self._json(200, fake.diagnoses.pop(0))
            case ["GET", "replicas"]:
                return self._page([replica(found["generation"])], query)
            case ["GET", "capsules"]:
                return self._page([CAPSULE] if found["state"] == "FAILED" else [], query)
            case ["GET", "requests"]:
                return self._page([] if query.get("failed") == "true" else [REQUEST_SUMMARY], query)
            case ["GET", "activity"]:
                return self._page(ACTIVITY, query)
            case ["GET", "metrics"]:
                series = {
                    "request_rate": [12.34],
                    "response_time_p50_ms": [41.6],
                    "response_time_p95_ms": [None],
                }
                busy = {"utilization_percent": [87.0], "power_watts": [None]}
                replicas = [
                    {
                        "replica_id": f"rep_{number}",
                        "slot": number,
                        "series": {"cpu_millis": [250.0], "memory_bytes": [3 * 2**20]},
                        "gpus": [{"device_id": f"GPU-{number}", "series": busy}],
                    }
                    for number in range(2)
                ]
                found = {"step_s": 10, "times": [CREATED_AT], "series": series, "replicas": replicas}
                return self._json(200, found)
            case ["GET", "logs"]:
                return self._page(fake.log_lines[::-1], query)
            case ["GET", "logs", "stream"]:
                return self._events()
        return self._problem(404, "not_found", "There is nothing at this path.")

    def _events(self) -> None:
        """One batch for each connection; then it ends, and after the last batch the container is gone."""
        fake = self.moorage
        if not fake.event_batches:
            return self._problem(404, "not_found", "There is no such container.")
        text = ": lines as they arrive\nretry: 1000\n\n" + "".join(fake.event_batches.pop(0))
        return self._send(200, "text/event-stream", text.encode())

    def _chat(self) -> None:
        status, kind, content = self.moorage.chat_answers.pop(0)
        self._send(status, kind, content, {"X-Request-ID": "req_chat"})

    def _page(self, items: list[dict[str, Any]], query: dict[str, str]) -> None:
        start = int(query.get("cursor", 0))
        end = start + min(int(query.get("limit", 50)), self.moorage.page_size)
        self._json(200, {"items": items[start:end], "next_cursor": str(end) if end < len(items) else None})

    def _one(self, found: list[dict[str, Any]]) -> None:
        if found:
            self._json(200, found[0])
        else:
            self._problem(404, "not_found", "There is no such thing.")

    def _problem(self, status: int, code: str, detail: str) -> None:
        self._json(status, {"status": status, "code": code, "detail": detail, "request_id": "req_1"})

    def _json(self, status: int, body: Any) -> None:
        key = self.headers.get("Idempotency-Key")
        if key is not None:
            self.moorage.done[key] = status, body
        if self.command == "POST" and self.moorage.unanswered_posts > 0:
            self.moorage.unanswered_posts -= 1
            self.close_connection = True
            return
        self._send(status, "application/json", b"" if body is None else json.dumps(body).encode())

    def _send(self, status: int, kind: str, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def replica(generation: int) -> dict[str, Any]:
    return {
        "id": "rep_abcdef",
        "slot": 0,
        "generation": generation,
        "state": "routed",
        "node": "local",
        "created_at": CREATED_AT,
        "started_at": CREATED_AT,
        "ready_at": CREATED_AT,
        "ended_at": None,
        "exit_code": None,
        "reason": None,
        "message": None,
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
INSTANCE_TYPES = [
    {"name": "cpu-small", "gpu_model": None, "gpu_count": 0, "vcpu_millis": 500, "memory_bytes": 2**29}
    | {"disk_bytes": 2**33, "price_per_hour_microusd": 10_000, "infrastructure": "operator"}
    | {"available": True, "free": 3, "unavailable_reason": None},
    {"name": "h200-141gb", "gpu_model": "NVIDIA H200", "gpu_count": 1, "vcpu_millis": 16000}
    | {"memory_bytes": 180 * 2**30, "disk_bytes": 2**33, "price_per_hour_microusd": 4_990_000}
    | {"infrastructure": "operator", "available": False, "free": 0, "unavailable_reason": "no such GPU"},
]
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
