"""`moor machines …`: what is asked, and what is said."""

import json
from datetime import UTC, datetime

import pytest
from cli_server import FakeMoorage, Moor

pytest_plugins = ["cli_fixtures"]


def test_add_prints_the_command_alone(moor: Moor, fake: FakeMoorage) -> None:
    said = moor("machines", "add", "--name", "rack-7")
    assert said.exit_code == 0, said.stderr
    assert (
        said.stdout.strip() == "f=$(mktemp) && curl … && printf %s moor_join_x | $(command -v sudo) sh $f"
    ), "one line, to be copied"
    assert fake.requests[-1][3] == {"infrastructure": "operator", "name": "rack-7"}
    assert json.loads(moor("machines", "add", "--json").stdout)["token"] == "moor_join_x"


def test_another_command(moor: Moor, fake: FakeMoorage) -> None:
    assert moor("machines", "command", "rack-7").stdout.strip() == "curl … moor_join_y"
    assert fake.requests[-1][:2] == ("POST", "/api/v1/machines/mch_1/command")


def test_list_and_show(moor: Moor) -> None:
    listed = moor("machines", "list").stdout
    for word in ("rack-7", "mch_1", "active", "NVIDIA L4", "198.19.1.0"):
        assert word in listed
    for name in ("rack-7", "mch_1"):
        shown = moor("machines", "show", name).stdout
        assert "It takes containers." in shown
        assert "8 cores, 32 GiB" in shown
        assert "0.984, standard" in shown
        assert "2026" in shown.split("Proven")[1].splitlines()[0]
    missing = moor("machines", "show", "rack-8")
    assert missing.exit_code != 0
    assert "There is no machine rack-8." in missing.stderr


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        ("pause", "paused"),
        ("resume", "active"),
        ("drain", "draining"),
        ("reclaim", "draining"),
        ("ban", "banned"),
        ("unban", "joining"),
    ],
)
def test_verbs(moor: Moor, verb: str, state: str) -> None:
    said = moor("machines", verb, "rack-7")
    assert said.exit_code == 0, said.stderr
    assert f"rack-7 is {state}." in said.stdout


def test_lend_one(moor: Moor, fake: FakeMoorage) -> None:
    said = moor("machines", "add", "--community")
    assert said.exit_code == 0, said.stderr
    method, path, _, body, *_ = fake.requests[-1]
    assert (method, path) == ("POST", "/api/v1/organizations/org_one/machines")
    assert body == {"infrastructure": "community", "name": None}


def test_a_pause_with_an_end(moor: Moor, fake: FakeMoorage) -> None:
    assert moor("machines", "pause", "mch_1", "--until", "2026-01-31T12:00:00+00:00").exit_code == 0
    assert datetime.fromisoformat(fake.requests[-1][3]["until"]) == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert moor("machines", "pause", "mch_1", "--until", "soon").exit_code != 0


@pytest.mark.parametrize("verb", ["remove", "leave"])
@pytest.mark.parametrize("options", [(), ("--force",)])
def test_remove(moor: Moor, fake: FakeMoorage, options: tuple[str, ...], verb: str) -> None:
    said = moor("machines", verb, "rack-7", *options)
    assert said.exit_code == 0, said.stderr
    method, path, query, *_ = fake.requests[-1]
    assert (method, path, query) == ("DELETE", "/api/v1/machines/mch_1", {"force": "true"} if options else {})
