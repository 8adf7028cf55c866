"""Limits on codes, turned by strangers against an address's owner; and what they cost strangers."""

import asyncio
import re
from dataclasses import replace

import httpx
import pytest
from api_support import ANONYMOUS, Api, Asker, assert_problem
from api_support import api_fixture as api_fixture
from test_api_sign_in import another
from test_housekeeping import clean

from moorage.entrypoints.api import create_app

EMAIL = "ada@example.com"
OWNER = Asker("owner", address="192.0.2.1")
STRANGER = Asker("stranger", address="198.51.100.1")
DEVICE_COOKIE = "moorage_device"


def stranger(number: int) -> Asker:
    return Asker(f"stranger {number}", address=f"198.51.100.{number}")


async def start(api: Api, asker: Asker, email: str = EMAIL) -> httpx.Response:
    return await api.post(asker, "/auth/email/start", {"email": email})


async def code_for(api: Api, asker: Asker, email: str = EMAIL) -> str:
    answer = await start(api, asker, email)
    assert answer.status_code == 202, answer.text
    mail = next(mail for mail in await api.mails() if mail["to"] == email)
    found = re.search(r"\b[0-9]{6}\b", mail["text"])
    assert found is not None
    return found.group()


async def enter(api: Api, asker: Asker, code: str, email: str = EMAIL) -> httpx.Response:
    return await api.post(asker, "/auth/email/verify", {"email": email, "code": code})


async def signed_in(api: Api, asker: Asker, email: str = EMAIL) -> Asker:
    """The same asker, with the cookie that the browser keeps after it has signed out."""
    answer = await enter(api, asker, await code_for(api, asker, email), email)
    assert answer.status_code == 200, answer.text
    return replace(asker, headers={"Cookie": f"{DEVICE_COOKIE}={answer.cookies[DEVICE_COOKIE]}"})


async def flood(api: Api, first_stranger: int = 1) -> None:
    """Strangers ask for all the codes that they can get."""
    for number in range(first_stranger, first_stranger + 3):
        for _ in range(5):
            answer = await start(api, stranger(number))
    assert_problem(answer, 429, "too_many_requests")
    assert int(answer.headers["retry-after"]) > 0


async def test_a_stranger_who_asks_for_codes_does_not_keep_the_owner_out(api: Api) -> None:
    for _ in range(7):
        answer = await start(api, STRANGER)
    assert_problem(answer, 429, "too_many_requests")
    assert (await enter(api, OWNER, await code_for(api, OWNER))).status_code == 200


async def test_a_strangers_code_leaves_the_owners_alive(api: Api) -> None:
    code = await code_for(api, OWNER)
    await code_for(api, STRANGER)
    assert (await enter(api, OWNER, code)).status_code == 200


async def test_a_strangers_guesses_leave_the_owner_their_tries(api: Api) -> None:
    code = await code_for(api, OWNER)
    for number in range(1, 10):
        assert (await enter(api, stranger(number), another(code))).status_code == 401
    assert (await enter(api, STRANGER, code)).status_code == 401, "of strangers, five tries are looked at"
    for _ in range(4):
        assert (await enter(api, OWNER, another(code))).status_code == 401
    assert (await enter(api, OWNER, code)).status_code == 200


async def test_a_code_is_entered_on_another_machine(api: Api) -> None:
    code = await code_for(api, OWNER)
    assert (await enter(api, Asker("phone", address="203.0.113.9"), code)).status_code == 200


async def test_many_strangers_and_an_owner_who_signed_in_before(api: Api) -> None:
    """By the cookie, wherever the browser is now; and by the place, without it."""
    browser = await signed_in(api, OWNER)
    await flood(api)
    mails = [mail for mail in await api.mails() if mail["to"] == EMAIL]
    assert len(mails) == 10, "the owner's first among them: they were a stranger then"
    moved = replace(browser, address="203.0.113.77")
    assert (await enter(api, moved, await code_for(api, moved))).status_code == 200
    assert (await enter(api, OWNER, await code_for(api, OWNER))).status_code == 200
    elsewhere = Asker("owner without anything", address="203.0.113.78")
    detail = assert_problem(await start(api, elsewhere), 429)["detail"]
    assert "where you have signed in before" in detail


async def test_a_day_of_strangers(api: Api) -> None:
    for hour in range(4):
        await flood(api, 1 + 3 * hour)
        await api.execute("UPDATE sign_in_codes SET created_at = created_at - interval '1 hour'")
    assert len(await api.rows("SELECT 1 FROM sign_in_codes WHERE by_stranger")) == 30


async def test_one_stranger_cannot_use_up_what_all_have(api: Api) -> None:
    for _ in range(4):
        for _ in range(7):
            await start(api, STRANGER)
        await api.execute("UPDATE sign_in_codes SET created_at = created_at - interval '1 hour'")
    assert len(await api.rows("SELECT 1 FROM sign_in_codes")) == 12
    assert (await start(api, OWNER)).status_code == 202, "who was never here finds room, too"


