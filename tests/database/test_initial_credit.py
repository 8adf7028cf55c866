"""The credit to begin with comes once: for one mailbox however it is written, and for one card."""

import asyncio
import re

import httpx
import pytest
from api_support import ANONYMOUS, KEYRING, Api, Home, assert_problem, bearer
from stripe_stand_in import Stripe
from test_cards import USD, api, deliver, session_of, stripe, top_up
from test_saved_cards import save_card

from moorage.entrypoints.api import create_app
from moorage.entrypoints.migrate import migrate
from moorage.kit.crypto import sha256
from moorage.kit.email import mailbox, normalized
from moorage.kit.settings import Settings

__all__ = ["api", "stripe"]

SPELLINGS = (
    "ada@example.com",
    "ADA@example.com",
    "ada+1@example.com",
    "Ada+two@Example.com",
    "ada+@example.com",
)


async def enter_code(api: Api, email: str) -> httpx.Response:
    started = await api.post(ANONYMOUS, "/auth/email/start", {"email": email})
    assert started.status_code == 202, started.text
    text = next(mail["text"] for mail in await api.mails() if mail["to"] == normalized(email))
    code = re.search(r"\b[0-9]{6}\b", text)
    assert code is not None
    return await api.post(ANONYMOUS, "/auth/email/verify", {"email": email, "code": code.group()})


async def sign_up(api: Api, email: str) -> Home:
    answer = await enter_code(api, email)
    assert answer.status_code == 200, answer.text
    token = answer.json()["session_token"]
    person = bearer(email, token)
    (organization,) = (await api.get(person, "/organizations")).json()["items"]
    return Home(person, token, answer.json()["user"]["id"], organization["id"], "")


async def billing(api: Api, home: Home) -> tuple[int, str | None]:
    """The balance in dollars, and what the credit to begin with waits for."""
    found = (await api.get(home.admin, f"/organizations/{home.organization_id}/billing")).json()
    return found["balance_microusd"] // USD, found["initial_credit"]


def change(api: Api, **settings: object) -> None:
    api.settings = api.settings.model_copy(update=settings)
    api.app = create_app(api.settings, api.database, KEYRING)


@pytest.mark.long
async def test_spellings_of_one_mailbox(api: Api) -> None:
    homes = [await sign_up(api, email) for email in SPELLINGS]
    assert len({home.user_id for home in homes}) == len(SPELLINGS), "who somebody is stays as it was"
    assert [(await billing(api, home))[0] for home in homes] == [20, 0, 0, 0, 0]
    why = (await billing(api, homes[1]))[1]
    assert why is not None
    assert "another spelling of your e-mail address" in why
    assert (await billing(api, homes[0]))[1] is None


@pytest.mark.long
async def test_racing_spellings(api: Api) -> None:
    emails = [f"a.d.a+{number}@{domain}" for number in range(3) for domain in ("gmail.com", "googlemail.com")]
    homes = await asyncio.gather(*(sign_up(api, email) for email in emails))
    assert sorted([(await billing(api, home))[0] for home in homes]) == [0] * 5 + [20]


@pytest.mark.long
async def test_with_a_card(api: Api, stripe: Stripe) -> None:
    """Saved or paid with; each card counts once, and each mailbox, too."""
    change(api, initial_credit="card")
    ada, eve, variant = [
        await sign_up(api, email) for email in ("ada@example.com", "eve@example.com", "ada+x@example.com")
    ]
    credit, why = await billing(api, ada)
    assert credit == 0
    assert why is not None
    assert "save a card" in why
    for _ in range(2):
        await save_card(api, stripe, ada)
        assert await billing(api, ada) == (20, None)
    await save_card(api, stripe, eve)
    assert (await billing(api, eve))[0] == 0, "ada's card"
    made = await top_up(api, eve, 50)
    event = stripe.pay(session_of(made), "4242")
    assert (await deliver(api, event)).status_code == 200
    assert (await billing(api, eve))[0] == 50, "ada's card again"
    made = await top_up(api, eve, 50)
    event = stripe.pay(session_of(made), "1881")
    for _ in range(2):
        assert (await deliver(api, event)).status_code == 200
        assert await billing(api, eve) == (120, None)
    await save_card(api, stripe, variant, "0077")
    assert (await billing(api, variant))[0] == 0, "a card does not make another mailbox"


