"""The command line reads long lists page by page, and asks every list for pages of the same size."""

from pathlib import Path
from typing import Any

import pytest

from moorage.entrypoints.api import create_app
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage_cli.client import _PAGE_SIZE


@pytest.mark.long
def test_every_list_has_pages_of_the_size_that_is_asked_for(tmp_path: Path) -> None:
    database = Database("postgresql://nobody@localhost/nothing", pool_size=2)
    app = create_app(Settings(home=tmp_path), database, Keyring(((b"none", b"\x00" * 32),)))
    lists = {path: limits for path, route in app.openapi()["paths"].items() if (limits := page_sizes(route))}
    assert len(lists) > 15
    assert {path: most for path, most in lists.items() if most < _PAGE_SIZE} == {}


def page_sizes(route: dict[str, Any]) -> int:
    """The largest page of a list; 0 of what is none."""
    asked = {one["name"]: one["schema"] for one in route.get("get", {}).get("parameters", ())}
    return int(asked["limit"]["maximum"]) if {"limit", "cursor"} <= asked.keys() else 0
