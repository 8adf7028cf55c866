"""Real GPUs: the whole of Moorage on a machine that has one, and what it must show there, as a table.

    python3 bench/gpu.py [--way auto|cdi] [--without-gpu]

It starts an engine of its own, makes local/torch:latest from the PyTorch that is there, and runs `moor up` once for each
way of handing a GPU over that the machine allows, or for one of them. `--without-gpu` tries the script itself on any machine, on the CPU.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from gpu_measure import Connection, compare, load_for, shown_means, watched_memory
from gpu_stack import ROOT, Project, docker, own_engine, running, until, write_cdi_specification

from moorage.engines.docker.gpus import FOLDER_INSIDE, LIBRARIES_INSIDE
from moorage.engines.hosts.driver_files import CONTROL_NODES, OPTIONAL_NODES, read_driver_files

PAIRS = 150
LOAD_S = 30.0
WAYS = ("auto", "cdi")
"""By itself first: with neither NVIDIA's runtime nor CDI it must find the direct way."""
KILLS = 3
GIB = 2**30
FIGURES = {
    "utilization_percent": ("utilization.gpu", 1.0),
    "memory_bytes": ("memory.used", float(2**20)),
    "power_watts": ("power.draw", 1.0),
    "temperature_celsius": ("temperature.gpu", 1.0),
}


@dataclass
class Report:
    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def row(self, what: str, figure: str, ok: bool | None) -> None:
        self.rows.append((what, figure, {True: "yes", False: "NO", None: "-"}[ok]))
        print(f"== {what}: {figure} [{self.rows[-1][2]}]", flush=True)

    def attempt(self, what: str, work: Callable[[], None]) -> None:
        """One part that fails must not hide what the others show."""
        began_s = time.monotonic()
        try:
            work()
        except Exception as exc:  # noqa: BLE001 - told, and the next part goes on
            traceback.print_exc()
            self.row(what, f"failed: {type(exc).__name__}: {str(exc)[:200]}", ok=False)
        print(f"-- {what}: {time.monotonic() - began_s:.1f} s", flush=True)

    def print(self) -> None:
        print("\n| what | figure | as it must be |\n|---|---|---|")
        for row in self.rows:
            print("| " + " | ".join(row) + " |")


