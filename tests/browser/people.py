"""Who works in the scene's organization, with which keys, and what they and the operator did in its weeks."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from moorage.kit.ids import new_audit_record_id
from tests.browser.deliveries import GONE, GONE_BECAUSE
from tests.browser.world import World
from tests.database.api_support import KEYRING, Api, Asker, Home, bearer

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
_KEYS = {
    "chat-frontend": ("inference", None, timedelta(days=26, hours=5, minutes=11)),
    "ci-deploys": ("manage", None, timedelta(days=26, hours=4, minutes=52)),
    "load-test": ("inference", 1200, timedelta(days=9, hours=1, minutes=34)),
    "mobile-app": ("inference", None, timedelta(days=5, hours=3, minutes=19)),
}
"""Scope, requests a minute, and how long ago each was made."""
_USED = {
    "chat-frontend": (timedelta(seconds=4), "203.0.113.7"),
    "ci-deploys": (timedelta(hours=21, minutes=17), "198.51.100.20"),
    "mobile-app": (timedelta(seconds=40), "203.0.113.94"),
    "router-staging": (timedelta(hours=1), "203.0.113.7"),
}


@dataclass(frozen=True)
class Webhooks:
    served: str
    gone: str


@contextmanager
def then(world: World, home: Home, moment: datetime) -> Iterator[None]:
    """What somebody does who was signed in at that time."""
    with world.at(moment):
        signed_in = "UPDATE sessions SET last_used_at = now(), expires_at = now() + interval '14 days' WHERE user_id = :id"
        world.do(world.api.execute(signed_in, id=home.user_id))
        yield


async def new_api_key(api: Api, asker: Asker, project_id: str, name: str, **wanted: Any) -> str:
    answer = await api.post(
        asker, f"/projects/{project_id}/api-keys", {"name": name, "scope": "inference", **wanted}
    )
    return str(answer.json()["id"])


def add_webhooks(world: World, home: Home) -> Webhooks:
    """Two that were there from early on."""

    def added(ago: timedelta, url: str) -> str:
        with world.at(world.now() - ago):
            return world.do(world.api.new_webhook(home.organization_id, url))

    gone = added(timedelta(days=22, hours=1, minutes=4), "https://chat.northwind.example/hooks/ops")
    served = added(timedelta(days=20, hours=3, minutes=37), "https://hooks.northwind.example/moorage")
    events = "UPDATE webhooks SET events = '{container.*}', format = 'chat' WHERE id = :id"
    world.do(world.api.execute(events, id=gone))
    return Webhooks(served, gone)


def add_keys(world: World, home: Home) -> dict[str, str]:
    """By name."""
    now, found = world.now(), {}
    for name, (scope, limit, ago) in _KEYS.items():
        with then(world, home, now - ago):
            wanted = {"scope": scope, "requests_per_minute": limit}
            found[name] = world.do(new_api_key(world.api, home.admin, home.project_id, name, **wanted))
    with then(world, home, now - timedelta(days=6, hours=2, minutes=8)):
        path = f"/api/v1/api-keys/{found['load-test']}"
        world.do(world.api.ask(home.admin, "PATCH", path, json={"disabled": True}))
    return found


def note_uses(world: World, home: Home) -> None:
    for name, (ago, address) in _USED.items():
        world.do(
            world.api.execute(
                "INSERT INTO api_key_uses (key_id, last_used_at, last_used_from) SELECT k.id, :at, :address FROM api_keys k "
                "JOIN projects p ON p.id = k.project_id WHERE k.name = :name AND p.organization_id = :organization",
                at=world.now() - ago,
                address=address,
                name=name,
                organization=home.organization_id,
            )
        )


def add_people(world: World, home: Home, webhooks: Webhooks, shed: str) -> None:
    """`shed`: their machine that the operator bans."""
    api, now = world.api, world.now()
    organization = f"/organizations/{home.organization_id}"
    with then(world, home, now - timedelta(days=12, hours=6, minutes=27)):
        credit = {
            "organization_id": home.organization_id,
            "amount_microusd": 200_000_000,
            "reason": "For the outage of 6 November",
        }
        world.do(api.post(api.operator, "/operator/credits", credit))
    with then(world, home, now - timedelta(days=3, hours=4, minutes=46)):
        world.do(_ban(api, shed, "It offers a GPU that it does not have."))
    with then(world, home, now - GONE):
        world.do(_audit(api, home, "webhook.disable", webhooks.gone, {"reason": GONE_BECAUSE}))
    with then(world, home, now - timedelta(hours=22, minutes=13, seconds=9)):
        world.do(api.post(home.admin, f"{organization}/invitations", {"email": "otto@northwind.example"}))
    with then(world, home, now - timedelta(hours=5, minutes=31, seconds=44)):
        transfer = {"method": "bank_transfer", "amount_microusd": 500_000_000, "transfer": "local"}
        world.do(api.post(home.admin, f"{organization}/billing/top-ups", transfer))
    with then(world, home, now - timedelta(hours=4, minutes=6, seconds=15)):
        more = {"replicas": 60, "note": "Launch day: four times the usual traffic."}
        world.do(api.post(home.admin, f"/projects/{home.project_id}/replica-limit-requests", more))
    with then(world, home, now - timedelta(hours=2, minutes=18, seconds=33)):
        _, ines = world.do(api.new_person("ines@northwind.example"))
        _, invitation = world.do(api.new_invitation(home.organization_id, "ines@northwind.example"))
        world.do(api.post(bearer("ines", ines), f"/invitations/{invitation}/accept"))


def sign_in(world: World, home: Home) -> None:
    """As they are now: for an hour, and some of what they are told is new to them."""
    now = world.now()
    world.do(
        world.api.execute(
            "UPDATE sessions SET client = :client, created_at = :at, last_used_at = :now, expires_at = :ends WHERE user_id = :id",
            client=FIREFOX,
            at=now - timedelta(hours=1),
            now=now,
            ends=now + timedelta(days=14) - timedelta(hours=1),
            id=home.user_id,
        )
    )
    world.do(world.api.execute("UPDATE users SET is_operator = true WHERE id = :id", id=home.user_id))
    world.do(
        world.api.execute(
            "UPDATE organization_members SET notifications_read_until = :at WHERE user_id = :id",
            at=now - timedelta(hours=1),
            id=home.user_id,
        )
    )


async def ask_for_payout(api: Api, organization_id: str, amount_microusd: int) -> None:
    """To an account that is theirs for a while already."""
    await api.new_payout(organization_id)
    details = {"holder": "Harbour Labs GmbH", "account": "DE02120300000000202051", "bank": "BYLADEM1001"}
    sealed = KEYRING.encrypt(
        json.dumps(details).encode(), f"payout_accounts.sealed_details:{organization_id}"
    )
    values = {"id": organization_id, "sealed": sealed, "account": details["account"][-4:]}
    await api.execute(
        "UPDATE payout_accounts SET sealed_details = :sealed, shown_account = :account, "
        "changed_at = now() - interval '24 days' WHERE organization_id = :id",
        **values,
    )
    await api.execute(
        "UPDATE payouts SET sealed_details = :sealed, shown_account = :account, amount_microusd = :amount "
        "WHERE organization_id = :id",
        amount=amount_microusd,
        **values,
    )


async def _ban(api: Api, machine_id: str, reason: str) -> None:
    await api.execute(
        "UPDATE machines SET state = 'probation', held_because = NULL WHERE id = :id", id=machine_id
    )
    await api.execute(
        "DELETE FROM machine_state_changes WHERE machine_id = :id AND state = 'banned'", id=machine_id
    )
    answer = await api.post(api.operator, f"/operator/machines/{machine_id}/ban", {"reason": reason})
    assert answer.is_success, answer.text


async def _audit(api: Api, home: Home, action: str, target: str, details: dict[str, Any]) -> None:
    await api.execute(
        "INSERT INTO audit_records (id, organization_id, actor, action, target, details) "
        "VALUES (:id, :organization_id, 'system', :action, :target, CAST(:details AS jsonb))",
        id=new_audit_record_id(),
        organization_id=home.organization_id,
        action=action,
        target=target,
        details=json.dumps(details),
    )
