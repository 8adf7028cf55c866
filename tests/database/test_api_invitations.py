"""An invitation works for exactly the invited, verified address, once, for seven days."""

import asyncio
import re
from typing import Any

from api_support import ANONYMOUS, Api, Asker, Home, assert_problem, bearer, new_home
from api_support import api_fixture as api_fixture

INVITED = "Bea@example.com"


async def invite(api: Api, home: Home, email: str = INVITED, **more: Any) -> dict[str, Any]:
    answer = await api.post(
        home.admin, f"/organizations/{home.organization_id}/invitations", {"email": email, **more}
    )
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def link_token(api: Api, email: str = INVITED) -> str:
    mail = next(mail for mail in await api.mails() if mail["to"] == email)
    found = re.search(r"^http://\S+/invitations/(moor_inv_\w+)$", mail["text"], re.MULTILINE)
    assert found is not None, mail
    return found.group(1)


async def person(api: Api, email: str) -> Asker:
    _, token = await api.new_person(email)
    return bearer(email, token)


async def test_accepted(api: Api) -> None:
    home = await new_home(api)
    newer = await api.new_project(home.organization_id, "newer")
    made = await invite(api, home, "  Bea@EXAMPLE.com ")
    assert (made["email"], made["role"], made["project_id"]) == (INVITED, "user", home.project_id)
    token = await link_token(api)
    assert token not in await api.dump()
    bea = await person(api, INVITED)
    shown = (await api.get(bea, f"/invitations/{token}")).json()
    assert {**shown, "expires_at": None} == {
        "organization_name": "acme",
        "project_name": "default",
        "role": "user",
        "invited_by": "ada@example.com",
        "expires_at": None,
    }
    accepted = await api.post(bea, f"/invitations/{token}/accept")
    assert accepted.json() == {"organization_id": home.organization_id, "project_id": home.project_id}
    assert (await api.get(bea, f"/projects/{home.project_id}")).status_code == 200
    assert_problem(await api.get(bea, f"/projects/{newer}"), 404)
    listed = await api.get(home.admin, f"/organizations/{home.organization_id}/invitations")
    assert listed.json()["items"] == []
    audit = (await api.get(home.admin, f"/organizations/{home.organization_id}/audit")).json()["items"]
    assert [one["action"] for one in audit] == ["invitation.accept", "invitation.create"]
    assert audit[0]["actor_email"] == INVITED


async def test_only_the_invited_address(api: Api) -> None:
    """Each way that somebody else, or the right one at the wrong time, could try."""
    home = await new_home(api)
    made = await invite(api, home, role="admin")
    token = await link_token(api)
    twins = (
        "bea@example.com", "BEA@example.com", "Bea@example.org", "Bea@xexample.com", "Bea+x@example.com",
        "Bea.@example.com", "B\u0435a@example.com", "Bea@ex\u0430mple.com", "Bea@example.com\u200b",
    )  # fmt: skip
    refused = 0
    for twin in twins:
        # Written past the check of addresses, so that only the comparison stands in the way.
        user_id, session = await api.new_person(f"twin{refused}@example.com")
        await api.execute("UPDATE users SET email = :twin WHERE id = :id", twin=twin, id=user_id)
        for method, path in (("GET", ""), ("POST", "/accept")):
            answer = await api.ask(bearer(twin, session), method, f"/api/v1/invitations/{token}{path}")
            body = assert_problem(answer, 404, "not_found")
            assert "sign out and open the link again" in body["detail"]
            assert "acme" not in answer.text
        refused += 1
    bea = await person(api, INVITED)
    wrong = {
        "nobody": (ANONYMOUS, token),
        "the admin who invited": (home.admin, token),
        "no token": (bea, "x"),
        "changed token": (bea, token[:-1] + ("x" if token[-1] != "x" else "y")),
        "the id instead of the token": (bea, made["id"]),
    }
    for asker, sent in wrong.values():
        answer = await api.post(asker, f"/invitations/{sent}/accept")
        assert_problem(answer, 401 if asker is ANONYMOUS else 404)
        refused += 1
    for change, undo in (
        ("UPDATE users SET email_verified_at = NULL", "UPDATE users SET email_verified_at = now()"),
        (
            "UPDATE invitations SET expires_at = now() - interval '1 second'",
            "UPDATE invitations SET expires_at = now() + interval '1 hour'",
        ),
    ):
        await api.execute(change)
        assert_problem(await api.post(bea, f"/invitations/{token}/accept"), 404)
        await api.execute(undo)
        refused += 1
    # What the invited send along changes nothing: the role is the one that was offered.
    tampered = await api.post(
        bea, f"/invitations/{token}/accept?role=admin", {"role": "admin", "organization_id": "org_x"}
    )
    assert tampered.status_code == 200
    assert_problem(await api.post(bea, f"/invitations/{token}/accept"), 404)  # replay
    refused += 1
    members = await api.rows(
        "SELECT 1 FROM organization_members WHERE organization_id = :id", id=home.organization_id
    )
    assert len(members) == 2
    print(f"{refused} of {refused} refused; the exact address got in once")


async def test_role_is_the_offered_one(api: Api) -> None:
    home = await new_home(api)
    await invite(api, home)
    bea, token = await person(api, INVITED), await link_token(api)
    answer = await api.post(bea, f"/invitations/{token}/accept?role=admin", {"role": "admin"})
    assert answer.status_code == 200
    assert (await api.get(bea, f"/organizations/{home.organization_id}")).json()["role"] == "user"
    assert_problem(await api.get(bea, f"/organizations/{home.organization_id}/members"), 403)


