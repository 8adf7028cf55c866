"""With as many keys as a large installation has, the agent's loop computes for no more than 50 ms at a stretch."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from gateway_support import eventually, make_place
from sqlalchemy import text

from moorage.gateway.agent import GatewayAgent
from moorage.identity.api_keys.channels import API_KEYS
from moorage.kit import ids
from moorage.kit.clock import system_clock
from moorage.kit.collecting import Collecting
from moorage.kit.database import Database, Listener, notify
from moorage.kit.stalls.watchdog import StallWatchdog
from moorage.organizations.models import OrganizationRow, ProjectRow

KEYS = 30_000
_MAKE = text(
    """INSERT INTO api_keys (id, project_id, name, scope, key_hash, hint)
    SELECT 'key_' || translate(lpad(n::text, 20, 'a'), '0189', 'wxyz'), :project, n::text, 'inference',
        sha256(n::text::bytea), 'hint'
    FROM generate_series(CAST(:first AS int), CAST(:last AS int)) n"""
)


@pytest.mark.long
@pytest.mark.timeout(120)
async def test_one_more_among_many_keys(database: Database, short_folder: Path) -> None:
    project_id, organization_id = ids.new_project_id(), ids.new_organization_id()
    async with database.transaction() as session:
        session.add(OrganizationRow(id=organization_id, name="large"))
        await session.flush()
        session.add(ProjectRow(id=project_id, organization_id=organization_id, name="default"))
        await session.flush()
        await session.execute(_MAKE, {"project": project_id, "first": 1, "last": KEYS})

    place = make_place(short_folder)
    listener = Listener(database.dsn)
    agent = GatewayAgent(ids.new_gateway_id(), database, listener, place.dataplane(), system_clock)
    keys_map = place.config.state_dir / "keys.map"

    def written() -> int:
        return keys_map.read_bytes().count(b"\n") if keys_map.exists() else 0

    async def change(sql: str) -> None:
        async with database.transaction() as session:
            await session.execute(text(sql))
            await notify(session, API_KEYS)

    collecting = Collecting()
    collecting.begin()
    running = [asyncio.create_task(listener.run()), asyncio.create_task(agent.run())]
    try:
        await eventually(lambda: written() == KEYS, within_s=60)
        # What comes by chance, because somebody else took the processor, does not come three times.
        seen = []
        for number in range(KEYS + 1, KEYS + 4):
            watchdog = StallWatchdog()
            with watchdog.watching():
                async with database.transaction() as session:
                    await session.execute(_MAKE, {"project": project_id, "first": number, "last": number})
                    await notify(session, API_KEYS)
                await eventually(lambda: written() == KEYS + 1, within_s=30)
                await change(f"UPDATE api_keys SET revoked_at = now() WHERE name = '{number}'")
                await eventually(lambda: written() == KEYS, within_s=30)
                await asyncio.sleep(0.2)  # the watchdog's next word
                seen.append(watchdog.take())
            if not seen[-1].count:
                break
        print(f"{KEYS} keys, one more and one less: {seen}")
        assert not seen[-1].count, seen
    finally:
        collecting.end()
        for task in running:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        place.kill()