@pytest.mark.parametrize("change", ["another address", "forged", "nothing"])
async def test_a_device_cookie_that_is_none(api: Api, change: str) -> None:
    """One's own cookie is worth nothing for another address, nor is one that was made up."""
    mine = await signed_in(api, STRANGER, "eve@example.com")
    token = mine.headers["Cookie"].partition("=")[2]
    made_up = {"another address": token, "forged": token[:-1] + "x", "nothing": "."}[change]
    await flood(api)
    for address in ("203.0.113.1", STRANGER.address):
        asker = Asker("eve", {"Cookie": f"{DEVICE_COOKIE}={made_up}"}, address=address)
        assert_problem(await start(api, asker), 429)


async def test_a_device_has_a_quota_of_its_own(api: Api) -> None:
    browser = await signed_in(api, OWNER)
    for _ in range(6):
        await code_for(api, browser)
    assert_problem(await start(api, browser), 429)
    again = replace(browser, address="203.0.113.5")
    assert_problem(await start(api, again), 429)


async def test_the_device_cookie(api: Api) -> None:
    answer = await enter(api, OWNER, await code_for(api, OWNER))
    (sent,) = [one for one in answer.headers.get_list("set-cookie") if one.startswith(DEVICE_COOKIE)]
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(sent.split("; "))
    settings = api.settings.model_copy(update={"public_url": "https://cloud.example.com"})
    api.app = create_app(settings, api.database, api.app.state.keyring)
    answer = await enter(api, OWNER, await code_for(api, OWNER))
    (sent,) = [one for one in answer.headers.get_list("set-cookie") if "device" in one]
    assert sent.startswith("__Host-moorage-device=")
    assert "Secure" in sent.split("; ")


@pytest.mark.long
async def test_guesses_over_many_addresses(api: Api) -> None:
    """120 at once, of which 30 are looked at, whether or not anybody asked for a code."""
    code = await code_for(api, OWNER)
    guesses = [enter(api, STRANGER, "123456", f"person-{number}@example.com") for number in range(120)]
    answers = await asyncio.gather(*guesses)
    assert sorted(one.status_code for one in answers) == [401] * 30 + [429] * 90
    refused = await enter(api, STRANGER, code)
    assert_problem(refused, 429, "too_many_requests")
    assert 0 < int(refused.headers["retry-after"]) <= 3600
    assert (await enter(api, OWNER, code)).status_code == 200, "only the stranger waits"
    await api.execute("UPDATE sign_in_guesses SET created_at = created_at - interval '1 hour'")
    assert (await enter(api, STRANGER, "123456")).status_code == 401
    await clean(api)
    assert len(await api.rows("SELECT 1 FROM sign_in_guesses")) == 1


async def test_right_codes_are_no_guesses(api: Api) -> None:
    api.app = create_app(
        api.settings.model_copy(update={"wrong_codes_per_source": 1}), api.database, api.app.state.keyring
    )
    for number in range(3):
        email = f"person-{number}@example.com"
        assert (await enter(api, OWNER, await code_for(api, OWNER, email), email)).status_code == 200


@pytest.mark.long
async def test_starts_over_many_addresses(api: Api) -> None:
    browser = await signed_in(api, STRANGER)
    starts = [start(api, STRANGER, f"person-{number}@example.com") for number in range(65)]
    statuses = sorted([one.status_code for one in await asyncio.gather(*starts)])
    assert statuses == [202] * 59 + [429] * 6
    assert_problem(await start(api, STRANGER, "one-more@example.com"), 429)
    assert (await start(api, OWNER, "one-more@example.com")).status_code == 202
    assert (await start(api, browser)).status_code == 202, (
        "who shares a stranger's network and was here before"
    )


async def test_one_network_of_ipv6_is_one_source(api: Api) -> None:
    for number in range(6):
        await code_for(api, Asker("v6", address=f"2001:db8:1:2::{number + 1:x}"))
    assert_problem(await start(api, Asker("v6", address="2001:db8:1:2:ffff::1")), 429)
    assert (await start(api, Asker("v6", address="2001:db8:1:3::1"))).status_code == 202


async def test_behind_a_proxy_that_hides_clients(api: Api) -> None:
    """Everybody comes from one address: what one stranger guesses must not count for all."""
    settings = api.settings.model_copy(update={"limit_by_source": False})
    api.app = create_app(settings, api.database, api.app.state.keyring)
    guesses = [enter(api, ANONYMOUS, "123456", f"person-{number}@example.com") for number in range(40)]
    assert {one.status_code for one in await asyncio.gather(*guesses)} == {401}
    for number in range(61):
        assert (await start(api, ANONYMOUS, f"person-{number}@example.com")).status_code == 202
    for _ in range(25):
        assert (await api.post(ANONYMOUS, "/auth/device")).status_code == 201
    for _ in range(6):
        await code_for(api, ANONYMOUS)
    assert_problem(await start(api, ANONYMOUS), 429)


async def test_sources_are_forgotten(api: Api) -> None:
    await signed_in(api, OWNER)
    await api.execute("UPDATE sign_in_sources SET last_at = last_at - interval '181 days'")
    await clean(api)
    assert await api.rows("SELECT 1 FROM sign_in_sources") == []