async def test_racing_accepts(api: Api) -> None:
    home = await new_home(api)
    await invite(api, home)
    bea, token = await person(api, INVITED), await link_token(api)
    answers = await asyncio.gather(*(api.post(bea, f"/invitations/{token}/accept") for _ in range(8)))
    assert sorted(one.status_code for one in answers) == [200, *[404] * 7]
    assert len(await api.rows("SELECT 1 FROM audit_records WHERE action = 'invitation.accept'")) == 1


async def test_accept_while_withdrawn(api: Api) -> None:
    """One of the two happens, never both."""
    for n in range(4):
        home = await new_home(api, f"ada{n}@example.com")
        made = await invite(api, home)
        bea, token = await person(api, INVITED), await link_token(api)
        path = f"/api/v1/organizations/{home.organization_id}/invitations/{made['id']}"
        accepted, withdrawn = await asyncio.gather(
            api.post(bea, f"/invitations/{token}/accept"), api.ask(home.admin, "DELETE", path)
        )
        assert (accepted.status_code, withdrawn.status_code) in ((200, 404), (404, 204))


async def test_resend(api: Api) -> None:
    home = await new_home(api)
    made = await invite(api, home)
    old = await link_token(api)
    await api.execute("UPDATE invitations SET expires_at = now()")
    path = f"/organizations/{home.organization_id}/invitations"
    assert [one["state"] for one in (await api.get(home.admin, path)).json()["items"]] == ["expired"]
    again = await api.post(home.admin, f"{path}/{made['id']}/resend")
    assert again.status_code == 200, again.text
    assert (again.json()["id"], again.json()["state"]) == (made["id"], "pending")
    bea, new = await person(api, INVITED), await link_token(api)
    assert new != old
    assert_problem(await api.post(bea, f"/invitations/{old}/accept"), 404)
    assert (await api.post(bea, f"/invitations/{new}/accept")).status_code == 200
    assert_problem(await api.post(home.admin, f"{path}/{made['id']}/resend"), 404)


async def test_resend_limit(api: Api) -> None:
    home = await new_home(api)
    path = f"/organizations/{home.organization_id}/invitations/{(await invite(api, home))['id']}/resend"
    statuses = [(await api.post(home.admin, path)).status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 200, 429]


async def test_withdraw(api: Api) -> None:
    home = await new_home(api)
    made = await invite(api, home)
    path = f"/api/v1/organizations/{home.organization_id}/invitations/{made['id']}"
    assert (await api.ask(home.admin, "DELETE", path)).status_code == 204
    assert_problem(await api.ask(home.admin, "DELETE", path), 404)
    assert_problem(
        await api.post(await person(api, INVITED), f"/invitations/{await link_token(api)}/accept"), 404
    )
    await invite(api, home)  # and once more


async def test_known_address(api: Api) -> None:
    home = await new_home(api)
    path = f"/organizations/{home.organization_id}/invitations"
    assert_problem(await api.post(home.admin, path, {"email": "ada@example.com"}), 409, "already_member")
    await invite(api, home)
    assert_problem(await api.post(home.admin, path, {"email": INVITED}), 409, "already_invited")
    await api.execute("UPDATE invitations SET expires_at = now()")
    await invite(api, home)
    racing = [api.post(home.admin, path, {"email": "cy@example.com"}) for _ in range(5)]
    assert sorted(one.status_code for one in await asyncio.gather(*racing)) == [201, 409, 409, 409, 409]


async def test_bad_field(api: Api) -> None:
    home, foreign = await new_home(api), await new_home(api, "eve@example.com")
    bad = (
        ("email", {"email": "nobody"}),
        ("role", {"email": INVITED, "role": "owner"}),
        ("project_id", {"email": INVITED, "project_id": foreign.project_id}),
        ("roles", {"email": INVITED, "roles": "admin"}),
    )
    for field, body in bad:
        answer = await api.post(home.admin, f"/organizations/{home.organization_id}/invitations", body)
        assert [one["field"] for one in assert_problem(answer, 422)["errors"]] == [field]
    assert await api.mails() == []


async def test_project_that_is_gone(api: Api) -> None:
    home = await new_home(api)
    await invite(api, home)
    assert (
        await api.ask(home.admin, "DELETE", f"/api/v1/projects/{home.project_id}?name=default")
    ).status_code == 204
    bea = await person(api, INVITED)
    accepted = await api.post(bea, f"/invitations/{await link_token(api)}/accept")
    assert accepted.json() == {"organization_id": home.organization_id, "project_id": None}


async def test_sign_up_is_closed(api: Api) -> None:
    """An invitation is the way in, and it opens the door for its own address alone."""
    home = await new_home(api)
    await invite(api, home)
    api.app.state.settings = api.settings.model_copy(update={"sign_up": "closed"})
    for email, status in (("eve@example.com", 403), (INVITED, 200)):
        assert (await api.post(ANONYMOUS, "/auth/email/start", {"email": email})).status_code == 202
        mail = next(mail for mail in await api.mails() if "code" in mail["subject"])
        found = re.search(r"\b[0-9]{6}\b", mail["text"])
        assert found is not None
        answer = await api.post(ANONYMOUS, "/auth/email/verify", {"email": email, "code": found.group()})
        assert answer.status_code == status, answer.text