@dataclass
class Bench:
    home: Path
    report: Report
    has_gpu: bool
    project: Project | None = None
    gpu_type: str = ""

    @property
    def mine(self) -> Project:
        assert self.project is not None, "the stack is up"
        return self.project

    def deploy(self, name: str, **environment: str) -> dict[str, Any]:
        changes = {} if self.has_gpu else {"TORCH_DEVICE": "cpu", "TORCH_SIZE": "tiny", "TORCH_STEPS": "1"}
        return self.mine.deploy(name, self.gpu_type, env=changes | environment)

    def run(self, way: str) -> None:
        with running(self.home, way) as stack:
            print("\n".join(f"   up: {line}" for line in stack.said if line), flush=True)
            self.project = Project.first_of(stack)
            self.report.attempt("offered", lambda: self.offered(way))
            container: dict[str, Any] = {}
            self.report.attempt("deployed", lambda: container.update(self.deployed(way)))
            if container:
                self.report.attempt("delete", lambda: self.mine.delete(container))
            if way != "cdi":
                self.report.attempt("measured", self.measured)
                if self.has_gpu:
                    self.report.attempt("killed", self.killed)
                    self.report.attempt("out of memory", self.out_of_memory)
            for command in (("nodes",), ("instance-types",), ("doctor", "host"), ("status",)):
                print(f"$ moor {' '.join(command)}\n{stack.moor(*command)}", flush=True)

    def offered(self, way: str) -> None:
        with self.mine.stack.operator as api:
            (node,) = api.get("/operator/nodes").json()["items"]
            proposals = api.get("/operator/instance-types/proposals").json()["items"]
        self.report.row(
            f"hand-over, {way}",
            f"{node['gpu_handover']}: {node['message']}",
            bool(node["gpus"]) == self.has_gpu,
        )
        if not self.has_gpu:
            self.gpu_type = "cpu-large"
            return
        if self.gpu_type:
            return
        wanted = next((one for one in proposals if one["gpu_count"] == 1), None)
        if wanted is not None:
            self.report.row("instance type proposed", f"{wanted['name']}: {wanted['because']}", ok=True)
            body = {name: value for name, value in wanted.items() if name != "because"}
            with self.mine.stack.operator as api:
                api.post("/operator/instance-types", json=body).raise_for_status()
        with self.mine.stack.operator as api:
            types = api.get("/instance-types").json()["items"]
        free = [one["name"] for one in types if one["gpu_count"] and one["free"]]
        self.gpu_type = free[0]
        self.report.row("offered in the catalogue", ", ".join(free), ok=True)

    def deployed(self, way: str) -> dict[str, Any]:
        began_s = time.monotonic()
        made = self.mine.wait(self.deploy(f"torch-{way}"))
        took_s = time.monotonic() - began_s
        said = f"{made['state']} after {took_s:.1f} s"
        if made["state"] != "RUNNING":
            self.report.row(f"examples/torch, {way}", f"{said}: {made['message']}", ok=False)
            print(docker("ps", "-a"), self.logs(made), flush=True)
            raise RuntimeError(made["message"])
        answer = self.ask(made)
        text = answer["choices"][0]["message"]["content"]
        inside = httpx.get(
            f"{made['endpoint_url']}/gpus", headers=self.headers, timeout=30, trust_env=False
        ).json()
        self.report.row(f"examples/torch, {way}", f"{said}; said {text[:60]!r}", ok=bool(text))
        if self.has_gpu:
            seen = inside["tries"]["torch.cuda.device_count"] and inside["tries"]["CUDA counts devices"]
            self.report.row(f"GPU inside, {way}", json.dumps(inside["tries"]), ok=seen)
        return made

    def measured(self) -> None:
        """With a model that keeps the GPU busy: else the pace is the processor's, and changes from moment to moment."""
        container = self.mine.wait(self.deploy("large", **({"TORCH_SIZE": "large"} if self.has_gpu else {})))
        if container["state"] != "RUNNING":
            raise RuntimeError(f"{container['message']}\n{self.logs(container)}")
        until(lambda: self.ask(container), "it answers", 60)
        self.report.attempt("gateway", lambda: self.gateway_costs(container))
        window: dict[str, Any] = {}
        self.report.attempt("load", lambda: window.update(self.load(container)))
        self.report.attempt("without a GPU", self.without_a_gpu)
        if window:
            self.report.attempt("metrics", lambda: self.metrics(container, window))
        self.mine.delete(container)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.mine.key}"}

    def ask(self, container: dict[str, Any]) -> dict[str, Any]:
        """At the promised path, of a server that has its API at /v1."""
        body = {"messages": [{"role": "user", "content": "Where do I moor?"}], "max_tokens": 120}
        url = f"{container['endpoint_url']}/api/v1/chat/completions"

        def answered() -> dict[str, Any] | None:
            answer = httpx.post(url, json=body, headers=self.headers, timeout=60, trust_env=False)
            return answer.json() if answer.status_code == 200 else None

        found: dict[str, Any] = until(answered, "a chat completion", 30)
        return found

    def connections(self, container: dict[str, Any]) -> tuple[Connection, Connection]:
        host, _, port = self.mine.stack.gateway.partition(":")
        path = f"/c/{container['id']}/api/v1/chat/completions"
        through = Connection((host, int(port)), path, self.mine.key)
        label = f"label=moorage.container={container['id']}"
        name = docker("ps", "--filter", label, "--format", "{{.ID}}")
        own = docker("port", name, "8000/tcp").splitlines()[0].rpartition(":")[2]
        return through, Connection(("127.0.0.1", int(own)), "/v1/chat/completions")

    def gateway_costs(self, container: dict[str, Any]) -> None:
        found = compare(*self.connections(container), PAIRS if self.has_gpu else 10)
        print(found, flush=True)
        speed = f"{found.gateway_tokens_per_s:.1f} of {found.direct_tokens_per_s:.1f} tokens/s = {found.ratio:.4f}"
        self.report.row(
            f"tokens/s through the gateway, {found.pairs} pairs", speed, ok=found.ratio.value >= 0.99
        )
        first = f"{found.gateway_first_ms:.2f} ms, {found.direct_first_ms:.2f} direct: {found.added_first_ms:+.3f} ms"
        self.report.row("time to the first token, median", first, ok=found.added_first_ms.value <= 0.5)

    def load(self, container: dict[str, Any]) -> dict[str, Any]:
        if not self.has_gpu:
            return {}
        began, ended, smi = load_for(LOAD_S, self.connections(container)[0])
        return {"began": began, "ended": ended, "smi": smi}

    def metrics(self, container: dict[str, Any], window: dict[str, Any]) -> None:
        began: datetime = window["began"]
        query = {
            "from": began.isoformat(),
            "to": (window["ended"] + timedelta(seconds=5)).isoformat(),
            "step": 1,
        }

        def shown() -> dict[str, float]:
            with self.mine.stack.operator as api:
                answer = api.get(f"/containers/{container['id']}/metrics", params=query).raise_for_status()
            return shown_means(answer.json(), began, window["ended"])

        found: dict[str, float] = until(shown, "the figures of that time are stored", 90)
        for name, (smi_name, unit) in FIGURES.items():
            theirs = window["smi"][smi_name] * unit
            off = abs(found[name] - theirs) / theirs
            self.report.row(
                f"{name} against nvidia-smi",
                f"{found[name]:.4g} and {theirs:.4g}: {off:.1%} apart",
                off <= 0.05,
            )

    def without_a_gpu(self) -> None:
        """Beside the one that has it."""
        environment = {"TORCH_DEVICE": "cpu", "TORCH_SIZE": "tiny", "TORCH_STEPS": "1"}
        made = self.mine.wait(self.mine.deploy("no-gpu", "cpu-large", env=environment))
        tries: dict[str, bool] = {}
        answer = httpx.get(f"{made['endpoint_url']}/gpus", headers=self.headers, timeout=60, trust_env=False)
        tries.update(answer.json()["tries"])
        seen = [name for name, saw in tries.items() if saw]
        self.report.row(
            "a container without a GPU sees one",
            f"{len(seen)} of {len(tries)} tries {seen or ''}",
            ok=not seen,
        )
        self.mine.delete(made)

    def killed(self) -> None:
        """Each needs most of the memory: if the one before had not given it back, the next could not start."""
        hog = "100"
        with watched_memory() as memory:
            made = self.mine.wait(self.deploy("hog", TORCH_MEMORY_HOG_GIB=hog, TORCH_STEPS="1"))
            label = f"label=moorage.container={made['id']}"
            before: list[int] = []
            for _ in range(KILLS):
                name = docker("ps", "--filter", label, "--format", "{{.ID}}")
                docker("kill", "--signal", "KILL", name)
                second = lambda: [one for one in docker("ps", "-q", "--filter", label).split() if one != name]  # noqa: B023, E731
                (new,) = until(second, "another replica", 60)
                started = datetime.fromisoformat(
                    docker("inspect", "--format", "{{.State.StartedAt}}", new)[:26] + "+00:00"
                )
                before.append(memory.at(started.timestamp()))
                self.mine.wait(made, "RUNNING", timeout_s=120)
                until(lambda: self.ask(made), "it answers again", 60)
        figures = ", ".join(f"{used / GIB:.2f}" for used in before)
        said = f"{KILLS} of {KILLS} came back; GiB in use when the next began: {figures} (of {hog})"
        self.report.row(
            "a killed replica frees its memory first", said, ok=all(used < 4 * GIB for used in before)
        )
        self.mine.delete(made)

    def out_of_memory(self) -> None:
        made = self.mine.wait(self.deploy("too-large", TORCH_MEMORY_HOG_GIB="10000"))
        said = f"{made['state']}, {made['reason']}: {made['message']}"
        self.report.row("GPU memory exhausted", said, ok=made["reason"] == "gpu_out_of_memory")
        self.mine.delete(made)

    def logs(self, container: dict[str, Any]) -> str:
        with self.mine.stack.operator as api:
            lines = api.get(f"/containers/{container['id']}/logs", params={"limit": 40}).json()["items"]
        return "\n".join(line["text"] for line in reversed(lines))


