"""Sign-in through Google and GitHub, against a provider that checks what it is sent, and lies when told to."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from api_support import ANONYMOUS, COOKIE, KEYRING, Api, Asker, assert_problem, cookie
from api_support import api_fixture as api_fixture
from joserfc.jwk import OctKey, RSAKey
from pydantic import SecretStr

from moorage.entrypoints.api import create_app
from tests.identity_provider import CLIENT_ID, CLIENT_SECRET, Lies, Person, Provider, running_provider

ADA = Person("1001", "ada@example.com")
EVE = Person("6666", "eve@example.com")
ATTEMPT_COOKIE = "moorage_sign_in"


@pytest.fixture(name="provider")
async def provider_fixture(api: Api) -> AsyncIterator[Provider]:
    async with running_provider() as provider:
        api.settings = api.settings.model_copy(
            update={
                "google_client_id": CLIENT_ID,
                "google_client_secret": SecretStr(CLIENT_SECRET),
                "google_issuer": provider.url,
                "github_client_id": CLIENT_ID,
                "github_client_secret": SecretStr(CLIENT_SECRET),
                # The same server by its other name, so that the two are different issuers.
                "github_url": provider.url.replace("127.0.0.1", "localhost") + "/",
                "github_api_url": f"{provider.url}/api/v3",
            }
        )
        base = f"{api.settings.api_base_url}/api/v1/auth"
        provider.redirect_uris = {f"{base}/google/callback", f"{base}/github/callback"}
        api.app = create_app(api.settings, api.database, KEYRING)
        yield provider


class Browser:
    """One that keeps the cookie of its attempt."""

    def __init__(self, api: Api, name: str = "google") -> None:
        self.api, self.name, self.token, self.url = api, name, "", ""

    async def begin(self, **query: str) -> str:
        answer = await self.api.get(ANONYMOUS, f"/auth/{self.name}/login", params=query)
        assert answer.status_code == 303, answer.text
        self.url = answer.headers["location"]
        self.token = answer.headers["set-cookie"].partition("=")[2].partition(";")[0]
        return self.url

    async def come_back(self, parameters: dict[str, str], name: str | None = None) -> httpx.Response:
        headers = {"Cookie": f"{ATTEMPT_COOKIE}={self.token}"} if self.token else {}
        asker = Asker("browser", headers)
        return await self.api.get(asker, f"/auth/{name or self.name}/callback", params=parameters)


async def signed_in_as(api: Api, answer: httpx.Response) -> str:
    assert answer.status_code == 303, answer.text
    cookies = {
        one.partition("=")[0]: one.partition("=")[2].partition(";")[0]
        for one in answer.headers.get_list("set-cookie")
    }
    assert cookies[ATTEMPT_COOKIE] == '""', "the attempt's cookie is taken away"
    me = (await api.get(cookie(cookies[COOKIE]), "/me")).json()
    return str(me["user"]["email"])


async def test_not_configured(api: Api) -> None:
    assert (await api.get(ANONYMOUS, "/auth/providers")).json() == {"items": [], "mails_codes": False}
    for path in ("login", "callback"):
        for name in ("google", "github", "gitlab"):
            assert_problem(await api.get(ANONYMOUS, f"/auth/{name}/{path}"), 404)


@pytest.mark.parametrize("name", ["google", "github"])
async def test_new_person(api: Api, provider: Provider, name: str) -> None:
    offered = (await api.get(ANONYMOUS, "/auth/providers")).json()["items"]
    assert [one["name"] for one in offered] == ["google", "github"]
    browser = Browser(api, name)
    url = await browser.begin(return_to="/invitations/x?y=1")
    answer = await browser.come_back(provider.sign_in(url, ADA))
    assert answer.headers["location"] == "/invitations/x?y=1"
    assert await signed_in_as(api, answer) == ADA.email
    assert len(await api.rows("SELECT 1 FROM organizations WHERE name = 'ada'")) == 1
    # Known from now on by who they are there, not by their address, which may change.
    moved = Person(ADA.subject, "ada@elsewhere.example.com", email_verified=False)
    again = await browser.come_back(provider.sign_in(await browser.begin(), moved))
    assert await signed_in_as(api, again) == ADA.email
    assert len(await api.rows("SELECT 1 FROM users WHERE NOT is_operator")) == 1
    assert provider.refused == []


async def test_verified_on_both_sides_links(api: Api, provider: Provider) -> None:
    user_id, _ = await api.new_person(ADA.email)
    for name in ("google", "github"):
        browser = Browser(api, name)
        answer = await browser.come_back(provider.sign_in(await browser.begin(), ADA))
        assert await signed_in_as(api, answer) == ADA.email
    linked = await api.rows("SELECT DISTINCT user_id FROM identities")
    assert [row[0] for row in linked] == [user_id]
    assert len(await api.rows("SELECT 1 FROM identities")) == 2
    token = answer.headers.get_list("set-cookie")[0].partition("=")[2].partition(";")[0]
    shown = (await api.get(cookie(token), "/me/identities")).json()["items"]
    assert [(one["title"], one["email"]) for one in shown] == [("Google", ADA.email), ("GitHub", ADA.email)]


async def test_sign_up_is_closed(api: Api, provider: Provider) -> None:
    api.app.state.settings = api.settings.model_copy(update={"sign_up": "closed"})
    browser = Browser(api)
    assert_problem(await browser.come_back(provider.sign_in(await browser.begin(), ADA)), 403, "forbidden")
    assert await api.rows("SELECT 1 FROM identities") == []


async def test_cancelled_and_unavailable(api: Api, provider: Provider) -> None:
    browser = Browser(api)
    state = provider.sign_in(await browser.begin(), ADA)["state"]
    answer = await browser.come_back({"error": "access_denied", "state": state})
    assert_problem(answer, 401, "provider_refused")
    page = await api.get(
        Asker("browser", {"Accept": "text/html"}), "/auth/google/callback", params={"error": "access_denied"}
    )
    assert (page.status_code, "not begun in this browser" in page.text) == (403, True)
    broken = api.settings.model_copy(update={"google_issuer": "http://127.0.0.1:9"})
    api.app.state.settings = broken
    assert_problem(await api.get(ANONYMOUS, "/auth/google/login"), 503, "provider_unavailable")


async def test_return_to_another_site(api: Api, provider: Provider) -> None:
    for wrong in (
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "evil",
        "",
        "/a\r\nb",
        "/\u00e9",
    ):
        answer = await api.get(ANONYMOUS, "/auth/google/login", params={"return_to": wrong})
        assert [one["field"] for one in assert_problem(answer, 422)["errors"]] == ["return_to"], wrong


Attack = Callable[[Api, Provider], Awaitable[httpx.Response]]


def lying(name: str = "google", person: Person = EVE, **how: Any) -> Attack:
    """An honest browser, and a provider (or whoever answers in its place) that lies."""

    async def attack(api: Api, provider: Provider) -> httpx.Response:
        browser = Browser(api, name)
        url = await browser.begin()
        provider.lies = Lies(**how)
        return await browser.come_back(provider.sign_in(url, person))

    return attack


async def no_state(api: Api, provider: Provider) -> httpx.Response:
    browser = Browser(api)
    return await browser.come_back({"code": provider.sign_in(await browser.begin(), EVE)["code"]})


async def wrong_state(api: Api, provider: Provider) -> httpx.Response:
    browser = Browser(api)
    return await browser.come_back(provider.sign_in(await browser.begin(), EVE) | {"state": "x" * 43})


async def without_cookie(api: Api, provider: Provider) -> httpx.Response:
    """The attacker's own answer, opened in a victim's browser that has begun nothing."""
    attacker, victim = Browser(api), Browser(api)
    return await victim.come_back(provider.sign_in(await attacker.begin(), EVE))


async def foreign_state(api: Api, provider: Provider) -> httpx.Response:
    """The same in a browser that has begun a sign-in of its own."""
    attacker, victim = Browser(api), Browser(api)
    await victim.begin()
    return await victim.come_back(provider.sign_in(await attacker.begin(), EVE))


async def stolen_code(api: Api, provider: Provider) -> httpx.Response:
    """Ada's code, brought back by Eve's browser with Eve's own state: only PKCE and the nonce can tell."""
    ada, eve = Browser(api), Browser(api)
    code = provider.sign_in(await ada.begin(), ADA)["code"]
    return await eve.come_back(provider.sign_in(await eve.begin(), EVE) | {"code": code})


