"""`moor webhooks`, `moor operator`, `moor sessions` and invitations, against a server that plays the documented API."""

import json

import pytest
from cli_server import CREATED_AT, FakeMoorage, Moor

pytest_plugins = ["cli_fixtures"]

WEBHOOKS = "/organizations/org_one/webhooks"
WEBHOOK = {
    "id": "whk_1",
    "url": "https://hooks.example/x",
    "events": ["container.*"],
    "enabled": True,
    "disabled_reason": None,
    "created_at": CREATED_AT,
}
DELIVERY = {
    "id": "msg_1",
    "event": "container.state",
    "created_at": CREATED_AT,
    "delivered_at": None,
    "next_try_at": None,
    "tries": 1,
    "status": None,
    "error": None,
}


def test_webhooks(moor: Moor, fake: FakeMoorage) -> None:
    fake.refusals["POST", WEBHOOKS] = (201, {**WEBHOOK, "secret": "whsec_shown_once"})
    created = moor("webhooks", "create", WEBHOOK["url"], "--event", "container.*", "--event", "member.remove")
    assert created.stdout == "whsec_shown_once\n"
    assert fake.asked("POST", WEBHOOKS) == [
        {"url": WEBHOOK["url"], "format": "event", "events": ["container.*", "member.remove"]}
    ]
    moor("webhooks", "create", WEBHOOK["url"])
    assert fake.asked("POST", WEBHOOKS)[-1] == {"url": WEBHOOK["url"], "format": "event"}
    disabled = {**WEBHOOK, "id": "whk_2", "enabled": False, "disabled_reason": "it failed for three days"}
    fake.refusals["GET", WEBHOOKS] = (200, {"items": [WEBHOOK, disabled], "next_cursor": None})
    listed = " ".join(moor("webhooks", "list").stdout.split())
    assert "enabled" in listed
    assert "whk_2" in listed
    fake.refusals["DELETE", f"{WEBHOOKS}/whk_1"] = (204, None)
    assert moor("webhooks", "delete", "whk_1").stdout == "Deleted whk_1.\n"
    fake.refusals["POST", f"{WEBHOOKS}/whk_1/test"] = (202, DELIVERY)
    assert moor("webhooks", "test", "whk_1").stdout == "msg_1 is on its way.\n"


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"delivered_at": CREATED_AT, "status": 204}, "delivered (204)"),
        ({"status": 500, "next_try_at": CREATED_AT}, "answered 500; next try"),
        ({"error": "no answer in time"}, "given up: no answer in time"),
        ({"tries": 0, "next_try_at": CREATED_AT}, "not tried yet; next try"),
    ],
)
def test_deliveries(moor: Moor, fake: FakeMoorage, changes: dict[str, object], shown: str) -> None:
    page = {"items": [DELIVERY | changes], "next_cursor": None}
    fake.refusals["GET", f"{WEBHOOKS}/whk_1/deliveries"] = (200, page)
    assert shown in " ".join(moor("webhooks", "deliveries", "whk_1").stdout.split())


def test_operator_lists(moor: Moor, fake: FakeMoorage) -> None:
    organization = {"id": "org_one", "name": "ada", "member_count": 2, "project_count": 1}
    organization |= {"suspended_at": None, "created_at": CREATED_AT}
    fake.refusals["GET", "/operator/organizations"] = (200, {"items": [organization], "next_cursor": None})
    assert "org_one" in moor("operator", "organizations").stdout
    user = {"id": "usr_1", "email": "ada@example.com", "is_operator": True, "organization_ids": ["org_one"]}
    page = {"items": [user | {"created_at": CREATED_AT}], "next_cursor": None}
    fake.refusals["GET", "/operator/users"] = (200, page)
    assert "ada@example.com" in moor("operator", "users").stdout
    forbidden = {"code": "forbidden", "detail": "Only the operator of this installation can do this."}
    fake.refusals["GET", "/operator/users"] = (403, forbidden)
    assert "Only the operator" in moor("operator", "users").stderr


