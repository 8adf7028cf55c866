"""No request makes rows without end: whoever changes things has an allowance, strangers have limits of their own."""

from typing import Any

import pytest
from api_support import (
    ANONYMOUS,
    KEYRING,
    SAFE_METHODS,
    Api,
    Asker,
    assert_problem,
    bearer,
    new_home,
    route_table,
)
from api_support import api_fixture as api_fixture
from test_api_access import absent_ids
from test_api_providers import provider_fixture as provider_fixture

from moorage.entrypoints.api import create_app
from moorage.identity.providers import service as providers
from moorage.kit import idempotency
from moorage.kit.allowance import Allowance
from moorage.kit.clock import SystemClock
from moorage.kit.errors import TooManyRequestsError
from tests.identity_provider import Provider

CHANGES = 3

FOR_STRANGERS = {
    "POST /api/v1/auth/email/start": "codes for an address, and from a source (`sign_in/limits.py`)",
    "POST /api/v1/auth/email/verify": "guesses from a source (`sign_in/limits.py`)",
    "POST /api/v1/auth/link/verify": "a code that was mailed",
    "POST /sign-in": "a code that was mailed",
    "POST /api/v1/auth/device": "device codes from a source, and in all",
    "POST /api/v1/auth/device/token": "a device code that somebody approved",
    "POST /device": "a device code that waits",
    "POST /api/v1/webhooks/stripe": "events that the provider signed",
    "POST /api/v1/machines/join": "a token of the operator's, good for one machine",
    "PUT /api/v1/machines/{machine_id}/key": "a machine that joined, once in a while",
    "POST /api/v1/machines/{machine_id}/leave": "a machine that joined, once",
}
"""Routes that change something for somebody without a name, and what bounds the rows that they make."""
ONCE = {"POST /api/v1/auth/logout"}
"""After it nobody is signed in any more."""


@pytest.fixture(name="few")
async def few_fixture(api: Api) -> Api:
    """In which nobody may change much."""
    settings = api.settings.model_copy(update={"changes_per_day": CHANGES})
    return Api(create_app(settings, api.database, KEYRING), api.database, settings)


@pytest.mark.long
async def test_every_route_that_adds_something_counts(few: Api) -> None:
    """The first requests of a new person are answered somehow; from then on each is refused, whatever it says."""
    routes = [one for one in route_table(few.app) if one[0] not in (*SAFE_METHODS, "DELETE")]
    assert set(FOR_STRANGERS) <= {f"{method} {path}" for method, path in routes}
    for number, (method, path) in enumerate(routes):
        if f"{method} {path}" in FOR_STRANGERS.keys() | ONCE:
            continue
        _, token = await few.new_person(f"person-{number}@example.com")
        asker, url = bearer("person", token), path.format(**absent_ids())
        for headers in ({}, {"Idempotency-Key": "one"}, {"Idempotency-Key": "two"}):
            answer = await few.ask(asker, method, url, json={}, headers=headers)
            assert answer.status_code != 429, f"{method} {path}: {answer.text}"
        for headers in ({}, {"Idempotency-Key": "three"}):
            answer = await few.ask(asker, method, url, json={}, headers=headers)
            assert_problem(answer, 429, "too_many_changes")
    print(f"\n{len(routes)} routes that add something, {len(FOR_STRANGERS)} of them for strangers")


async def test_keys_share_with_whoever_made_them_and_can_always_be_revoked(few: Api) -> None:
    home = await new_home(few)
    path = f"/projects/{home.project_id}/api-keys"
    made = (await few.post(home.admin, path, {"name": "leaked", "scope": "manage"})).json()
    thief = bearer("thief", made["key"])
    for _ in range(CHANGES - 1):
        assert (await few.post(thief, path, {"name": "another"})).status_code == 201
    assert_problem(await few.post(thief, path, {"name": "another"}), 429, "too_many_changes")
    assert_problem(await few.post(home.admin, path, {"name": "mine"}), 429, "too_many_changes")
    assert (await few.get(home.admin, path)).status_code == 200
    answer = await few.ask(home.admin, "DELETE", f"/api/v1/api-keys/{made['id']}")
    assert answer.status_code == 204
    other = await new_home(few, "grace@example.com")
    assert (await few.post(other.admin, "/organizations", {"name": "x"})).status_code == 201


