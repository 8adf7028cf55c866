"""A project in which something of everything happens: for the pictures, and for tests of every page."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from moorage.kit.clock import system_clock
from moorage.kit.ids import new_audit_record_id
from moorage.machines.states import MachineState
from moorage.machines.words import sentence
from tests.browser.capsules import LOOPBACK, OUT_OF_MEMORY, add_capsule
from tests.browser.history import add_history
from tests.browser.lending import add_earnings, add_lent_machines
from tests.browser.money import add_money
from tests.browser.requests import NO_REQUESTS, Requests, add_requests
from tests.browser.versions import add_versions
from tests.browser.world import World
from tests.database.api_support import Api, Home

INFO = "\x1b[32mINFO\x1b[0m"
REQUEST = (
    f'{INFO} 10.88.0.1:51422 - \x1b[34m"POST /api/v1/chat/completions HTTP/1.1"\x1b[0m \x1b[32m200 OK\x1b[0m'
)
CHAT_LINES = [
    f"{INFO} Started server process [1]",
    f"{INFO} Application startup complete.",
    f"{INFO} Uvicorn running on \x1b[1mhttp://0.0.0.0:8080\x1b[0m (Press CTRL+C to quit)",
    *(
        line
        for turn in range(60)
        for line in (
            REQUEST,
            f"{INFO} Avg prompt throughput: \x1b[1m1,{100 + turn}.6\x1b[0m tok/s, running: 3, waiting: 0, KV cache: 41.7 %",
            REQUEST,
            f"\x1b[33mWARN\x1b[0m Request {turn:08x} reached max_tokens=2048, finish_reason=\x1b[33mlength\x1b[0m"
            if turn % 3 == 0
            else REQUEST,
            f"\x1b[31mERROR\x1b[0m Request {turn:08x}: \x1b[31mValueError\x1b[0m: maximum context length is 8192 tokens, got 9114"
            if turn % 7 == 0
            else f"{INFO} Prefix cache hit rate: GPU \x1b[32m61.3 %\x1b[0m, CPU 0.0 %",
        )
    ),
]
LOOPBACK_LINES = [
    f"{INFO}: Started server process [1]",
    f"{INFO}: Waiting for application startup.",
    "model large-v3 loaded in 18.4 s (cuda:0, float16)",
    f"{INFO}: Application startup complete.",
    f"{INFO}: Uvicorn running on \x1b[1mhttp://127.0.0.1:8000\x1b[0m (Press CTRL+C to quit)",
    f"{INFO}: Shutting down",
]


@dataclass(frozen=True)
class Scene:
    home: Home
    running: str
    failed: str
    pulling: str
    starting: str
    stopped: str
    invitation: str = ""
    """The token of one to another organization, for the same person, who also runs the installation."""
    requests: Requests = NO_REQUESTS

    @property
    def project(self) -> str:
        return f"/projects/{self.home.project_id}"


def paint(world: World) -> Scene:
    now = system_clock.now()
    world.do(_machines(world.api))
    world.do(_machines_that_joined(world.api, now))
    home = world.home("mara@northwind.example", "Northwind AI", "production")
    stopped = world.container(
        home,
        "mistral-nemo-eval",
        "STOPPED",
        reason="stopped_by_user",
        message="Stopped.",
        settings={"image": "ghcr.io/northwind/mistral:1", "registry_provider": "github", "cache_gib": 34},
    )
    world.do(world.api.new_cache(stopped, "gpu-node-03", size_bytes=int(26.4 * 2**30)))
    failed = world.container(
        home,
        "whisper-large-v3",
        "FAILED",
        reason="listens_on_loopback_only",
        message="Listens on 127.0.0.1:8000; expected 0.0.0.0:8080. Bind to 0.0.0.0 inside the container.",
        state_since=now - timedelta(minutes=25),
        settings={
            "start_command": "uvicorn app:api --host 127.0.0.1 --port 8000",
            "port": 8080,
            "health_path": "/health",
        },
        logs=LOOPBACK_LINES,
    )
    world.container(home, "gemma-2-9b-ab", "STOPPING", ready=1, message="Drains its requests.")
    world.container(
        home,
        "qwen2.5-72b-instruct",
        "PENDING",
        desired_replicas=2,
        reason="no_capacity",
        message="Waits for an H200.",
    )
    downloads = {"step": "download", "cache_bytes": 9_300_000_000, "bytes_per_s": 212_000_000, "waiting": 1}
    started = {"phase": "start", "started_at": (now - timedelta(seconds=42)).isoformat(), "limit_s": 300}
    starting = world.container(
        home,
        "flux-schnell",
        "STARTING",
        desired_replicas=2,
        progress=started | downloads,
        state_since=now - timedelta(seconds=42),
        settings={"cache_gib": 40},
    )
    pulled = {"phase": "pull", "done_bytes": 5_100_000_000, "total_bytes": 8_200_000_000}
    pulling = world.container(
        home, "sdxl-turbo", "PULLING", progress=pulled, state_since=now - timedelta(seconds=95)
    )
    for name in ("kokoro-tts", "bge-reranker-v2", "bge-m3-embeddings"):
        world.container(home, name, "RUNNING", ready=1, settings={"instance_type": "l4-24gb"})
    running = world.container(
        home,
        "llama-3.1-8b-chat",
        "RUNNING",
        ready=2,
        desired_replicas=2,
        serving_generation=1,
        image_digest=f"sha256:9c41{'0' * 56}e07b",
        settings={
            "image": "ghcr.io/northwind/vllm-llama:0.6.3",
            "registry_provider": "github",
            "instance_type": "l40s-48gb",
            "resource_mode": "autoscaling",
            "min_replicas": 1,
            "max_replicas": 4,
            "port": 8080,
            "health_path": "/health",
            "category": "Chat",
            "environment_names": ["HF_TOKEN"],
            "plain_environment": {"LOG_LEVEL": "info", "VLLM_MAX_LEN": "8192"},
        },
        logs=CHAT_LINES,
    )
    world.do(add_history(world.api, running, now))
    world.do(add_versions(world.api, running, home.user_id))
    staged = {
        "image": "ghcr.io/northwind/vllm-llama:0.7.0",
        "registry": {"provider": "github"},
        "start_command": "vllm serve --max-model-len 16384",
    }
    world.do(world.api.ask(home.admin, "PUT", f"/api/v1/containers/{running}/draft", json=staged))
    for content in (OUT_OF_MEMORY, LOOPBACK):
        world.do(add_capsule(world.api, failed, content, now))
    world.do(_people_and_keys(world.api, home))
    world.do(add_money(world.api, home))
    requests = add_requests(world, home, running, now)
    other = world.home("lea@harbour.example", "Harbour Labs", "research")
    _, invitation = world.do(world.api.new_invitation(other.organization_id, "mara@northwind.example"))
    lent = world.do(add_lent_machines(world.api, home.organization_id, now))
    world.do(add_earnings(world.api, home.organization_id, lent["harbour-01"], hours=533))
    world.do(add_earnings(world.api, home.organization_id, lent["lab-l40s"], hours=260, are_held=True))
    world.do(add_earnings(world.api, other.organization_id, "mch_elsewhere", hours=40))
    world.do(world.api.new_payout(other.organization_id))
    world.do(_what_people_are_told(world.api, home, failed))
    return Scene(home, running, failed, pulling, starting, stopped, invitation, requests)


async def _machines(api: Api) -> None:
    """Two with GPUs beside the one that every world has. Nobody describes them again, so they are seen ahead of time."""
    for name, model, count, gib in (
        ("gpu-node-03", "NVIDIA L40S", 8, 48),
        ("gpu-node-05", "NVIDIA L4", 4, 24),
    ):
        gpus = [
            {"device_id": f"GPU-{name}-{number}", "model": model, "memory_bytes": gib * 2**30}
            for number in range(count)
        ]
        await api.execute(
            "INSERT INTO nodes (name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, gpu_driver, "
            "cuda_version, seen_at) VALUES (:name, 'operator', 'amd64', 128000, :memory, CAST(:gpus AS jsonb), "
            "'580.95', '13.0', now() + interval '1 hour')",
            name=name,
            memory=1024 * 2**30,
            gpus=json.dumps(gpus),
        )


async def _machines_that_joined(api: Api, now: datetime) -> None:
    """One in each state."""
    hub = await api.new_hub()
    long_ago, lately = now - timedelta(days=9), now - timedelta(minutes=12)
    ahead = now + timedelta(hours=1)
    for name, state, changes in (
        ("rack-1", "active", {"replicas": 6, "seen_at": ahead}),
        ("rack-2", "paused", {"replicas": 2, "seen_at": ahead}),
        ("rack-3", "draining", {"replicas": 3, "seen_at": ahead, "state_since": lately}),
        (
            "rack-4",
            "lost",
            {"replicas": 1, "seen_at": lately, "state_since": lately, "state_before_loss": "active"},
        ),
    ):
        values = {"state_since": long_ago, "message": sentence(MachineState(state)), **changes}
        machine_id = await api.new_machine(state, name=name, facts={"gpus": ["NVIDIA L4"]}, **values)
        await api.execute(
            "INSERT INTO nodes (engine, name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, seen_at, ready, "
            "cordoned_at) VALUES (:id, :name, 'operator', 'amd64', 16000, 68719476736, '[]', now() + interval '1 hour', "
            ":ready, CASE WHEN :open THEN NULL ELSE now() END)",
            id=machine_id,
            name=name,
            ready=state != "lost",
            open=state == "active",
        )
    waiting = {
        "address": None,
        "port": None,
        "public_key": None,
        "sealed_credential": None,
        "secret_hash": None,
    }
    machine_id = await api.new_machine("joining", **waiting, name="rack-5", joined_at=None)
    await api.execute(
        "INSERT INTO machine_join_tokens (token_hash, machine_id, expires_at) "
        "VALUES ('\\x00', :id, now() + interval '20 minutes')",
        id=machine_id,
    )
    # Nobody looks after it here.
    await api.execute("UPDATE tunnel_hubs SET seen_at = :ahead WHERE id = :id", ahead=ahead, id=hub.hub_id)


async def _people_and_keys(api: Api, home: Home) -> None:
    keys = f"/projects/{home.project_id}/api-keys"
    for name, scope in (("chat-frontend", "inference"), ("ci-deploys", "manage"), ("load-test", "inference")):
        wanted = {"name": name, "scope": scope, "requests_per_minute": 1200 if name == "load-test" else None}
        made = (await api.post(home.admin, keys, wanted)).json()
    await api.ask(home.admin, "PATCH", f"/api/v1/api-keys/{made['id']}", json={"disabled": True})
    frontend = "FROM api_keys WHERE name = 'chat-frontend' AND project_id = :project"
    await api.execute(
        "INSERT INTO api_key_uses (key_id, last_used_at, last_used_from) "
        f"SELECT id, now() - interval '4 minutes', '203.0.113.7' {frontend}",
        project=home.project_id,
    )
    ines, _ = await api.new_person("ines@northwind.example")
    await api.join(home.organization_id, ines)
    organization = f"/organizations/{home.organization_id}"
    await api.post(home.admin, f"{organization}/invitations", {"email": "otto@northwind.example"})
    credit = {"organization_id": home.organization_id, "amount_microusd": 200_000_000, "reason": "A trial"}
    await api.post(api.operator, "/operator/credits", credit)
    transfer = {"method": "bank_transfer", "amount_microusd": 500_000_000, "transfer": "local"}
    await api.post(home.admin, f"{organization}/billing/top-ups", transfer)
    more = {"replicas": 60, "note": "Launch day: four times the usual traffic."}
    await api.post(home.admin, f"/projects/{home.project_id}/replica-limit-requests", more)
    await api.new_webhook(home.organization_id, "https://hooks.northwind.example/moorage")
    await api.execute(
        "UPDATE sessions SET client = :client WHERE user_id = :id",
        client="Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        id=home.user_id,
    )
    await api.execute("UPDATE users SET is_operator = true WHERE id = :id", id=home.user_id)


async def _what_people_are_told(api: Api, home: Home, failed: str) -> None:
    """Some of it since they last looked."""
    await api.execute(
        "UPDATE activities SET at = now() - interval '25 minutes', message = (SELECT message FROM containers WHERE id = :id) "
        "WHERE container_id = :id AND details->>'to' = 'FAILED'",
        id=failed,
    )
    for action, hours_ago, details in (
        ("billing.low_credit", 0, {"hours": 24, "available_microusd": 31_400_000}),
        ("invitation.accept", 2, {"email": "ines@northwind.example"}),
        (
            "billing.spending_alert",
            20,
            {"percent": 80, "spent_microusd": 400_000_000, "limit_microusd": 500_000_000},
        ),
        ("webhook.disable", 30, {"reason": "its receiver answered 410"}),
    ):
        await api.execute(
            "INSERT INTO audit_records (id, organization_id, at, actor, action, target, details) VALUES "
            "(:id, :organization_id, now() - :ago * interval '1 hour', 'system', :action, :organization_id, "
            "CAST(:details AS jsonb))",
            id=new_audit_record_id(),
            organization_id=home.organization_id,
            ago=hours_ago,
            action=action,
            details=json.dumps(details),
        )
    await api.execute(
        "UPDATE organization_members SET joined_at = now() - interval '40 days', "
        "notifications_read_until = now() - interval '1 hour' WHERE user_id = :id",
        id=home.user_id,
    )
