"""Who deals with whom: two organizations that lend a machine each, and a third that pays, with its own money, to run there."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx

from tests.acceptance.stack import CHAT, Admin, Person, until
from tests.machines.fleet import Fleet
from tests.machines.lab import Lab
from tests.machines.wires import BEHIND, NEAR

NEIGHBOUR = NEAR[1]
"""The other machine that is lent."""
SETTINGS = {
    "MOORAGE_COMMUNITY_MACHINES": "true",
    # Whoever signs up has nothing: what is spent was paid.
    "MOORAGE_INITIAL_CREDIT": "approval",
    "MOORAGE_BANK_DETAILS_LOCAL": "Harbour Bank, account 4711",
    "MOORAGE_BILLING_HOUR_S": "120",
    # All machines of the lab have this host's memory, and each proves three quarters of what is believed of it.
    "MOORAGE_LARGEST_MACHINE_MEMORY_GIB": "2",
}
PROVEN_BYTES = 2 * 2**30
PAID_MICROUSD = 200_000_000
OWN_PRICE, LENT_PRICE = 1_000_000, 600_000
_SIZES = {"vcpu_millis": 1000, "memory_bytes": 512 * 2**20, "disk_bytes": 4 * 2**30}
_RESOURCES = {
    "mode": "autoscaling",
    "instance_type": "harbour",
    "min_replicas": 3,
    "max_replicas": 3,
}
_REQUESTS_PER_S = 8
"""A light load: what runs in a sandbox takes several times as long for each."""
CANARIES = {"CHAT_NOTE": "environment-canary-8102"}
"""In the environment of what runs there."""


@dataclass
class People:
    lab: Lab
    owners: dict[str, Admin]
    """By machine."""
    tenant: Person

    def lend(self) -> dict[str, float]:
        """Both, side by side. How many seconds each took from its command to its proof."""
        commands = {name: partial(self.lab.lend, name, owner) for name, owner in self.owners.items()}
        return self.lab.join_by(commands, "probation")

    def say(self, name: str, word: str) -> None:
        """By its owner's word."""
        self.lab.say(name, word, self.owners[name])

    def machine(self, name: str) -> dict[str, Any]:
        """As its owner sees it."""
        answer = self.owners[name].api.get(f"/machines/{self.lab.ids[name]}")
        assert answer.status_code == httpx.codes.OK, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def earnings(self, name: str) -> dict[str, Any]:
        """What a machine served and earned this month, as its owner sees it."""
        owner = self.owners[name]
        found = owner.api.get(f"/organizations/{owner.organization_id}/earnings/machines").json()["items"]
        return next((one for one in found if one["machine_id"] == self.lab.ids[name]), {})

    def held_microusd(self, name: str) -> int:
        owner = self.owners[name]
        return int(owner.api.get(f"/organizations/{owner.organization_id}/earnings").json()["held_microusd"])


def people_of(lab: Lab) -> People:
    owners = {BEHIND: lab.stack.sign_in("ada@example.com"), NEIGHBOUR: lab.stack.sign_in("bea@example.com")}
    tenant = lab.stack.sign_in("tom@example.com")
    _pay(lab, tenant)
    return People(lab, owners, Person(lab.stack, tenant.api, tenant.new_project()))


def _pay(lab: Lab, tenant: Admin) -> None:
    """By bank transfer, which the operator confirms."""
    billing = f"/organizations/{tenant.organization_id}/billing"
    asked = {"method": "bank_transfer", "amount_microusd": PAID_MICROUSD}
    announced = tenant.api.post(f"{billing}/top-ups", json=asked)
    assert announced.status_code == httpx.codes.CREATED, announced.text
    path = f"/operator/bank-transfers/{announced.json()['id']}/confirm"
    with lab.stack.operator() as operator:
        confirmed = operator.post(path, json={"received_microusd": PAID_MICROUSD})
    assert confirmed.status_code == httpx.codes.OK, confirmed.text
    balance = tenant.api.get(billing).json()["balance_microusd"]
    assert balance == PAID_MICROUSD, "and nothing was given"


def offer_sizes(lab: Lab) -> None:
    """One, in both kinds."""
    with lab.stack.operator() as operator:
        for name, kind, price in (
            ("harbour", "operator", OWN_PRICE),
            ("harbour-lent", "community", LENT_PRICE),
        ):
            wish = {**_SIZES, "name": name, "infrastructure": kind, "price_per_hour_microusd": price}
            made = operator.post("/operator/instance-types", json=wish)
            assert made.status_code == httpx.codes.CREATED, made.text


def deploy(people: People) -> Fleet:
    """Three replicas on machines of either kind. Nobody gets there who did not say that it may be."""
    lab, tenant = people.lab, people.tenant
    wish = {
        "image": lab.image,
        "registry": lab.registry,
        "resources": _RESOURCES,
        "infrastructure": "any",
        "limits": {"retry_unanswered": True},
        "health_check": {"path": "/health", "timeout_s": 300},
        "env": CANARIES,
        "cache": {"size_gib": 1},
    }
    path = f"/projects/{tenant.project_id}/containers"
    refused = tenant.api.post(path, json={"name": "chat", **CHAT, **wish})
    assert refused.json().get("code") == "exposure_not_accepted", refused.text
    chat = tenant.deploy("chat", **wish, accept_exposure=True)
    records = tenant.api.get(f"/organizations/{tenant.organization_id}/audit").json()["items"]
    said = [one for one in records if one["action"] == "container.accept_exposure"]
    assert [one["target"] for one in said] == [chat.id], "it is remembered who said so"
    fleet = Fleet(lab, tenant, chat, tenant.key(), replicas=3, requests_per_s=_REQUESTS_PER_S)
    until(fleet.is_complete, "three replicas serve", timeout_s=600, pause_s=0.5)
    return fleet