class StillClock(SystemClock):
    at_s = 0.0

    def monotonic(self) -> float:
        return self.at_s


def test_an_allowance_comes_back_evenly() -> None:
    clock = StillClock()
    allowance = Allowance(24, clock)
    for _ in range(24):
        allowance.take("ada")
    with pytest.raises(TooManyRequestsError) as refused:
        allowance.take("ada")
    assert refused.value.retry_after_s == 3600
    allowance.take("grace")
    clock.at_s += 3600
    allowance.take("ada")
    with pytest.raises(TooManyRequestsError):
        allowance.take("ada")


async def keyed(api: Api, asker: Asker, key: str) -> Any:
    return await api.post(asker, "/organizations", {"name": "x" * 50}, headers={"Idempotency-Key": key})


async def test_remembered_requests_have_a_number(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a person with all keys they made; what is remembered stays so."""
    monkeypatch.setattr(idempotency, "MOST_PER_OWNER", 3)
    home = await new_home(api)
    path = f"/projects/{home.project_id}/api-keys"
    made = await api.post(
        home.admin, path, {"name": "one", "scope": "manage"}, headers={"Idempotency-Key": "1"}
    )
    assert made.status_code == 201
    theirs = bearer("key", made.json()["key"])
    for key in ("1", "2"):
        answer = await api.post(theirs, path, {"name": key}, headers={"Idempotency-Key": key})
        assert answer.status_code == 201
    for asker in (home.admin, theirs):
        answer = await api.post(asker, path, {"name": "more"}, headers={"Idempotency-Key": "new"})
        assert_problem(answer, 429, "too_many_idempotency_keys")
    again = await api.post(theirs, path, {"name": "2"}, headers={"Idempotency-Key": "2"})
    assert again.headers["idempotency-replayed"] == "true"
    assert len(await api.rows("SELECT 1 FROM idempotent_requests")) == 3
    assert (await keyed(api, (await new_home(api, "grace@example.com")).admin, "new")).status_code == 201


async def test_remembered_answers_have_a_size(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it, that something was done is remembered, and not done again."""
    home = await new_home(api)
    first = await keyed(api, home.admin, "1")
    assert first.status_code == 201
    ((size,),) = await api.rows("SELECT octet_length(answer) FROM idempotent_requests")
    monkeypatch.setattr(idempotency, "MOST_BYTES_PER_OWNER", size + 10)
    assert (await keyed(api, home.admin, "2")).status_code == 201
    assert (await keyed(api, home.admin, "1")).json() == first.json()
    assert_problem(await keyed(api, home.admin, "2"), 409, "idempotency_answer_lost")
    assert len(await api.rows("SELECT 1 FROM organizations WHERE name LIKE 'xxx%'")) == 2


async def test_sign_ins_elsewhere_that_are_under_way(
    api: Api, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that only sends the browser on makes a row; so it has a number for each source."""
    monkeypatch.setattr(providers, "MOST_PER_SOURCE", 3)
    login = "/auth/google/login"
    statuses = [(await api.get(ANONYMOUS, login)).status_code for _ in range(5)]
    assert statuses == [303] * 3 + [429] * 2
    elsewhere = Asker("elsewhere", address="192.0.2.7")
    assert (await api.get(elsewhere, login)).status_code == 303
    monkeypatch.setattr(providers, "MOST_UNDER_WAY", 4)
    assert (await api.get(Asker("third", address="192.0.2.8"), login)).status_code == 429
