"""What many containers cost when nothing happens, and how soon a change takes effect among them.

    python bench/scale.py [--sizes 100,1000,10000] [--sweeps 4] [--changes 20]

For each size: a Postgres of its own with so many RUNNING containers of one replica, the controller's containers
reconciler on the simulated engine and the gateway's agent with a real HAProxy, each in a process of its own. First the
controller starts, until it has looked at every machine once: printed by itself, and in no other figure. Then one
container after another is stopped and started through the same service functions as the API's; then everything is
left alone for so many of the reconciler's sweeps (15 s): a whole minute, because the figures of what replicas use are put
together once a minute.
Targets: the whole grows no worse than linearly, the cost of an idle container stays flat, and at every size a change
takes effect in under 1 s.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
from scale_world import CHANGING, World, running_world

from moorage.containers import service
from moorage.identity.actor import KeyActor
from moorage.kit.database import Database
from moorage.kit.ids import ApiKeyId
from moorage.kit.logging import configure_logging

TARGET_CHANGE_S = 1.0
POLL_S = 0.005
PATIENCE_S = 60.0
SETTLED_WITHIN_S = 300.0
NOISE = 1.15
"""How far above linear two measurements of the same thing may lie on a machine that others use too."""


@dataclass
class Role:
    process: asyncio.subprocess.Process
    told: list[dict[str, Any]] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.told.append(json.loads(line))
            self.news.set()

    async def next(
        self, what: str, *, after: int = 0, container_id: str | None = None, within_s: float = PATIENCE_S
    ) -> dict[str, Any]:
        """The first word of this kind behind so many words."""
        async with asyncio.timeout(within_s):
            while True:
                self.news.clear()
                for one in self.told[after:]:
                    if one["what"] == what and one.get("container_id") == container_id:
                        return one
                await self.news.wait()


@dataclass(frozen=True)
class Idle:
    """CPU seconds per minute of doing nothing, by who spent them."""

    cpu_s: dict[str, float]
    resident_kib: dict[str, int]


@dataclass(frozen=True)
class StartUp:
    """Until the controller has compared every machine with its rows, and looked at its disk and its caches, once."""

    took_s: float
    cpu_s: float


@dataclass
class Result:
    size: int
    start_up: StartUp
    idle: Idle
    latencies_s: dict[str, list[float]]
    machine_kib: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--sweeps", type=int, default=4)
    parser.add_argument("--changes", type=int, default=20)
    options = parser.parse_args()
    configure_logging("warning", as_json=True)
    sizes = sorted(int(size) for size in options.sizes.split(","))
    results = [asyncio.run(measure(size, options.sweeps, min(options.changes, CHANGING))) for size in sizes]
    report(results)
    print(
        f"Command: python bench/scale.py --sizes {options.sizes} --sweeps {options.sweeps} --changes {options.changes}"
    )


async def measure(size: int, sweeps: int, changes: int, machines: int = 1) -> Result:
    began_s = time.monotonic()
    async with running_world(size, machines=machines) as world, running_role(world, "gateway") as gateway:
        haproxy_pid = (await gateway.next("ready", within_s=SETTLED_WITHIN_S))["haproxy_pid"]
        await gateway_settled(world, size)
        async with running_role(world, "controller") as controller:
            ready = await controller.next("ready", within_s=SETTLED_WITHIN_S)
            settled = await controller.next("settled", within_s=SETTLED_WITHIN_S)
            cpu_spent_s = cpu_s(family(controller.process.pid))
            start_up = StartUp(settled["at_s"] - ready["at_s"], cpu_spent_s - ready["cpu_s"])
            latencies_s = await measure_changes(world, controller, changes)
            pids = {"controller": controller.process.pid, "gateway agent": gateway.process.pid}
            idle = await measure_idle(world, controller, sweeps, {**pids, "HAProxy": haproxy_pid})
    print(f"{size} containers measured in {time.monotonic() - began_s:.0f} s", flush=True)
    return Result(size, start_up, idle, latencies_s, ready["machine_kib"])


@contextlib.asynccontextmanager
async def running_role(world: World, role: str) -> AsyncIterator[Role]:
    ports = [
        listen.rpartition(":")[2] for listen in (world.settings.api_listen, world.settings.gateway_listen)
    ]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("scale_roles.py")),
        *(role, str(world.settings.home), *ports, str(world.machines)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    started = Role(process)
    listening = asyncio.create_task(started.listen())
    try:
        yield started
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.wait_for(process.wait(), timeout=PATIENCE_S)
        await listening


async def gateway_settled(world: World, size: int) -> None:
    """Until it has been seen twice with everything in place: then it has put all servers into HAProxy."""
    connection = await asyncpg.connect(world.dsn)
    deadline_s = time.monotonic() + SETTLED_WITHIN_S
    seen: set[object] = set()
    while len(seen) < 4:
        seen.add(await connection.fetchval("SELECT seen_at FROM gateways"))
        if time.monotonic() > deadline_s:
            sys.exit("the gateway does not settle")
        await asyncio.sleep(0.1)
    held = await connection.fetchval("SELECT count(*) FROM replica_routes WHERE NOT draining")
    assert held == size, f"the gateway holds {held} of {size} replicas"
    await connection.close()


async def measure_changes(world: World, controller: Role, changes: int) -> dict[str, list[float]]:
    latencies_s: dict[str, list[float]] = {}
    database = Database(world.dsn, pool_size=2)
    rows = await asyncpg.connect(world.dsn)
    actor = KeyActor(ApiKeyId("key_scale"), world.project_id, made_by=None)
    for container_id in world.container_ids[:changes]:
        for change, call, state in (
            (service.stop_container, "stop", "STOPPED"),
            (service.start_container, "start", "RUNNING"),
        ):
            words = len(controller.told)
            async with database.transaction() as session:
                await change(session, actor, container_id)
            committed_s = time.monotonic()
            await state_reached(rows, container_id, state)
            latencies_s.setdefault(f"{call}: row says {state}", []).append(time.monotonic() - committed_s)
            called = await controller.next(call, after=words, container_id=container_id)
            latencies_s.setdefault(f"{call}: engine called", []).append(called["at_s"] - committed_s)
            await collect_logs(rows, container_id)
    await rows.close()
    await database.close()
    return latencies_s


async def state_reached(rows: asyncpg.Connection, container_id: str, state: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    query = await rows.prepare("SELECT state FROM containers WHERE id = $1")
    while (seen := await query.fetchval(container_id)) != state:
        if time.monotonic() > deadline_s:
            sys.exit(f"{container_id} is {seen}, not {state}")
        await asyncio.sleep(POLL_S)


async def collect_logs(rows: asyncpg.Connection, container_id: str) -> None:
    """The log collector is not part of this; a stopped replica that it has not been to is looked at every second."""
    await rows.execute(
        "UPDATE replicas SET collected_at = now() WHERE state = 'stopped' AND container_id = $1", container_id
    )


async def measure_idle(world: World, controller: Role, sweeps: int, pids: dict[str, int]) -> Idle:
    """Between the beginnings of two sweeps, so that each counts whole."""
    connection = await asyncpg.connect(world.dsn)
    query = "SELECT count(*) FROM containers WHERE reconcile_at IS NOT NULL OR state <> 'RUNNING'"
    while await connection.fetchval(query):  # noqa: ASYNC110 - another process works on it
        await asyncio.sleep(0.2)
    await connection.close()

    def spent_s() -> dict[str, float]:
        return {
            **{name: cpu_s(family(pid)) for name, pid in pids.items()},
            "Postgres": cpu_s(family(world.postmaster_pid)) + reaped_cpu_s(world.postmaster_pid),
        }

    first = await controller.next("sweep", after=len(controller.told))
    before, words = spent_s(), len(controller.told)
    for _ in range(sweeps):
        last = await controller.next("sweep", after=words)
        words = controller.told.index(last) + 1
    after = spent_s()
    minutes = (last["at_s"] - first["at_s"]) / 60
    resident = {name: sum(resident_kib(one) for one in family(pid)) for name, pid in pids.items()}
    return Idle({name: (after[name] - before[name]) / minutes for name in after}, resident)


def family(pid: int) -> list[int]:
    """The process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children)]


