"""Images and settings that cannot work, and what Moorage has to say about each."""

import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.acceptance.stack import Deployed
from tests.registry.conftest import PASSWORD, USERNAME

HEALTH_TIMEOUT_S = 10
PROBE_TIMEOUT_S = 5
LARGER = {"mode": "general", "instance_type": "cpu-medium"}
# Its main thread fails, and then waits for the others, which sleep: the process lives on and listens nowhere.
THREAD_BOMB = (
    "import threading, time; [threading.Thread(target=time.sleep, args=(99,)).start() for _ in range(5000)]"
)


@dataclass(frozen=True)
class Expected:
    """What is to be seen, and since when it could be known: so many seconds after the container was asked for, its
    process had started or had ended."""

    state: str
    reason: str | None
    words: str
    since: str
    after_s: float = 0.0


@dataclass
class Case:
    name: str
    settings: dict[str, Any]
    expected: list[Expected]
    deployed: Deployed | None = None
    asked_at: float = 0.0
    measured: list[tuple[Expected, float]] = field(default_factory=list)

    @property
    def hours(self) -> int:
        """Only what served costs anything, and no test lasts longer than its first hour."""
        return int(any(wanted.state == "RUNNING" for wanted in self.expected))

    def look(self, found: dict[str, Any]) -> None:
        """Compare with what is expected next; note how long after it could be known."""
        if len(self.measured) == len(self.expected):
            return
        wanted = self.expected[len(self.measured)]
        if (found["state"], found["reason"]) == (wanted.state, wanted.reason):
            assert wanted.words in (found["message"] or ""), f"{self.name}: {found['message']}"
            self.measured.append((wanted, time.time() - self._knowable_at(wanted)))
            return
        wrong = found["state"] == "FAILED" or (found["state"] == "RUNNING" and not self.measured)
        assert not wrong, f"{self.name}: {found['state']} {found['reason']}: {found['message']}"

    def _knowable_at(self, wanted: Expected) -> float:
        if wanted.since == "asked":
            return self.asked_at + wanted.after_s
        assert self.deployed is not None
        answer = self.deployed.owner.api.get(f"/containers/{self.deployed.id}/replicas")
        # The newest comes first. A restart may be under way already: then the one that ended is meant.
        times = [row[f"{wanted.since}_at"] for row in answer.json()["items"] if row[f"{wanted.since}_at"]]
        return datetime.fromisoformat(times[0]).timestamp() + wanted.after_s


def while_starting(reason: str, words: str, after_s: float = 0.0) -> list[Expected]:
    """First said while it starts, then as the reason of its end when its time is over."""
    return [
        Expected("STARTING", reason, words, "started", after_s),
        Expected("FAILED", reason, words, "started", HEALTH_TIMEOUT_S),
    ]


def fails(reason: str, words: str, since: str = "ended") -> list[Expected]:
    return [Expected("FAILED", reason, words, since)]


def chat(
    *, health_path: str = "/health", timeout_s: int = HEALTH_TIMEOUT_S, **settings: Any
) -> dict[str, Any]:
    return {"health_check": {"path": health_path, "timeout_s": timeout_s}, **settings}


def shell(script: str, **settings: Any) -> dict[str, Any]:
    return chat(start_command=f"/bin/busybox sh -c '{script}'", **settings)


