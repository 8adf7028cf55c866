"""Containers: what is done to one, and what is asked about it."""

from typing import Any

from cli_server.answering import Answering
from cli_server.containers import (
    ACTIVITY,
    AUTOSCALING,
    CAPSULE,
    REPLAY,
    REQUEST,
    REQUEST_SUMMARY,
    SCALING,
    replica,
)
from cli_server.times import CREATED_AT


class ContainerRoutes(Answering):
    def _containers(self, words: list[str], query: dict[str, str], body: Any) -> bool:
        """Whether it knows this path."""
        fake = self.moorage
        match words:
            case ["GET", "organizations", _, "caches"]:
                self._page(fake.caches, query)
            case ["DELETE", "organizations", _, "caches", cache_id]:
                self._json(202, {"id": cache_id, "deleting": True})
            case ["GET", "projects", _, "containers"]:
                self._page(list(fake.containers.values()), query)
            case ["GET", "projects", _, "logs"]:
                self._page(fake.log_lines[::-1], query)
            case ["POST", "projects", project_id, "containers"]:
                made = fake.add_container(body["name"], project_id=project_id, state="PENDING")
                self._json(201, made)
            case ["GET", "requests", "req_seen"]:
                self._json(200, REQUEST)
            case [_, "containers", container_id, *rest]:
                self._container(container_id, rest, query)
            case _:
                return False
        return True

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