async def stolen_github_code(api: Api, provider: Provider) -> httpx.Response:
    ada, eve = Browser(api, "github"), Browser(api, "github")
    code = provider.sign_in(await ada.begin(), ADA)["code"]
    return await eve.come_back(provider.sign_in(await eve.begin(), EVE) | {"code": code})


async def replay(api: Api, provider: Provider) -> httpx.Response:
    browser = Browser(api)
    parameters = provider.sign_in(await browser.begin(), EVE)
    assert (await browser.come_back(parameters)).status_code == 303
    return await browser.come_back(parameters)


async def too_late(api: Api, provider: Provider) -> httpx.Response:
    browser = Browser(api)
    parameters = provider.sign_in(await browser.begin(), EVE)
    await api.execute("UPDATE provider_attempts SET expires_at = now()")
    return await browser.come_back(parameters)


async def at_the_other_callback(api: Api, provider: Provider) -> httpx.Response:
    """Begun at one provider, brought back as if from the other."""
    browser = Browser(api, "github")
    return await browser.come_back(provider.sign_in(await browser.begin(), EVE), name="google")


async def other_issuer_parameter(api: Api, provider: Provider) -> httpx.Response:
    browser = Browser(api)
    mixed_up = provider.sign_in(await browser.begin(), EVE) | {"iss": "https://evil.example"}
    return await browser.come_back(mixed_up)


