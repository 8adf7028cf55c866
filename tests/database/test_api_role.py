"""The role `api` as a whole: what it refuses to serve on, and that it ends when a part of it does."""

import asyncio
from pathlib import Path

import httpx
import pytest
from api_support import ANONYMOUS, Api, api_fixture
from reconciler_support import eventually

from moorage.entrypoints import api_role
from moorage.entrypoints.migrate import ScriptDirectory, _config
from moorage.entrypoints.schema_repository import EXPECTED_VERSION
from moorage.entrypoints.sockets import api_socket_path
from moorage.kit.database import Database
from moorage.kit.errors import SetupError
from moorage.kit.lasting import EndedError
from moorage.kit.settings import Settings

__all__ = ["api_fixture"]


def test_the_expected_version_is_the_newest_migration() -> None:
    assert ScriptDirectory.from_config(_config()).get_heads() == [EXPECTED_VERSION]


@pytest.mark.parametrize("version", ["0001", "9999"], ids=["the past", "the future"])
async def test_on_tables_of_another_version_that_do_not_serve_this_one_nothing_is_served(
    api: Api, short_folder: Path, version: str
) -> None:
    assert (await api.ask(ANONYMOUS, "GET", "/readyz")).status_code == 200
    await api.execute("UPDATE alembic_version SET version_num = :version", version=version)
    await api.execute(f"COMMENT ON TABLE alembic_version IS '{version}'")
    assert (await api.ask(ANONYMOUS, "GET", "/readyz")).status_code == 503
    settings = Settings(home=short_folder, database_dsn=api.database.dsn)
    with pytest.raises(SetupError, match=f"have version {version}.*{EXPECTED_VERSION}.*moor migrate"):
        async with asyncio.timeout(20):
            await api_role.serve(settings)


async def test_newer_tables_that_serve_this_version_too_are_served_on(api: Api) -> None:
    await api.execute("UPDATE alembic_version SET version_num = '9999'")
    await api.execute(f"COMMENT ON TABLE alembic_version IS '{EXPECTED_VERSION}'")
    assert (await api.ask(ANONYMOUS, "GET", "/readyz")).status_code == 200


async def test_it_ends_when_its_background_work_does(database: Database, short_folder: Path) -> None:
    """Or it would serve on, and no page would hear of a change."""
    settings = Settings(home=short_folder, database_dsn=database.dsn)
    api_socket_path(settings).parent.mkdir(parents=True, exist_ok=True)
    path = str(api_socket_path(settings))
    serving = asyncio.create_task(api_role.serve(settings))

    async def ready() -> bool:
        assert not serving.done(), serving
        try:
            transport = httpx.AsyncHTTPTransport(uds=path)
            async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
                return (await client.get("/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    try:
        await eventually(ready, "the role serves")
        [listener] = [task for task in asyncio.all_tasks() if task.get_name() == "listener"]
        listener.cancel()
        with pytest.raises(BaseExceptionGroup) as ended:
            async with asyncio.timeout(20):
                await serving
        assert [type(one) for one in ended.value.exceptions] == [EndedError]
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
