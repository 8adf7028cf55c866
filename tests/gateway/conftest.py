import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from gateway_support import Container, Place, make_place, run_container

from moorage.gateway.dataplane import DataPlane

_RANDOM = re.compile(r"[a-z]+[_-][a-z0-9]{16,}|[0-9a-f]{64}", re.IGNORECASE)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Ids and keys are random, but every process of a run must call a test the same."""
    if not isinstance(val, str) or not _RANDOM.search(val):
        return None
    return _RANDOM.sub("*", val).encode("unicode_escape").decode()


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """One HAProxy for the tests of a module; each test adopts it, as a restarted agent would."""
    # Not tmp_path: a socket's path must stay short, and the unprivileged worker must reach it.
    with tempfile.TemporaryDirectory(prefix="moor-gw-") as folder:
        Path(folder).chmod(0o755)
        place = make_place(Path(folder))
        yield place
        place.kill()


@pytest.fixture
async def gateway(place: Place) -> DataPlane:
    gateway = place.dataplane()
    await gateway.start()
    return gateway


@pytest.fixture
async def container() -> AsyncIterator[Container]:
    async with run_container() as container:
        yield container


@pytest.fixture
async def client(place: Place) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{place.port}") as session:
        yield session
