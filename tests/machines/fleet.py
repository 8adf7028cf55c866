"""Replicas of the example on machines of the lab: which rows there are, who answers, and what the engines really run."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import httpx

from moorage.engines.docker.create import name_of
from tests.acceptance.stack import PATIENCE_S, Deployed, Person, until
from tests.machines.lab import Lab
from tests.machines.traffic import REQUESTS_PER_S

SIX = {"mode": "autoscaling", "instance_type": "cpu-nano", "min_replicas": 6, "max_replicas": 6}
_GONE = ("collected", "removed")


@dataclass
class Fleet:
    lab: Lab
    person: Person
    chat: Deployed
    key: str
    replicas: int = 6
    requests_per_s: int = REQUESTS_PER_S

    def rows(self) -> list[dict[str, Any]]:
        answer = self.person.api.get(f"/containers/{self.chat.id}/replicas")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return []
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    def routed(self) -> dict[str, str]:
        """Replicas that serve, and their machines."""
        return {row["id"]: self._place(row) for row in self.rows() if row["state"] == "routed"}

    def spread(self) -> dict[str, int]:
        return dict(sorted(Counter(self.routed().values()).items()))

    def until_spread(self, timeout_s: float = PATIENCE_S, **wanted: int) -> None:
        """`rack_1=2` and so on; a machine that is not named has none."""
        named = {name.replace("_", "-"): count for name, count in wanted.items() if count}
        until(lambda: self.spread() == named, f"spread as {named}", timeout_s, 0.2)

    def until_complete(self, timeout_s: float = PATIENCE_S) -> None:
        until(self.is_complete, "all replicas serve", timeout_s, 0.2)

    def is_complete(self) -> bool:
        return len(self.routed()) == self.replicas

    def on(self, machine: str) -> set[str]:
        return {replica for replica, node in self.routed().items() if node == machine}

    def hours_bought(self) -> int:
        used = self.person.api.get(f"/organizations/{self.person.organization_id}/billing/usage").json()
        return sum(one["hours"] for one in used["items"])

    def until_engines_agree(self) -> None:
        """Each machine that is on runs what the rows say, and has nothing else: nothing twice, nothing left behind."""
        until(lambda: self._as_engines_say() == self._as_rows_say(), "rows and engines agree", pause_s=1)

    def _as_rows_say(self) -> dict[str, dict[str, str]]:
        there = [row for row in self.rows() if row["state"] not in _GONE]
        return {
            name: {name_of(row["id"]): "running" for row in there if self._place(row) == name}
            for name, machine in self.lab.machines.items()
            if machine.is_on
        }

    def _as_engines_say(self) -> dict[str, dict[str, str]]:
        return {name: machine.containers() for name, machine in self.lab.machines.items() if machine.is_on}

    def _place(self, row: dict[str, Any]) -> str:
        """Tenants know a machine that is lent by its id alone."""
        return self.lab.name_of(row["node"])

    def ask(self, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}"}
        method = "GET" if body is None else "POST"
        return httpx.request(method, f"{self.chat.url}{path}", json=body, headers=headers, timeout=30)

    def log_lines(self, text: str) -> Counter[str]:
        """How many lines with this text each replica has printed."""
        found = self.person.api.get(f"/containers/{self.chat.id}/logs", params={"text": text, "limit": 500})
        assert found.status_code == 200, found.text
        return Counter(line["instance_id"] for line in found.json()["items"])


def deployed_fleet(lab: Lab, person: Person) -> Fleet:
    chat = person.deploy(
        "chat",
        image=lab.image,
        registry={"provider": "other"},
        resources=SIX,
        limits={"retry_unanswered": True},
    )
    return Fleet(lab, person, chat, person.key())
