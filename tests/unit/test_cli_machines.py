"""`moor machines …`: what is asked, and what is said."""

import json

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
    missing = moor("machines", "show", "rack-8")
    assert missing.exit_code != 0
    assert "There is no machine rack-8." in missing.stderr


@pytest.mark.parametrize(
    ("verb", "state"), [("pause", "paused"), ("resume", "active"), ("drain", "draining")]
)
def test_verbs(moor: Moor, verb: str, state: str) -> None:
    said = moor("machines", verb, "rack-7")
    assert said.exit_code == 0, said.stderr
    assert f"rack-7 is {state}." in said.stdout


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_remove(moor: Moor, fake: FakeMoorage, options: tuple[str, ...]) -> None:
    said = moor("machines", "remove", "rack-7", *options)
    assert said.exit_code == 0, said.stderr
    method, path, query, *_ = fake.requests[-1]
    assert (method, path, query) == ("DELETE", "/api/v1/machines/mch_1", {"force": "true"} if options else {})