def cpu_s(pids: Sequence[int]) -> float:
    total_ns = 0
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                total_ns += int(thread.read_text().split()[0])
    return total_ns / 1e9


def reaped_cpu_s(pid: int) -> float:
    """Of children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / 100


def resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def report(results: Sequence[Result]) -> None:
    sizes = [result.size for result in results]
    whole = _costs("containers", [f"{size:,}" for size in sizes], results)
    growth = [
        (
            whole[i] / whole[i - 1],
            sizes[i] / sizes[i - 1],
            (whole[i] - whole[i - 1]) / (sizes[i] - sizes[i - 1]),
        )
        for i in range(1, len(sizes))
    ]
    _row("  growth (of the containers)", ["", *(f"{cost:.1f}× ({size:.0f}×)" for cost, size, _ in growth)])
    _row("  per added container", ["", *(f"{added * 1e6:,.0f} µs" for *_, added in growth)])
    memory = _memory(results)
    added_kib = [(memory[i] - memory[i - 1]) / (sizes[i] - sizes[i - 1]) for i in range(1, len(sizes))]
    _row("  per added container, without it", ["", *(f"{one:.1f} KiB" for one in added_kib)])
    _start_ups(results)
    slowest_s = _latencies(results)[-1]

    linear = all(cost <= size * NOISE for cost, size, _ in growth)
    # Of the cost that each size adds, because of the whole the fixed part would make any growth look flat.
    flat = all(later[2] <= earlier[2] * NOISE for earlier, later in itertools.pairwise(growth))
    print(f"\nGrows no worse than linearly (within {NOISE}×): {_verdict(linear)}")
    print(f"An added idle container costs no more among more of them (within {NOISE}×): {_verdict(flat)}")
    _tell_of_changes(f"{sizes[-1]:,}", slowest_s)


def report_machines(results: Sequence[Result], machines: Sequence[int]) -> None:
    """The same replicas, on so many machines."""
    _costs("machines", [f"{count:,}" for count in machines], results)
    _memory(results)
    _start_ups(results)
    _tell_of_changes(f"{machines[-1]:,} machines", _latencies(results)[-1])


def _costs(of_what: str, heads: Sequence[str], results: Sequence[Result]) -> list[float]:
    """Prints what each costs when nothing happens, and answers with the sums."""
    _row(of_what, heads)
    for name in results[0].idle.cpu_s:
        _row(f"CPU per idle minute, {name}", [f"{result.idle.cpu_s[name]:.3f} s" for result in results])
    whole = [sum(result.idle.cpu_s.values()) for result in results]
    _row("CPU per idle minute, all", [f"{spent:.3f} s" for spent in whole])
    each = [spent / result.size * 1e6 for spent, result in zip(whole, results, strict=True)]
    _row("  per container", [f"{one:,.0f} µs" for one in each])
    return whole


def _memory(results: Sequence[Result]) -> list[int]:
    """In KiB, without the simulated machines."""
    for name in results[0].idle.resident_kib:
        _row(f"memory, {name}", [f"{result.idle.resident_kib[name] / 1024:.1f} MiB" for result in results])
    simulated = [f"{result.machine_kib / 1024:.1f} MiB" for result in results]
    _row("  of the controller's: what is simulated", simulated)
    return [sum(result.idle.resident_kib.values()) - result.machine_kib for result in results]


def _start_ups(results: Sequence[Result]) -> None:
    """Before anything was changed or left alone."""
    cells = [f"{one.start_up.took_s:.1f} s, {one.start_up.cpu_s:.1f} s" for one in results]
    _row("start-up of the controller, its CPU", cells)


def _latencies(results: Sequence[Result]) -> list[float]:
    """The slowest of each."""
    for name in results[0].latencies_s:
        times = [result.latencies_s[name] for result in results]
        _row(f"{name}, p50 / p99", [f"{_ms(one, 50)} / {_ms(one, 99)} ms" for one in times])
    return [max(max(times) for times in result.latencies_s.values()) for result in results]


def _tell_of_changes(among: str, slowest_s: float) -> None:
    print(
        f"A change takes effect in under {TARGET_CHANGE_S:.0f} s at {among}: "
        f"{_verdict(slowest_s < TARGET_CHANGE_S)} (slowest {slowest_s * 1000:.0f} ms)"
    )


def _row(name: str, cells: Sequence[str]) -> None:
    print(f"{name:40}" + "".join(f"{cell:>20}" for cell in cells))


def _ms(times_s: Sequence[float], percent: int) -> str:
    if len(times_s) == 1:
        return f"{times_s[0] * 1000:.0f}"
    return f"{statistics.quantiles(times_s, n=100, method='inclusive')[percent - 1] * 1000:.0f}"


def _verdict(met: bool) -> str:
    return "met" if met else "missed"


if __name__ == "__main__":
    main()
