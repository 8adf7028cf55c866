"""`moor update` and `moor canary`, against a server that plays the documented API."""

from cli_server import FakeMoorage, Moor
from test_cli_versions import version

pytest_plugins = ["cli_fixtures"]

CANARY = {
    "strategy": "canary",
    "version": 3,
    "from_version": 2,
    "beside": True,
    "watch_s": 180.0,
    "share": 10,
    "promote_after_s": None,
    "serving_since": "2026-01-31T12:00:00Z",
}
FIGURES = {
    "answers": 900,
    "errors": 9,
    "response_p50_ms": 188.0,
    "response_p95_ms": 412.0,
    "replicas_ready": 2,
}


def begun(fake: FakeMoorage) -> None:
    fake.add_container(version=2, rollout=CANARY)
    fake.versions = [version(3, outcome=None, **FIGURES), version(2, outcome="serving", **FIGURES)]


def test_both_side_by_side(moor: Moor, fake: FakeMoorage) -> None:
    begun(fake)
    result = moor("canary", "chat")
    assert result.exit_code == 0, result.stderr
    shown = " ".join(result.stdout.split())
    for words in ("2 90 % 900 1.00 % 188 412 2", "3 10 % 900 1.00 % 188 412 2", "moor canary promote chat"):
        assert words in shown
    assert "on trial, 10 % of the requests" in " ".join(moor("versions", "chat").stdout.split())


def test_another_share_and_its_end(moor: Moor, fake: FakeMoorage) -> None:
    begun(fake)
    for words in (("share", "chat", "25"), ("share", "chat", "5", "--promote-after", "30")):
        result = moor("canary", *words)
        assert result.exit_code == 0, result.stderr
    assert fake.asked("POST", "/containers/ctr_0/canary") == [
        {"share": 25},
        {"share": 5, "promote_after_s": 1800},
    ]
    for how in ("promote", "abort"):
        result = moor("canary", how, "chat", "--no-wait")
        assert result.exit_code == 0, result.stderr
        assert len(fake.asked("POST", f"/containers/ctr_0/canary/{how}")) == 1


def test_begun_with_update(moor: Moor, fake: FakeMoorage) -> None:
    begun(fake)
    result = moor("update", "chat", "--set", "port=9000", "--canary", "10", "--promote-after", "30")
    assert result.exit_code == 0, result.stderr
    wanted = {"strategy": "canary", "share": 10, "promote_after_s": 1800}
    assert fake.asked("POST", "/containers/ctr_0/draft/apply") == [wanted]
    assert moor("update", "chat", "--promote-after", "30").exit_code == 2
    assert moor("update", "chat", "--canary", "51").exit_code == 2


def test_without_one(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    result = moor("canary", "chat")
    assert result.exit_code != 0
    assert "moor update chat --canary 10" in result.stderr
