"""What people are told of in the console: sentences without a hole, of events that are recorded."""

import pytest

from moorage.inbox.told import OF_ORGANIZATIONS, TOLD, Names, actions_for, text, title
from moorage.organizations.permissions import Permission, Role
from moorage.webhooks.events import EVENTS

NAMES = Names(project="production", container="whisper", machine="rack-7")


@pytest.mark.parametrize(
    ("event", "message", "details", "expected"),
    [
        (
            "container.state",
            "Listens on 127.0.0.1:8000; expected 0.0.0.0:8080.",
            {"from": "STARTING", "to": "FAILED"},
            ("whisper failed", "Listens on 127.0.0.1:8000; expected 0.0.0.0:8080."),
        ),
        ("container.state", None, {"to": "FAILED"}, ("whisper failed", None)),
        (
            "replica_limit.approved",
            None,
            {"replicas": 40, "limit": 40},
            ("More replicas were approved for production", "Its containers may have 40 replicas each."),
        ),
        (
            "replica_limit.refused",
            "not this month",
            {"replicas": 40, "limit": 30},
            ("More replicas were refused for production", "Not this month."),
        ),
        (
            "billing.low_credit",
            None,
            {"hours": 1, "available_microusd": 1_100_000},
            (
                "The credit ends within an hour",
                "$1.10 is left. Then containers finish their requests and stop.",
            ),
        ),
        (
            "billing.spending_alert",
            None,
            {"percent": 80, "spent_microusd": 80_000_000, "limit_microusd": 100_000_000},
            ("80 % of the monthly limit of production is spent", "$80.00 of $100.00."),
        ),
        (
            "billing.spending_alert",
            None,
            {"percent": 100, "spent_microusd": 100_000_000, "limit_microusd": 100_000_000},
            (
                "100 % of the monthly limit of production is spent",
                "$100.00 of $100.00. No further hours are bought.",
            ),
        ),
        (
            "billing.transfer_confirm",
            None,
            {"amount_microusd": 50_000_000, "received_microusd": 49_000_000},
            ("$49.00 arrived by bank transfer", None),
        ),
        (
            "webhook.disable",
            None,
            {"reason": "it answered 410"},
            ("A webhook was switched off", "Because it answered 410."),
        ),
        ("machine.silent", None, {"from": "active", "to": "lost"}, ("rack-7 does not answer", None)),
        ("invitation.accept", None, {"email": "ben@example.com"}, ("ben@example.com joined", None)),
    ],
)
def test_an_event_is_a_title_and_why(
    event: str, message: str | None, details: dict[str, object], expected: tuple[str, str | None]
) -> None:
    assert (title(event, details, NAMES), text(event, message, details)) == expected


def test_the_organizations_own_limit_is_called_so() -> None:
    said = title("billing.spending_alert", {"percent": 50}, Names())
    assert said == "50 % of the monthly limit of the organization is spent"


def test_each_is_an_event_and_can_be_said_whatever_an_earlier_version_recorded() -> None:
    assert EVENTS.keys() >= TOLD
    assert OF_ORGANIZATIONS.keys() <= TOLD
    for event in TOLD:
        assert title(event, {}, Names())
        assert text(event, None, {}) != ""


def test_a_name_is_no_template() -> None:
    assert title("container.state", {}, Names(container="{amount} {0}")) == "{amount} {0} failed"


def test_users_hear_nothing_of_money_people_or_machines() -> None:
    assert set(actions_for(Role.ADMIN)) == OF_ORGANIZATIONS.keys()
    assert set(actions_for(Role.USER)) == {
        event for event, needed in OF_ORGANIZATIONS.items() if needed is Permission.ORGANIZATION_VIEW
    }
