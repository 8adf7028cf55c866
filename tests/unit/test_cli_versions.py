"""`moor versions` and `moor rollback`, against a server that plays the documented API."""

from typing import Any

from cli_server import FakeMoorage, Moor

pytest_plugins = ["cli_fixtures"]

ROLLOUT = {"strategy": "rolling", "version": 3, "from_version": 2, "beside": True, "watch_s": 180.0}


def version(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "version": number,
        "created_at": "2026-01-31T12:00:00Z",
        "created_by": "usr_1",
        "image": "local/chat:latest",
        "digest": "sha256:9c41" + "0" * 56 + "e07b",
        "changes": [],
        "strategy": "rolling",
        "outcome": "replaced",
        "reason": None,
        "served_s": 7200.0,
        "can_roll_back": True,
        "answers": None,
        "errors": None,
        **changes,
    }


def test_history_says_what_changed_and_why_it_went_back(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container(version=2)
    changes = [{"field": "port", "from": 8000, "to": 9000}, {"field": "env.A", "from": "***", "to": "***"}]
    reason = "6.4 % of its 1,208 answers were errors; the bound is 1 %."
    fake.versions = [
        version(3, outcome="rolled_back", reason=reason, changes=changes, served_s=0.0),
        version(2, outcome="serving", can_roll_back=False),
        version(1),
    ]
    shown = " ".join(moor("versions", "chat").stdout.split())
    for words in ("rolled_back", "2.0 h", "never", "created", f"Version 3: {reason}"):
        assert words in shown
    assert moor("versions", "chat", "--json").stdout.count("can_roll_back") == 3


def test_back_to_what_served_before(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container(version=4, rollout={**ROLLOUT, "version": 5, "from_version": 4})
    fake.versions = [version(5, outcome=None), version(4, outcome="serving"), version(3)]
    fake.steps = [{}, {"rollout": None}]
    result = moor("rollback", "chat")
    assert result.exit_code == 0, result.stderr
    assert fake.asked("POST", "/containers/ctr_0/rollback") == [{"version": 4}], (
        "an update that goes on is called off"
    )


def test_the_default_is_the_newest_that_served(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container(version=4)
    fake.versions = [
        version(4, outcome="serving", can_roll_back=False),
        version(3, outcome="rolled_back"),
        version(2),
        version(1),
    ]
    assert moor("rollback", "chat", "--no-wait").exit_code == 0
    assert moor("rollback", "chat", "1", "--no-wait").exit_code == 0
    assert fake.asked("POST", "/containers/ctr_0/rollback") == [{"version": 2}, {"version": 1}]


def test_nothing_to_go_back_to(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    fake.versions = [version(1, outcome="serving", can_roll_back=False)]
    result = moor("rollback", "chat")
    assert result.exit_code == 2
    assert "No other version of chat has served" in result.stderr