@pytest.mark.long
async def test_one_card_of_many_at_once(api: Api, stripe: Stripe) -> None:
    change(api, initial_credit="card")
    homes = [await sign_up(api, f"person-{number}@example.com") for number in range(4)]
    events = []
    for home in homes:
        made = (await api.post(home.admin, f"/organizations/{home.organization_id}/billing/card")).json()
        events.append(stripe.save_card(made["checkout_url"].rpartition("/")[2]))
    answers = await asyncio.gather(*(deliver(api, event) for event in events * 2))
    assert {answer.status_code for answer in answers} == {200}
    assert sorted([(await billing(api, home))[0] for home in homes]) == [0, 0, 0, 20]


async def test_a_payment_that_was_taken_back(api: Api, stripe: Stripe) -> None:
    change(api, initial_credit="card")
    home = await sign_up(api, "ada@example.com")
    made = await top_up(api, home, 50)
    paid = stripe.pay(session_of(made))
    stripe.refund(stripe.intent_of(session_of(made)), 5000)
    assert (await deliver(api, paid)).status_code == 200
    assert (await billing(api, home))[0] == 0


async def test_with_approval(api: Api) -> None:
    change(api, initial_credit="approval")
    ada, variant = await sign_up(api, "ada@example.com"), await sign_up(api, "Ada@example.com")
    credit, why = await billing(api, ada)
    assert credit == 0
    assert why is not None
    assert api.settings.support_contact in why
    path = f"/operator/organizations/{ada.organization_id}/initial-credit"
    assert_problem(await api.post(ada.admin, path), 403)
    answers = await asyncio.gather(*(api.post(api.operator, path) for _ in range(3)))
    assert sorted([answer.status_code for answer in answers]) == [201, 409, 409]
    assert await billing(api, ada) == (20, None)
    audit = (await api.get(ada.admin, f"/organizations/{ada.organization_id}/audit")).json()["items"]
    assert [one["action"] for one in audit].count("billing.initial_credit") == 1
    again = await api.post(api.operator, f"/operator/organizations/{variant.organization_id}/initial-credit")
    assert_problem(again, 409, "initial_credit_not_waiting")
    nobody = await api.post(api.operator, "/operator/organizations/org_nothing/initial-credit")
    assert_problem(nobody, 404)


async def test_sign_up_domains(api: Api) -> None:
    change(api, sign_up_domains=("example.com", "example.org"))
    assert (await enter_code(api, "ada@Example.ORG")).status_code == 200
    ada_id, _ = await api.new_person("known@elsewhere.example")
    assert (await enter_code(api, "known@elsewhere.example")).status_code == 200
    for outsider in ("eve@elsewhere.example", "eve@sub.example.com", "eve@notexample.com"):
        answer = await enter_code(api, outsider)
        detail = assert_problem(answer, 403, "forbidden")["detail"]
        assert "example.com, example.org" in detail
        assert api.settings.support_contact in detail
    organization_id = await api.new_organization("friends", {ada_id: "admin"})
    await api.new_invitation(organization_id, "eve@elsewhere.example")
    assert (await enter_code(api, "eve@elsewhere.example")).status_code == 200


@pytest.mark.parametrize("value", ["@example.com", "exa mple.com", ""])
def test_what_is_no_domain(value: str) -> None:
    with pytest.raises(ValueError, match="must be domains"):
        Settings(sign_up_domains=(value,))


async def test_the_migration_knows_who_had_it(api: Api, database_dsn: str) -> None:
    """Of spellings that all had it, each keeps it, and the mailbox gets no more."""
    for number, email in enumerate((*SPELLINGS, "a.d.a@gmail.com", "+x@gmail.com", "..@gmail.com")):
        user_id, _ = await api.new_person(email)
        organization_id = await api.new_organization(f"org-{number}", {user_id: "admin"})
        await api.execute(
            "INSERT INTO ledger_transactions (id, key, kind, organization_id, details) VALUES "
            "(:key, :key, 'initial_credit', :organization_id, jsonb_build_object('user_id', CAST(:user_id AS text)))",
            key=f"old-{number}",
            organization_id=organization_id,
            user_id=user_id,
        )
    await migrate(database_dsn, "0029")
    await migrate(database_dsn)
    found = await api.rows(
        "SELECT u.email, i.mailbox_hash FROM initial_credits i JOIN users u ON u.id = i.user_id WHERE NOT u.is_operator"
    )
    assert {email for email, _ in found} == {
        "ada@example.com",
        "a.d.a@gmail.com",
        "+x@gmail.com",
        "..@gmail.com",
    }
    assert all(bytes(digest) == sha256(mailbox(email)) for email, digest in found)
    late = await sign_up(api, "ada+late@example.com")
    assert (await billing(api, late))[0] == 0