def batches(registry: str, dead: str) -> list[list[Case]]:
    """Side by side as far as the machine allows: what waits for its health timeout costs nothing meanwhile."""

    def pulled(image: str, **credentials: str) -> dict[str, Any]:
        return chat(image=image, registry={"provider": "other", **credentials})

    login = {"username": USERNAME, "password": PASSWORD}
    crash = Expected("STARTING", "exited", "exit code 7", "ended")
    return [
        [
            Case(
                "missing image",
                pulled(f"{registry}/team/absent:1", **login),
                fails("image_not_found", "team/absent:1", "asked"),
            ),
            Case(
                "missing tag",
                pulled(f"{registry}/team/serve:2", **login),
                fails("image_not_found", "team/serve:2", "asked"),
            ),
            Case(
                "bad credentials",
                pulled(f"{registry}/team/serve:1", username=USERNAME, password="wrong"),
                fails("registry_auth_failed", "refused the username and password", "asked"),
            ),
            Case(
                "no credentials",
                pulled(f"{registry}/team/serve:1"),
                fails("registry_auth_failed", "give username and password", "asked"),
            ),
            Case(
                "registry down",
                pulled(f"{dead}/team/serve:1"),
                fails("registry_unreachable", "cannot be checked", "asked"),
            ),
            Case(
                "wrong architecture",
                pulled(f"{registry}/team/foreign:1", **login),
                fails("image_architecture_mismatch", "linux/s390x", "asked"),
            ),
            Case(
                "no local image",
                chat(image="local/absent:1"),
                fails("image_not_found", "local/absent:1", "asked"),
            ),
            Case(
                "no program",
                pulled(f"{registry}/team/serve:1", **login),
                fails("start_command_not_found", "cannot run on this machine"),
            ),
            Case(
                "missing command",
                chat(start_command="/usr/bin/absent --serve"),
                fails("start_command_not_found", "'/usr/bin/absent' was not found"),
            ),
        ],
        [
            Case(
                "wrong port",
                chat(port=9000, env={"PORT": "8000"}),
                while_starting("listens_on_other_port", "Listens on 0.0.0.0:8000; expected 0.0.0.0:9000"),
            ),
            Case(
                "loopback bind",
                chat(env={"CHAT_BIND": "127.0.0.1"}),
                while_starting(
                    "listens_on_loopback_only", "Listens on 127.0.0.1:8000; expected 0.0.0.0:8000"
                ),
            ),
            Case(
                "health 404",
                chat(health_path="/absent"),
                while_starting("health_check_status", "GET /absent answered 404"),
            ),
            Case(
                "health 500",
                chat(env={"CHAT_HEALTH_STATUS": "500"}),
                while_starting("health_check_status", "GET /health answered 500"),
            ),
            Case(
                "health hangs",
                chat(env={"CHAT_HEALTH_HANG": "1"}),
                while_starting("health_check_timeout", "was not answered within", PROBE_TIMEOUT_S),
            ),
            Case(
                "slow beyond the timeout",
                chat(env={"CHAT_START_DELAY_S": "60"}),
                while_starting("port_not_listening", "Nothing listens on port 8000"),
            ),
            Case(
                "crash after 40 s",
                chat(env={"CHAT_CRASH": "40", "CHAT_EXIT_CODE": "7"}),
                [Expected("RUNNING", None, "", "started"), crash],
            ),
            Case(
                "unready crash after 20 s",
                shell("sleep 20; exit 7", timeout_s=40),
                [
                    Expected("STARTING", "port_not_listening", "Nothing listens on port 8000", "started"),
                    *fails("exited", "exit code 7"),
                ],
            ),
            Case(
                "slow within the timeout",
                chat(env={"CHAT_START_DELAY_S": "8"}, timeout_s=30),
                [
                    Expected("STARTING", "port_not_listening", "it has 30 s from its start", "started"),
                    Expected("RUNNING", None, "", "started", 8),
                ],
            ),
        ],
        [
            Case(
                "crash at start",
                chat(env={"CHAT_CRASH": "at-start", "CHAT_EXIT_CODE": "7"}),
                fails("exited", "exit code 7"),
            ),
            Case(
                "out of memory",
                chat(env={"CHAT_MEMORY_HOG_MB": "400"}),
                fails("out_of_memory", "more than its 0.25 GiB"),
            ),
            Case(
                "fork bomb",
                shell("while true; do sleep 99 & done", resources=LARGER),
                fails("pids_limit", "the limit of 4096 processes"),
            ),
            Case(
                "thread bomb that lives on",
                chat(start_command=f"python3 -c '{THREAD_BOMB}'", resources=LARGER),
                [
                    Expected(
                        "FAILED", "pids_limit", "the limit of 4096 processes", "started", HEALTH_TIMEOUT_S
                    )
                ],
            ),
            Case(
                "disk full",
                shell("dd if=/dev/zero of=/dev/shm/model bs=1M count=200"),
                fails("disk_full", "no space was left"),
            ),
            Case(
                "needs a capability",
                shell("chown 1000:1000 /etc/passwd"),
                fails("missing_capability", "(chown)"),
            ),
            Case(
                "log flood",
                chat(
                    env={"CHAT_LOG_LINES": "200000", "CHAT_CRASH": "at-start", "CHAT_EXIT_CODE": "7"},
                    timeout_s=120,  # It ends by itself, once it has written all of it.
                ),
                fails("exited", "exit code 7"),
            ),
            Case("ends with success", shell("echo done"), fails("exited", "exit code 0")),
        ],
    ]
