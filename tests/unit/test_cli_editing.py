"""`moor fix`, against a server that plays the documented API."""

import json

from cli_server import FakeMoorage, Moor

pytest_plugins = ["cli_fixtures"]

FIX = {"field": "port", "from": 8000, "to": 9000}


def test_describe_shows_the_fix_and_fix_accepts_it(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container(state="FAILED", reason="listens_on_other_port", fix=FIX)
    assert "port from 8000 to 9000; accept it with `moor fix chat`" in moor("describe", "chat").stdout
    fake.steps = [{}, {"state": "PENDING"}, {"state": "RUNNING"}]
    result = moor("fix", "chat")
    assert result.exit_code == 0, result.stderr
    assert "chat is RUNNING." in result.stdout
    assert fake.asked("POST", "/containers/ctr_0/fix") == [FIX]


def test_no_fix_on_offer(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container(state="FAILED", reason="exited")
    result = moor("fix", "chat", "--json")
    assert (result.exit_code, json.loads(result.stderr)["error"]["code"]) == (1, "no_fix")
    assert fake.asked("POST", "/containers/ctr_0/fix") == []


def test_without_waiting(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container(state="FAILED", fix=FIX)
    assert moor("fix", "chat", "--no-wait").stdout == "chat is PENDING.\n"
