"""A project in which something of everything happens: for the pictures, and for tests of every page."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.browser.capsules import ENDED_MINUTES_AGO, LOOPBACK, OUT_OF_MEMORY, add_capsule
from tests.browser.deliveries import settle_deliveries
from tests.browser.fleet import Machine, add_machines, count_replicas, gpus_of
from tests.browser.history import add_history
from tests.browser.lending import EARNED_MICROUSD, add_earnings, add_lent_machines
from tests.browser.money import Slot, add_money
from tests.browser.people import (
    add_keys,
    add_people,
    add_webhooks,
    ask_for_payout,
    note_uses,
    sign_in,
    then,
)
from tests.browser.requests import NO_REQUESTS, Requests, add_requests
from tests.browser.versions import add_versions
from tests.browser.world import Past, Placed, World
from tests.database.api_support import Home

INFO = "\x1b[32mINFO\x1b[0m"
REQUEST = (
    f'{INFO} 10.88.0.1:51422 - \x1b[34m"POST /api/v1/chat/completions HTTP/1.1"\x1b[0m \x1b[32m200 OK\x1b[0m'
)
CHAT_LINES = [
    f"{INFO} Started server process [1]",
    f"{INFO} Application startup complete.",
    f"{INFO} Uvicorn running on \x1b[1mhttp://0.0.0.0:8000\x1b[0m (Press CTRL+C to quit)",
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
    # Minutes ago.
    (30.19, f"{INFO}: Started server process [1]"),
    (30.18, f"{INFO}: Waiting for application startup."),
    (29.85, "model large-v3 loaded in 18.4 s (cuda:0, float16)"),
    (29.8, f"{INFO}: Application startup complete."),
    (29.8, f"{INFO}: Uvicorn running on \x1b[1mhttp://127.0.0.1:8000\x1b[0m (Press CTRL+C to quit)"),
    (ENDED_MINUTES_AGO, f"{INFO}: Shutting down"),
]
BEGAN = timedelta(days=27, hours=2)
CHAT_SINCE = timedelta(days=26, hours=23, minutes=33)
EVALUATED = timedelta(days=9, minutes=14), timedelta(days=2, minutes=14)
"""The one that is stopped: from when to when."""
DRAINED_SINCE = timedelta(hours=29, minutes=58)
SECOND_VERSION_AGO, THIRD_VERSION_AGO = timedelta(days=5, hours=2, minutes=26), timedelta(hours=3, minutes=9)
SERVED_BY_THE_HOUR = {
    "kokoro-tts": (timedelta(days=20, minutes=23), "gpu-node-05"),
    "bge-reranker-v2": (timedelta(days=13, minutes=41), "rack-2"),
    "bge-m3-embeddings": (timedelta(days=6, minutes=7), "rack-3"),
}
"""With one replica: since when, and where."""


@dataclass(frozen=True)
class Scene:
    home: Home
    running: str
    failed: str
    pulling: str
    starting: str
    stopped: str
    painted_at: datetime
    """All that happened in it is so long before this."""
    invitation: str = ""
    """The token of one to another organization, for the same person, who also runs the installation."""
    requests: Requests = NO_REQUESTS

    @property
    def project(self) -> str:
        return f"/projects/{self.home.project_id}"


def paint(world: World) -> Scene:
    now = world.now()
    machines = add_machines(world, now - timedelta(days=40))
    with world.at(now - BEGAN):
        home = world.home("mara@northwind.example", "Northwind AI", "production")
        other = world.home("lea@harbour.example", "Harbour Labs", "research")
    webhooks = add_webhooks(world, home)
    keys = add_keys(world, home)
    stopped = _stopped(world, home, machines)
    failed = _failed(world, home, machines)
    draining = _draining(world, home, machines)
    world.container(
        home,
        "qwen2.5-72b-instruct",
        "PENDING",
        desired_replicas=2,
        reason="no_capacity",
        message="Waits for NVIDIA H200: no machine of this installation has one. Choose another instance type, or ask the operator.",
        past=[("PENDING", now - timedelta(minutes=18))],
        settings={"instance_type": "h200-141gb", "image": "ghcr.io/northwind/vllm-qwen:0.7.0"},
    )
    starting = _starting(world, home, machines["gpu-node-03"])
    pulling = _pulling(world, home)
    served = {
        name: _served_by_the_hour(world, home, name, ago, machines[machine])
        for name, (ago, machine) in SERVED_BY_THE_HOUR.items()
    }
    running = _running(world, home, machines["gpu-node-03"], list(keys.values())[:: len(keys) - 1])
    requests = add_requests(world, home, running, keys["mobile-app"], machines["gpu-node-05"])
    _, invitation = world.do(world.api.new_invitation(other.organization_id, "mara@northwind.example"))
    lent = world.do(add_lent_machines(world.api, home.organization_id, now))
    add_people(world, home, webhooks, lent["shed-t4"])
    for machine, hours, days_ago in (("harbour-01", 264, 7), ("harbour-01", 168, 0), ("lab-l40s", 160, 0)):
        world.do(
            add_earnings(
                world.api,
                home.organization_id,
                lent[machine],
                hours=hours,
                days_ago=days_ago,
                are_held=days_ago == 0,
            )
        )
    world.do(add_earnings(world.api, other.organization_id, "mch_elsewhere", hours=40, days_ago=7))
    world.do(ask_for_payout(world.api, other.organization_id, 40 * EARNED_MICROUSD))
    slots = [Slot(served[name], now - ago) for name, (ago, _) in SERVED_BY_THE_HOUR.items()]
    slots += [
        Slot(running, now - CHAT_SINCE),
        Slot(running, now - CHAT_SINCE + timedelta(minutes=25), slot=1, by_day=True),
        Slot(running, now - timedelta(minutes=45), slot=2),
        Slot(running, now - timedelta(minutes=35), slot=3),
        Slot(draining, now - DRAINED_SINCE),
        Slot(stopped, now - EVALUATED[0], until=now - EVALUATED[1]),
        Slot(failed, now - timedelta(minutes=93), until=now - timedelta(minutes=70)),
    ]
    world.do(add_money(world.api, home, slots, now))
    note_uses(world, home)
    count_replicas(world, machines)
    world.do(settle_deliveries(world.api, webhooks.served, webhooks.gone, now))
    sign_in(world, home)
    return Scene(home, running, failed, pulling, starting, stopped, now, invitation, requests)


def _stopped(world: World, home: Home, machines: dict[str, Machine]) -> str:
    began, ended = (world.now() - ago for ago in EVALUATED)
    stopped = world.container(
        home,
        "mistral-nemo-eval",
        "STOPPED",
        reason="stopped_by_user",
        message="Stopped.",
        past=[
            *_started(began),
            ("STOPPING", ended),
            ("STOPPED", ended + timedelta(seconds=9)),
        ],
        settings={
            "image": "ghcr.io/northwind/mistral:1",
            "registry_provider": "github",
            "instance_type": "l40s-48gb",
            "cache_gib": 34,
        },
    )
    engine, name = machines["gpu-node-03"]
    world.do(world.api.new_cache(stopped, name, engine=engine, size_bytes=int(26.4 * 2**30)))
    return stopped


def _failed(world: World, home: Home, machines: dict[str, Machine]) -> str:
    """It ran out of memory, was given another image, and that one listens where nobody reaches it."""
    now = world.now()

    def ago(minutes: float) -> timedelta:
        return timedelta(minutes=minutes)

    began, ended = now - ago(30.2), now - ago(ENDED_MINUTES_AGO)
    machine = machines["gpu-node-05"]
    failed = world.container(
        home,
        "whisper-large-v3",
        "FAILED",
        reason="listens_on_loopback_only",
        message=LOOPBACK["message"],
        generation=3,
        failed_generation=3,
        past=[
            *(
                (state, now - ago(minutes))
                for state, minutes in (("PENDING", 97), ("PULLING", 96.9), ("STARTING", 94.5))
            ),
            ("RUNNING", now - ago(93)),
            ("FAILED", now - ago(70)),
            ("PENDING", now - ago(32)),
            ("PULLING", now - ago(31.9)),
            ("STARTING", began),
            ("FAILED", ended),
        ],
        replicas=[Placed(began, machine, state="removed", ended=ended)],
        settings={
            "image": "ghcr.io/northwind/whisper:3",
            "registry_provider": "github",
            "instance_type": "l4-24gb",
            "start_command": "uvicorn app:api --host 127.0.0.1 --port 8000",
            "port": 8000,
            "health_path": "/health",
        },
        logs=[(now - ago(minutes), line) for minutes, line in LOOPBACK_LINES],
    )
    world.do(
        world.api.execute(
            "UPDATE replicas SET ready_at = NULL, routed_at = NULL WHERE container_id = :id", id=failed
        )
    )
    for content in (OUT_OF_MEMORY, LOOPBACK):
        world.do(add_capsule(world.api, failed, content, now))
    return failed


def _draining(world: World, home: Home, machines: dict[str, Machine]) -> str:
    began, stopping = world.now() - DRAINED_SINCE, world.now() - timedelta(seconds=20)
    return world.container(
        home,
        "gemma-2-9b-ab",
        "STOPPING",
        message="Drains its requests.",
        desired_state="stopped",
        past=[*_started(began), ("STOPPING", stopping)],
        replicas=[Placed(began, machines["gpu-node-05"], gpus_of("gpu-node-05", 2)[1:], state="draining")],
        settings={"instance_type": "l4-24gb", "image": "ghcr.io/northwind/vllm-gemma:0.6.3"},
    )


def _starting(world: World, home: Home, machine: Machine) -> str:
    """Two replicas on one machine: the first fills its cache, the other waits for that."""
    now = world.now()
    began = now - timedelta(seconds=44)
    downloads = {"step": "download", "cache_bytes": 9_300_000_000, "bytes_per_s": 212_000_000, "waiting": 1}
    started = {"phase": "start", "started_at": began.isoformat(), "limit_s": 300}
    return world.container(
        home,
        "flux-schnell",
        "STARTING",
        desired_replicas=2,
        progress=started | downloads,
        past=[
            ("PENDING", now - timedelta(seconds=131)),
            ("PULLING", now - timedelta(seconds=130)),
            ("STARTING", began),
        ],
        replicas=[
            Placed(began, machine, gpus_of("gpu-node-03", 3)[2:], state="starting"),
            Placed(began, machine, gpus_of("gpu-node-03", 4)[3:], slot=1, state="requested"),
        ],
        settings={
            "instance_type": "l40s-48gb",
            "image": "ghcr.io/northwind/flux:1.4",
            "category": "Image",
            "min_replicas": 2,
            "max_replicas": 2,
            "cache_gib": 40,
        },
    )


def _pulling(world: World, home: Home) -> str:
    now = world.now()
    return world.container(
        home,
        "sdxl-turbo",
        "PULLING",
        progress={"phase": "pull", "done_bytes": 5_100_000_000, "total_bytes": 8_200_000_000},
        past=[("PENDING", now - timedelta(seconds=96)), ("PULLING", now - timedelta(seconds=95))],
        settings={"instance_type": "l4-24gb", "image": "ghcr.io/northwind/sdxl:2", "category": "Image"},
    )


def _served_by_the_hour(world: World, home: Home, name: str, ago: timedelta, machine: Machine) -> str:
    since = world.now() - ago
    return world.container(
        home,
        name,
        "RUNNING",
        past=_started(since),
        replicas=[Placed(since, machine, gpus_of(machine[1], 1))],
        serving_generation=1,
        settings={"instance_type": "l4-24gb", "image": f"ghcr.io/northwind/{name.rpartition('-')[0]}:2"},
    )


def _running(world: World, home: Home, machine: Machine, key_ids: list[str]) -> str:
    now = world.now()
    first, second = gpus_of("gpu-node-03", 2)
    running = world.container(
        home,
        "llama-3.1-8b-chat",
        "RUNNING",
        desired_replicas=2,
        serving_generation=1,
        image_digest=f"sha256:9c41{'0' * 56}e07b",
        past=_started(now - CHAT_SINCE),
        replicas=[
            Placed(now - SECOND_VERSION_AGO, machine, (first,), version=2),
            Placed(now - timedelta(hours=7.5), machine, (second,), slot=1, version=2),
        ],
        settings={
            "image": "ghcr.io/northwind/vllm-llama:0.6.3",
            "registry_provider": "github",
            "instance_type": "l40s-48gb",
            "resource_mode": "autoscaling",
            "min_replicas": 1,
            "max_replicas": 4,
            "port": 8000,
            "health_path": "/health",
            "category": "Chat",
            "environment_names": ["HF_TOKEN", "TOKEN"],
            "plain_environment": {"LOG_LEVEL": "info", "VLLM_MAX_LEN": "8192"},
        },
        logs=CHAT_LINES,
    )
    ago = {"first": CHAT_SINCE, "second": SECOND_VERSION_AGO, "third": THIRD_VERSION_AGO}
    world.do(add_versions(world.api, running, home.user_id, now, **ago))
    world.do(add_history(world.api, running, now, machine=machine, key_ids=key_ids))
    staged = {
        "image": "ghcr.io/northwind/vllm-llama:0.7.0",
        "registry": {"provider": "github"},
        "start_command": "vllm serve --max-model-len 16384",
    }
    with then(world, home, now - timedelta(minutes=41)):
        world.do(world.api.ask(home.admin, "PUT", f"/api/v1/containers/{running}/draft", json=staged))
    return running


def _started(at: datetime) -> Past:
    """A start with an image that has to be fetched, up to the first answer."""
    after = {"PENDING": 0, "PULLING": 1, "STARTING": 74, "RUNNING": 116}
    return [(state, at + timedelta(seconds=seconds - 116)) for state, seconds in after.items()]
