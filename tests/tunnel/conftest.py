from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tunnel.programs import have_tunnel_programs
from tests.tunnel.town import Town, town


@pytest.fixture(scope="session", name="tunnel_programs")
def tunnel_programs_fixture() -> None:
    have_tunnel_programs()


@pytest.fixture(name="town")
def town_fixture(tunnel_programs: None, short_folder: Path) -> Iterator[Town]:
    with town(short_folder) as made:
        yield made
