"""`moor wake`, `moor sleeps`, and how a sleeping container is shown, against a server that plays the documented API."""

from cli_server import FakeMoorage, Moor

pytest_plugins = ["cli_fixtures"]

ASLEEP = {"state": "RUNNING", "sleep_after_s": 300, "asleep": True, "asleep_since": "2026-01-31T11:00:00Z"}
SAVINGS = {"since_midnight_microusd": 2_480_000, "total_microusd": 7_000_000, "asleep_s": 3600.0, "sleeps": 2}


def test_a_sleeping_container_is_shown_as_asleep_and_says_what_that_saved(
    moor: Moor, fake: FakeMoorage
) -> None:
    fake.add_container(**ASLEEP)
    fake.savings = SAVINGS
    assert "RUNNING (asleep)" in moor("list").stdout
    described = moor("describe", "chat").stdout
    assert "after 300 s without a request; 7.00 USD saved in 90 days" in described


def test_wake_waits_until_it_serves(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container(**ASLEEP)
    fake.steps = [{}, {}, {"asleep": False, "woken_at": None}]
    woken = moor("wake", "chat")
    assert woken.exit_code == 0
    assert fake.steps == []
    assert "already" in moor("wake", "chat").stdout


def test_sleeps_are_listed_with_what_they_saved(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    fake.savings = SAVINGS
    fake.sleeps = [
        {
            "asleep_at": "2026-01-31T12:00:00Z",
            "woken_at": None,
            "woken_by": None,
            "served_at": None,
            "saved_microusd": 480_000,
        },
        {
            "asleep_at": "2026-01-31T09:00:00Z",
            "woken_at": "2026-01-31T11:00:00Z",
            "woken_by": "key_1",
            "served_at": "2026-01-31T11:00:04Z",
            "saved_microusd": 2_000_000,
        },
    ]
    shown = moor("sleeps", "chat").stdout
    assert "key_1" in shown
    assert "4s" in shown
    assert "Sleeping saved 2.48 USD since midnight (UTC), 7.00 USD in 90 days." in shown


def test_deploy_and_edit_take_the_time(moor: Moor, fake: FakeMoorage) -> None:
    assert moor("deploy", "--image", "local/chat", "--sleep-after", "300", "--no-wait").exit_code == 0
    assert [body for *_, body in fake.requests if body][-1]["sleep_after_s"] == 300
