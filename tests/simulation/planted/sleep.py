"""Mistakes about what sleeps: who lets it, who wakes it, who waits, and what it costs."""

from dataclasses import replace
from typing import Any

from moorage.autoscaling.sleep import reconciler as sleep_reconciler
from moorage.billing.renewals import reconciler as renewals
from moorage.containers import service as containers_service
from moorage.containers.planning import shape as planning
from moorage.containers.reconciler import repository as reconciler_repository
from moorage.containers.repository import lock_container
from moorage.containers.sleep import service as sleep_service
from moorage.containers.states import DesiredState
from moorage.gateway import repository as gateway_repository
from moorage.gateway import samples
from moorage.gateway.holding import holder, waking
from tests.simulation.planted.bug import Bug, Patch, nothing


def _sleep_is_a_word(patch: Patch) -> None:
    """Passes go on as if it were awake."""
    wanted = planning._wanted_generation

    def wanted_all_the_same(container: Any, seen: Any) -> Any:
        return wanted(replace(container, asleep_since=None), seen)

    patch(planning, "_wanted_generation", wanted_all_the_same)


def _what_sleeps_is_renewed(patch: Patch) -> None:
    """By renewals, and passes leave what is paid for where it is."""
    wanted = renewals.wanted
    _sleep_is_a_word(patch)
    patch(renewals, "wanted", lambda *some, asleep, **more: wanted(*some, asleep=False, **more))


def _every_request_wakes(patch: Patch) -> None:
    """Also what is awake, or about to be."""
    wake = sleep_service.wake

    async def wake_anew(session: Any, container_id: str, by: str, **how: Any) -> Any:
        row = await lock_container(session, container_id)
        if row.desired_state != DesiredState.RUNNING or row.asleep_since is not None:
            return await wake(session, container_id, by, **how)
        sleep_service._record(session, row, by, "container.wake", "A request woke it.")
        await sleep_service._tell(session, row)
        return sleep_service.Woken(row, anything=True)

    patch(waking, "wake", wake_anew)


def _a_wake_is_asked_for_once(patch: Patch) -> None:
    """Whatever became of it."""

    async def wake_once(self: Any, container_id: str) -> None:
        try:
            refusal = await self.waker.wake(container_id, self.places.a_key(container_id))
        except Exception:  # noqa: BLE001 - the bug
            return
        if refusal is not None:
            self.places.answer(container_id, refusal)

    patch(holder.Holder, "_wake", wake_once)
    patch(holder.Holder, "_woke", lambda *_: None)


def _who_waits_hears_nothing(patch: Patch) -> None:
    """What HAProxy serves from now on is noted, and those who wait for it are not told."""

    def note(self: Any, table: Any, applied: Any) -> None:
        self._serves = table, applied

    patch(holder.Holder, "applied", note)


def _wakes_never_end(patch: Patch) -> None:
    """It serves, and is shown as asleep; nothing of it falls asleep again."""
    write = reconciler_repository._write_container

    async def write_the_rest(session: Any, loaded: Any, plan: Any, values: Any) -> Any:
        return await write(session, loaded, replace(plan, awake=False), values)

    patch(reconciler_repository, "_write_container", write_the_rest)


def _what_is_stopped_sleeps_on(patch: Patch) -> None:
    patch(containers_service, "leave_bed", nothing)


def _uses_are_not_stored(patch: Patch) -> None:
    """The gateway says that it was there every second, and not what it saw."""
    store = samples.store_samples

    async def store_nothing(session: Any, gateway_id: Any, _: Any, *when: Any) -> None:
        await store(session, gateway_id, [], *when)

    patch(samples, "store_samples", store_nothing)


def _one_is_always_silent(patch: Patch) -> None:
    patch(sleep_reconciler, "known_by_all", lambda *_: None)


def _keys_stay(patch: Patch) -> None:
    """At the gateway, when they are revoked."""
    read = gateway_repository._keys

    async def keep(session: Any, before: Any) -> Any:
        return {**before, **await read(session, before)}

    patch(gateway_repository, "_keys", keep)


_ASKS = ("ask", "a crowd asks", "disturb a wake")

BUGS = (
    Bug("sleep is a word", ("what sleeps runs nothing",), _sleep_is_a_word, needs=("deploy a sleeper",)),
    Bug("what sleeps is renewed", ("asleep costs nothing",), _what_sleeps_is_renewed),
    Bug("every request wakes", ("one wake for many requests",), _every_request_wakes, needs=_ASKS),
    Bug(
        "a wake is asked for once",
        ("who waits wakes it",),
        _a_wake_is_asked_for_once,
        needs=("disturb a wake", "postgres fails over"),
    ),
    Bug("who waits hears nothing", ("whoever waits is answered",), _who_waits_hears_nothing, needs=_ASKS),
    Bug("wakes never end", ("who wakes serves or is decided",), _wakes_never_end, needs=_ASKS),
    Bug(
        "what is stopped sleeps on",
        ("what is stopped does not sleep",),
        _what_is_stopped_sleeps_on,
        needs=("touch a sleeper",),
    ),
    Bug(
        "uses are not stored", ("what is used stays awake",), _uses_are_not_stored, needs=("keep it in use",)
    ),
    Bug("one is always silent", ("what is idle sleeps",), _one_is_always_silent, needs=("deploy a sleeper",)),
    Bug(
        "a revoked key wakes",
        ("wrong keys wake nothing",),
        _keys_stay,
        needs=("a key is revoked", "a wrong key asks"),
    ),
)
