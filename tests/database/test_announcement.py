"""What `moor up` says and when, in front of the real API: it waits for what does not run, and for nothing else."""

import asyncio

from api_support import Api
from api_support import api_fixture as api_fixture

from moorage.entrypoints.announcement import announce
from moorage.entrypoints.reconcilers import RECONCILERS
from moorage.kit.clock import system_clock
from tests.ports import free_port
from tests.servers import serving

DEADLINE_S = 30.0


async def test_late_is_said_and_no_reason_to_give_up(api: Api) -> None:
    port = free_port()
    settings = api.settings.model_copy(update={"api_listen": f"127.0.0.1:{port}"})
    said: list[str] = []
    announcing = asyncio.create_task(announce(settings, "the link", said.append, late_after_s=0.2))
    try:
        await until_said(said, announcing, "Not ready after 0 s: the API does not answer.")
        async with serving(api.app, port):
            await everything_runs(api)
            await until_said(said, announcing, "Moorage is ready.")
            await announcing
    finally:
        announcing.cancel()
    assert "the link" in said[1]
    # Said, and nobody waited for it.
    assert "reconciler ledger: The ledger differs in 1 places." in said[2]
    assert len(said) == 3


async def test_what_does_not_run_is_named(api: Api) -> None:
    port = free_port()
    settings = api.settings.model_copy(update={"api_listen": f"127.0.0.1:{port}"})
    said: list[str] = []
    async with serving(api.app, port):
        await everything_runs(api)
        await api.execute(
            "UPDATE reconciler_status SET last_run_at = now() - interval '1 hour' WHERE name = 'mail'"
        )
        await api.execute("UPDATE gateways SET seen_at = now() - interval '1 hour'")
        announcing = asyncio.create_task(announce(settings, "the link", said.append, late_after_s=0.2))
        await until_said(said, announcing, "the reconciler mail does not run; no gateway reports.")
        announcing.cancel()


async def everything_runs(api: Api) -> None:
    for name in RECONCILERS:
        await api.execute(
            "INSERT INTO reconciler_status (name, holder, last_run_at, last_error, consecutive_failures, objects_failing) "
            "VALUES (:name, 'here:1', now(), :error, 0, 0)",
            name=name,
            error="The ledger differs in 1 places." if name == "ledger" else None,
        )
    await api.execute("INSERT INTO gateways VALUES ('gtw_x', now(), now())")
    await api.execute(
        "INSERT INTO nodes (name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, seen_at) VALUES "
        "('node-1', 'operator', 'amd64', 64000, 549755813888, '[]', now()) ON CONFLICT DO NOTHING"
    )


async def until_said(said: list[str], announcing: asyncio.Task[None], text: str) -> None:
    deadline_s = system_clock.monotonic() + DEADLINE_S
    while not any(text in line for line in said):
        assert system_clock.monotonic() < deadline_s, said
        if announcing.done():
            await announcing
        await asyncio.sleep(0.02)