async def somebody_elses_metadata(api: Api, provider: Provider) -> httpx.Response:
    provider.lies = Lies(metadata={"issuer": "https://evil.example"})
    return await api.get(ANONYMOUS, "/auth/google/login")


async def unproven_account(api: Api, provider: Provider) -> httpx.Response:
    """An account that waits under somebody's address, made by whoever never proved it."""
    user_id, _ = await api.new_person(ADA.email)
    await api.execute("UPDATE users SET email_verified_at = NULL WHERE id = :id", id=user_id)
    browser = Browser(api)
    return await browser.come_back(provider.sign_in(await browser.begin(), ADA))


def claiming_ada(name: str) -> Attack:
    """Ada is here already; Eve claims her address at a provider that has not verified it."""

    async def attack(api: Api, provider: Provider) -> httpx.Response:
        await api.new_person(ADA.email)
        claimed = Person(EVE.subject, ADA.email, email_verified=False)
        return await lying(name, claimed)(api, provider)

    return attack


async def same_subject_elsewhere(api: Api, provider: Provider) -> httpx.Response:
    """Eve has Ada's number, but at GitHub: the pair names a person, the number alone does not."""
    ada = Browser(api)
    assert (await ada.come_back(provider.sign_in(await ada.begin(), ADA))).status_code == 303
    return await lying("github", Person(ADA.subject, "x@example.com", email_verified=False))(api, provider)


OTHER_KEY = RSAKey.generate_key(2048, parameters={"kid": "one"})
ATTACKS: dict[str, Attack] = {
    "no state": no_state,
    "wrong state": wrong_state,
    "a foreign answer in a browser that began nothing": without_cookie,
    "a foreign answer in a browser that began its own": foreign_state,
    "a stolen code (OpenID)": stolen_code,
    "a stolen code (GitHub)": stolen_github_code,
    "replay": replay,
    "after ten minutes": too_late,
    "at the other provider's callback": at_the_other_callback,
    "another issuer in the answer": other_issuer_parameter,
    "another issuer in the metadata": somebody_elses_metadata,
    "wrong nonce": lying(claims={"nonce": "x" * 43}),
    "no nonce": lying(claims={"nonce": None}),
    "wrong audience": lying(claims={"aud": "somebody-else"}),
    "several audiences, none responsible": lying(claims={"aud": [CLIENT_ID, "somebody-else"]}),
    "another party responsible": lying(claims={"azp": "somebody-else"}),
    "wrong issuer": lying(claims={"iss": "https://accounts.google.com.evil.example"}),
    "no subject": lying(claims={"sub": None}),
    "expired": lying(claims={"exp": 1_600_000_000}),
    "no end": lying(claims={"exp": None}),
    "alg none": lying(algorithm="none"),
    "signed with our own secret": lying(algorithm="HS256", key=OctKey.import_key(CLIENT_SECRET)),
    "signed by another key": lying(key=OTHER_KEY),
    "altered after signing": lying(tamper=True),
    "no ID token": lying(no_id_token=True),
    "unverified address": lying(person=Person("6666", "eve@example.com", email_verified=False)),
    "address verified by a word": lying(claims={"email_verified": "true"}),
    "no address": lying(claims={"email": None}),
    "not an address": lying(person=Person("6666", "eve@example.com\r\nBcc: x")),
    "Ada's address, unverified, at Google": claiming_ada("google"),
    "Ada's address, unverified, at GitHub": claiming_ada("github"),
    "Ada's number at the other provider": same_subject_elsewhere,
    "GitHub without addresses": lying("github", api_emails=[]),
    "GitHub with nonsense for addresses": lying("github", api_emails={"message": "x"}),
    "an account that never proved its address": unproven_account,
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
@pytest.mark.long
async def test_attack(api: Api, provider: Provider, attack: Attack) -> None:
    answer = await attack(api, provider)
    assert answer.status_code in (401, 403), answer.text
    assert_problem(answer, answer.status_code)
    assert COOKIE not in str(answer.headers.get_list("set-cookie"))
    known = [row[0] for row in await api.rows("SELECT subject FROM identities")]
    assert EVE.subject not in known or attack is replay


def test_attacks_are_many() -> None:
    assert len(ATTACKS) >= 12
    print(f"{len(ATTACKS)} of {len(ATTACKS)} attacks refused")


async def test_cookie_over_https(api: Api, provider: Provider) -> None:
    api.settings = api.settings.model_copy(update={"public_url": "https://cloud.example.com"})
    api.app = create_app(api.settings, api.database, KEYRING)
    answer = await api.get(ANONYMOUS, "/auth/github/login")
    name, *attributes = answer.headers["set-cookie"].split("; ")
    assert name.startswith("__Host-moorage-sign-in=")
    assert {"Secure", "HttpOnly", "SameSite=lax", "Path=/"} <= set(attributes)
    assert "redirect_uri=https%3A%2F%2Fcloud.example.com" in answer.headers["location"]
    assert urlsplit(answer.headers["location"]).path == "/login/oauth/authorize"