def test_operator_changes(moor: Moor, fake: FakeMoorage) -> None:
    path = "/operator/organizations/org_one"
    for action in ("suspend", "resume"):
        fake.refusals["POST", f"{path}/{action}"] = (200, {"id": "org_one", "suspended_at": None})
    assert moor("operator", "suspend", "org_one").exit_code == 2, "a reason belongs to it"
    assert moor("operator", "suspend", "org_one", "--reason", "abuse").stdout == "Suspended org_one.\n"
    assert fake.asked("POST", f"{path}/suspend") == [{"reason": "abuse"}]
    assert moor("operator", "resume", "org_one").stdout == "Resumed org_one.\n"
    assert moor("operator", "forget-gateway", "gwy_one").stdout == "gwy_one is forgotten.\n"
    gone = {"node": "one", "since": CREATED_AT, "missing": 3, "expected": 4, "gone_at": CREATED_AT}
    fake.refusals["POST", "/operator/nodes/one/replicas-gone"] = (200, gone)
    said = moor("operator", "replicas-gone", "one").stdout
    assert said == "The 3 replicas missing on one are being replaced.\n"
    fake.refusals["PUT", "/operator/nodes/one/intake"] = (200, {"intake": "draining"})
    drained = moor("operator", "intake", "one", "draining").stdout
    assert drained == "one is being emptied: each replica goes once another serves in its place.\n"
    assert fake.asked("PUT", "/operator/nodes/one/intake") == [{"intake": "draining"}]
    assert moor("operator", "intake", "one", "ajar").exit_code == 2
    given = {"id": "txn_1", "organization_id": "org_one", "amount_microusd": 12_500_000}
    fake.refusals["POST", "/operator/credits"] = (201, given)
    credit = moor("operator", "credit", "org_one", "12.50", "--reason", "an outage")
    assert credit.stdout == "Gave org_one 12.50 USD (txn_1).\n"
    wanted = {"organization_id": "org_one", "amount_microusd": 12_500_000, "reason": "an outage"}
    assert fake.asked("POST", "/operator/credits") == [wanted]
    assert moor("operator", "credit", "org_one", "much", "--reason", "an outage").exit_code == 2


def test_an_invitation_is_sent_again(moor: Moor, fake: FakeMoorage) -> None:
    moor("members", "invite", "cy@example.com")
    resend = "/organizations/org_one/invitations/inv_1/resend"
    fake.refusals["POST", resend] = (200, fake.invitations[0])
    assert "Invited cy@example.com again" in moor("members", "resend", "cy@example.com").stdout
    assert len(fake.asked("POST", resend)) == 1
    assert moor("members", "resend", "absent@example.com").exit_code == 7


def test_sessions(moor: Moor, fake: FakeMoorage) -> None:
    one = {"id": "ses_1", "client": "moor on my-laptop", "current": True, "last_used_at": CREATED_AT}
    fake.refusals["GET", "/me/sessions"] = (200, {"items": [one | {"expires_at": CREATED_AT}]})
    assert "moor on my-laptop" in moor("sessions", "list").stdout
    for path in ("/me/sessions", "/me/sessions/ses_1"):
        fake.refusals["DELETE", path] = (204, None)
    assert moor("sessions", "end", "ses_1").stdout == "Ended ses_1.\n"
    assert moor("sessions", "end", "--others").stdout == "Ended all other sessions.\n"
    assert [len(fake.asked("DELETE", path)) for path in ("/me/sessions", "/me/sessions/ses_1")] == [1, 1]
    for wrong in (("sessions", "end"), ("sessions", "end", "ses_1", "--others")):
        assert moor(*wrong).exit_code == 2


def test_audit(moor: Moor, fake: FakeMoorage) -> None:
    """Who did what to which container, also by a key."""
    record = {
        "id": "act_1",
        "at": CREATED_AT,
        "actor": "key_1",
        "actor_email": None,
        "actor_name": "ci",
        "action": "container.stop",
        "target": "ctr_1",
        "details": {
            "name": "chat",
            "project_name": "production",
            "generation": 2,
            "disabled": False,
            "message": None,
        },
    }
    path = "/organizations/org_one/audit"
    fake.refusals["GET", path] = (200, {"items": [record, {**record, "id": "act_2"}], "next_cursor": None})
    shown = " ".join(moor("org", "audit", "--limit", "1").stdout.split())
    assert shown.endswith(
        "ci container.stop ctr_1 disabled False, generation 2, name chat, project_name production"
    )
    assert [one["id"] for one in json.loads(moor("org", "audit", "--json").stdout)] == ["act_1", "act_2"]
