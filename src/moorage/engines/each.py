"""What a leader watches of each engine by itself: one that fails, hangs or leaves is in no other's way."""

import asyncio
from collections.abc import Callable

from moorage.engines.base import Engine
from moorage.engines.engines import Engines
from moorage.kit.clock import Clock
from moorage.reconcile.watches import Watches, again_and_again

_APART_S, _ALL_WITHIN_S = 0.01, 10.0


async def run_for_each(engines: Engines, watches: Callable[[str, Engine], Watches], clock: Clock) -> None:
    """Until the lease is lost. For an engine that is added its watches begin, for one that is removed they end."""
    running: dict[str, tuple[Engine, list[asyncio.Task[None]]]] = {}
    async with asyncio.TaskGroup() as group:
        while True:
            change = engines.next_change()
            wanted = engines.by_name()
            for name, (engine, tasks) in list(running.items()):
                if wanted.get(name) is not engine:
                    del running[name]
                    for task in tasks:
                        task.cancel()
            for name, engine in wanted.items():
                if name not in running:
                    await _apart(engines, clock)
                    tasks = [
                        group.create_task(
                            again_and_again(what, watch, clock, engine=name), name=f"watch {what} of {name}"
                        )
                        for what, watch in watches(name, engine).items()
                    ]
                    running[name] = engine, tasks
            await change.wait()


async def _apart(engines: Engines, clock: Clock) -> None:
    """Each begins with a look at everything: those of many, begun together, would hold up whatever else is to be done."""
    if engines.pause_s() > 0:
        await clock.sleep(min(_APART_S, _ALL_WITHIN_S / len(engines)))
