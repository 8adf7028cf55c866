"""`moor caches`, and `--cache` where containers are made, against a server that plays the documented API."""

from typing import Any

import pytest
from cli_server import FakeMoorage, Moor

pytest_plugins = ["cli_fixtures"]

CACHE = {
    "id": "cch_1",
    "project_id": "prj_one",
    "container_id": "ctr_1",
    "container_name": "chat",
    "node": "machine-1",
    "size_bytes": 15 * 2**30,
    "compiled_bytes": 2**30,
    "limit_bytes": 22 * 2**30,
    "in_use": True,
    "created_at": "2026-01-31T12:00:00Z",
    "used_at": "2026-01-31T12:00:00Z",
    "measured_at": None,
    "deleting": False,
}


def test_caches_are_listed_with_what_they_hold(moor: Moor, fake: FakeMoorage) -> None:
    assert "moor deploy --cache" in moor("caches", "list").stderr
    unset = {**CACHE, "in_use": False, "limit_bytes": None}
    fake.caches = [CACHE, {**unset, "id": "cch_2", "deleting": True}, {**unset, "id": "cch_3"}]
    first, second, third = moor("caches", "list").stdout.splitlines()[1:]
    assert "15 GiB of 22 GiB" in first
    for line, used in ((first, "in use"), (second, "being deleted"), (third, "to be deleted")):
        assert line.rstrip().endswith(used)


def test_a_cache_is_deleted(moor: Moor, fake: FakeMoorage) -> None:
    assert "cch_1 is being deleted" in moor("caches", "delete", "cch_1").stdout
    assert fake.requests[-1][:2] == ("DELETE", "/api/v1/organizations/org_one/caches/cch_1")


@pytest.mark.parametrize(("given", "sent"), [("20", {"size_gib": 20}), ("0", None)])
def test_deploy_takes_its_size(moor: Moor, fake: FakeMoorage, given: str, sent: Any) -> None:
    for what in (("--image", "local/chat"), ("hf:Qwen/Qwen2.5-7B-Instruct",)):
        assert moor("deploy", *what, "--cache", given, "--no-wait").exit_code == 0
        body = [body for *_, body in fake.requests if body][-1]
        assert body["cache"] == sent


def test_edit_takes_its_size_and_takes_it_away(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container(state="STOPPED")
    for option, sent in (("cache.size_gib=20", {"size_gib": 20}), ("cache.size_gib=", None)):
        assert moor("edit", "chat", "--set", option).exit_code == 0
        assert [body for *_, body in fake.requests if body][-1]["cache"] == sent
