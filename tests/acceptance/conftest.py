import shutil
from collections.abc import Iterator

import pytest

from tests.acceptance.stack import Person, Stack
from tests.folders import folder_for_a_database


@pytest.fixture(scope="session")
def stack(docker_host: str) -> Iterator[Stack]:
    """One Moorage for all tests that do not break it for good."""
    yield from run_stack(docker_host, "21000-22999")


@pytest.fixture
def own_stack(docker_host: str) -> Iterator[Stack]:
    """One for a test that stops, breaks or restarts the whole."""
    yield from run_stack(docker_host, "23000-24999")


@pytest.fixture(scope="session")
def person(stack: Stack) -> Person:
    return stack.sign_up("ann@example.com")


def run_stack(docker_host: str, replica_ports: str, **settings: str) -> Iterator[Stack]:
    folder = folder_for_a_database()
    stack = Stack(folder / "home", docker_host, replica_ports, settings=settings)
    try:
        stack.up()
        yield stack
    finally:
        stack.clean()
        shutil.rmtree(folder)
