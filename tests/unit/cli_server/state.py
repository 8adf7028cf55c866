"""What the server knows, and what it was asked."""

from collections.abc import Callable
from typing import Any

from cli_server.accounts import project
from cli_server.containers import container

Moor = Callable[..., Any]
"""Runs `moor` with these arguments and gives its result back."""

OPERATOR_KEY = "moor_op_test"
SESSION_TOKEN = "moor_ses_test"
MANAGE_KEY = "moor_manage_test"


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
        self.refusals: dict[tuple[str, str], tuple[int, dict[str, Any] | None]] = {}
        self.unanswered_gets = 0
        self.deletion: dict[str, Any] = {
            "obstacles": [],
            "given_up_microusd": 12_500_000,
            "paid_credit_microusd": 10_000_000,
            "given_credit_microusd": 2_500_000,
            "earned_microusd": 0,
            "called_off_transfers": [],
        }
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
        self.drift: list[str] = []
        """What was asked or answered otherwise than the API's description says."""

    def add_container(self, name: str = "chat", **changes: Any) -> dict[str, Any]:
        made = container(f"ctr_{len(self.containers)}", name, self.url) | changes
        self.containers[made["id"]] = made
        return made

    def asked(self, method: str, path: str) -> list[Any]:
        """The bodies of the requests to this path."""
        return [body for asked, at, _, body in self.requests if (asked, at) == (method, f"/api/v1{path}")]

    def queries(self, path: str) -> list[dict[str, Any]]:
        return [query for _, at, query, _ in self.requests if at == f"/api/v1{path}"]
