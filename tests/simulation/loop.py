"""One event loop for the whole installation: virtual time, and processes that can be killed or stopped.

Time stands still while anything can run and jumps to the next timer when nothing can. Nothing is ever waited for:
Postgres is spoken to while the loop stands still (`wire.py`), everything else is in memory. What runs next follows from
the order of the calls and from the seed, never from a socket or a thread.

A *process* is a context variable. Every callback carries the context of the task it belongs to, so the loop knows whose
turn it is: those of a dead process are dropped, those of a stopped one (SIGSTOP) are kept until it goes on.
"""

import asyncio
import contextvars
import heapq
import selectors
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

PROCESS: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)

SOCKET = ".sock"
"""How the paths of our own sockets end; Postgres's do not."""


class NothingLeftToDoError(Exception):
    """Somebody waits for what nobody will ever do."""


class Process:
    """What a kernel knows of one: whether it lives, whether it is stopped, its connections."""

    def __init__(self, name: str, loop: "SimulationLoop") -> None:
        self.name = name
        self.alive = True
        self.stopped = False
        self._loop = loop
        self._kept: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        """Kept, so that those of a dead process are not collected: their `finally` blocks would run."""
        self.at_death: list[Callable[[], None]] = []

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        context = contextvars.copy_context()
        context.run(PROCESS.set, self)
        task = self._loop.create_task(work, name=f"{self.name}: {name}", context=context)
        self.tasks.append(task)
        return task

    def kill(self) -> None:
        """As by SIGKILL: no block of code gets another turn, and the kernel closes the connections."""
        self.alive = False
        self._kept.clear()
        for close in self.at_death:
            close()

    def stop(self) -> None:
        """As by SIGSTOP."""
        self.stopped = True

    def go_on(self) -> None:
        self.stopped = False
        kept, self._kept = self._kept, []
        self._loop.put_ready(kept)

    def keep(self, handle: asyncio.Handle) -> None:
        self._kept.append(handle)


class NumberedTask(asyncio.Task[Any]):
    """asyncio keeps tasks in sets and cancels them in the order of these. By default that is the order of their
    addresses in memory, which no seed decides."""

    number = 0

    def __new__(cls, *arguments: Any, loop: "SimulationLoop", **more: Any) -> "NumberedTask":
        task = super().__new__(cls, *arguments, loop=loop, **more)
        loop.tasks_made += 1
        task.number = loop.tasks_made
        return task

    def __hash__(self) -> int:
        return self.number


class _NoSelector(selectors.BaseSelector):
    """There is nothing to wait for."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, -1, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, -1, 0, None)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.register(fileobj, events, data)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        raise KeyError(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return []


Connect = Callable[[Callable[[], asyncio.BaseProtocol], Any], tuple[asyncio.Transport, asyncio.BaseProtocol]]


class SimulationLoop(asyncio.SelectorEventLoop):
    _ready: Any
    _scheduled: Any
    _stopping: bool

    def __init__(self) -> None:
        super().__init__(_NoSelector())
        self._now_s = 0.0
        self.turns = 0
        self.tasks_made = 0
        self.timers_made = 0
        self._connected_to: dict[int, tuple[str, int]] = {}
        self.connect_to_postgres: Connect | None = None
        self.connect_to_address: Callable[[Any, Any, Any], Any] | None = None
        """Both are given by the world: `wire.py` and `network.py`."""
        self.sockets: Any = None
        """`pipes.Pipes`, where processes of one machine speak with each other."""
        self.set_task_factory(
            lambda loop, work, **more: NumberedTask(work, loop=self, **more)  # type: ignore[arg-type]
        )

    def time(self) -> float:
        return self._now_s

    def skip(self, seconds: float) -> None:
        """Nothing happened for so long: every process sleeps on as it did, only later. Timers that belong to no process
        stay where they are."""
        self._now_s += seconds
        for timer in self._timers():
            if timer._context.get(PROCESS) is not None:
                timer._when += seconds
        self._scheduled = [(timer._when, number, timer) for _, number, timer in self._scheduled]
        heapq.heapify(self._scheduled)

    def next_of_nobody_s(self) -> float:
        """When the next timer ends that belongs to no process, or a long time from now."""
        waiting = (one for one in self._timers() if not one._cancelled and one._context.get(PROCESS) is None)
        return min((one._when for one in waiting), default=self._now_s + 1e9)

    def _timers(self) -> Iterator[Any]:
        return (timer for _, _, timer in self._scheduled)

    def put_ready(self, handles: list[asyncio.Handle]) -> None:
        self._ready.extend(handles)

    def call_at(
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As asyncio does it, but the heap compares numbers: timers would be asked in Python, millions of times. Of those
        that are due at the same moment, the one that was made first comes first, whatever else is in the heap."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self.timers_made += 1
        heapq.heappush(self._scheduled, (when, self.timers_made, timer))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        scheduled, ready, process_of = self._scheduled, self._ready, PROCESS
        while scheduled and scheduled[0][2]._cancelled:
            heapq.heappop(scheduled)
        if not ready and not self._stopping:
            if not scheduled:
                raise NothingLeftToDoError
            self._now_s = max(self._now_s, scheduled[0][0])
        while scheduled and scheduled[0][0] <= self._now_s:
            ready.append(heapq.heappop(scheduled)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(process_of)
            if process is not None:
                if not process.alive:
                    continue
                if process.stopped:
                    process.keep(handle)
                    continue
            self.turns += 1
            handle._run()

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """At once: another thread would make an order of its own."""
        done: asyncio.Future[Any] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as exc:  # noqa: BLE001 - handed to whoever waits
            done.set_exception(exc)
        return done

    async def create_unix_connection(self, protocol_factory: Any, path: Any = None, **how: Any) -> Any:
        if str(path).endswith(SOCKET):
            return self.sockets.connect(protocol_factory, str(path))
        assert self.connect_to_postgres is not None, "the world says how"
        return self.connect_to_postgres(protocol_factory, path)

    async def create_unix_server(self, protocol_factory: Any, path: Any = None, **how: Any) -> Any:
        return self.sockets.listen(protocol_factory, str(path))

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **how: Any
    ) -> Any:
        assert self.connect_to_address is not None, "the world says how"
        if (opened := how.get("sock")) is not None:
            host, port = self._connected_to.pop(opened.fileno())
            opened.close()
        return await self.connect_to_address(protocol_factory, host, port)

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Nothing is connected: a connection of the simulation takes its place."""
        self._connected_to[sock.fileno()] = (address[0], address[1])