def specify() -> None:
    """For the second way: the machine's CDI specification, as NVIDIA's tool would write it."""
    files = read_driver_files()
    inside = {f"{LIBRARIES_INSIDE}/{name}": source for name, source in files.libraries.items()}
    if files.smi is not None:
        inside[f"{FOLDER_INSIDE}/bin/nvidia-smi"] = files.smi
    write_cdi_specification(
        inside, [f"/dev/{name}" for name in (*CONTROL_NODES, *OPTIONAL_NODES) if name in files.nodes]
    )


def build_image(python: str) -> None:
    subprocess.run([sys.executable, str(ROOT / "examples/torch/build.py"), "--python", python], check=True)


def main() -> None:
    options = argparse.ArgumentParser(description="Real GPUs")
    options.add_argument("--without-gpu", action="store_true")
    options.add_argument("--way", choices=WAYS, action="append", help="only this one; all unless it says so")
    options.add_argument("--home", default="/var/lib/moorage-bench")
    options.add_argument("--python", default=sys.executable, help="one that has PyTorch")
    chosen = options.parse_args()
    with own_engine(Path(f"{chosen.home}-engine")):
        run(chosen)


def run(chosen: argparse.Namespace) -> None:
    report = Report()
    print(docker("version", "--format", "Docker {{.Server.Version}}"), os.uname().release, flush=True)
    if not docker("images", "-q", "local/torch:latest"):
        report.attempt("image", lambda: build_image(chosen.python))
    for way in chosen.way or WAYS:
        if way == "cdi":
            if chosen.without_gpu:
                continue
            specify()
        # Each on a machine that has not seen the other.
        bench = Bench(Path(f"{chosen.home}-{way}"), report, has_gpu=not chosen.without_gpu)
        report.attempt(way, lambda: bench.run(way))  # noqa: B023 - called at once
    report.print()


if __name__ == "__main__":
    main()
