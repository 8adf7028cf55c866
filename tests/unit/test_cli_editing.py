"""`moor fix` and `moor edit`, against a server that plays the documented API."""

import json
from pathlib import Path

import pytest
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


DRAFT = {
    "saved_at": "2026-01-31T12:00:00Z",
    "saved_by": "usr_1",
    "applying": False,
    "failure": None,
    "changes": [{"field": "port", "from": 8000, "to": 9000}, {"field": "env.A", "from": None, "to": "***"}],
    "price_per_hour_microusd": {"from": 10_000, "to": 20_000},
    "least_cost_per_hour_microusd": {"from": 10_000, "to": 40_000},
    "rolling": {
        "beside_at_least": 1,
        "beside_at_most": 2,
        "room_for": 4,
        "cost_microusd": 40_000,
        "available_microusd": 5_000_000,
        "watch_s": 180,
    },
}
APPLYING = {"saved_at": None, "saved_by": None, "applying": True, "failure": None}
FAILURE = {"reason": "exited", "message": "The process ended.", "fix": None, "at": "2026-01-31T12:00:00Z"}


def test_a_draft_of_a_running_container(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    fake.draft = DRAFT
    result = moor("edit", "chat", "--set", "port=9000", "--set", "env.A=b", "--set", "health_check.path=")
    assert result.exit_code == 0, result.stderr
    assert fake.asked("PUT", "/containers/ctr_0/draft") == [
        {"port": 9000, "env": {"A": "b"}, "health_check": {"path": None}}
    ]
    assert "env.A" in result.stdout
    assert "0.01 → 0.04" in result.stdout
    assert "moor edit chat --apply" in result.stdout
    said = " ".join(result.stdout.split())
    assert "costs USD 0.04 for its first hours; there is room for it" in said


def test_resources_are_sent_whole(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    fake.draft = DRAFT
    moor("edit", "chat", "--set", "resources.max_replicas=3")
    assert fake.asked("PUT", "/containers/ctr_0/draft") == [
        {
            "resources": {
                "mode": "autoscaling",
                "instance_type": "cpu-small",
                "min_replicas": 1,
                "max_replicas": 3,
            }
        }
    ]


def test_applied(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container(draft=APPLYING)
    fake.draft = DRAFT
    fake.steps = [{}, {"state": "STOPPING"}, {"state": "STARTING"}, {"state": "RUNNING", "draft": None}]
    result = moor("edit", "chat", "--apply", "--strategy", "rolling")
    assert result.exit_code == 0, result.stderr
    assert "chat is RUNNING." in result.stdout
    assert fake.asked("POST", "/containers/ctr_0/draft/apply") == [{"strategy": "rolling"}]


def test_applied_and_gone_back(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container(draft=APPLYING)
    fake.draft = DRAFT
    gone_back = {**APPLYING, "applying": False, "failure": FAILURE}
    fake.steps = [{}, {"state": "STARTING", "draft": gone_back}, {"state": "RUNNING"}]
    result = moor("edit", "chat", "--apply")
    assert result.exit_code == 1
    assert "(exited), so chat runs with the previous ones. The process ended." in result.stderr


def test_a_stopped_container_is_edited_at_once(moor: Moor, fake: FakeMoorage, tmp_path: Path) -> None:
    fake.add_container(state="STOPPED")
    (tmp_path / "edit.toml").write_text('name = "other"\nimage = "local/chat:2"\n')
    result = moor("edit", "chat", "-f", str(tmp_path / "edit.toml"), "--set", "port=9000")
    assert result.exit_code == 0, result.stderr
    assert fake.asked("PATCH", "/containers/ctr_0") == [{"image": "local/chat:2", "port": 9000}]
    assert "moor start chat" in result.stdout


def test_discarded(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    assert moor("edit", "chat", "--discard").exit_code == 0
    assert len(fake.asked("DELETE", "/containers/ctr_0/draft")) == 1
    assert moor("edit", "chat", "--discard", "--apply").exit_code == 2


@pytest.mark.parametrize("change", ["prot=1", "port=many", "port", "env.NOT_SET_ANYWHERE", "name=other"])
def test_wrong_changes(moor: Moor, fake: FakeMoorage, change: str) -> None:
    fake.add_container()
    assert moor("edit", "chat", "--set", change).exit_code == 2
