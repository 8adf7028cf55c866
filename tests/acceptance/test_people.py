"""The story of two people, from sign-up to removal, over HTTP alone and as browsers tell it."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.entrypoints.api import create_app
from moorage.entrypoints.bootstrap import bootstrap
from moorage.kit.crypto import load_or_create_keyring
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from tests.ports import free_port
from tests.servers import serving

CONTAINER = {
    "name": "chat",
    "image": "local/chat:latest",
    "registry": {"provider": "local"},
    "resources": {"mode": "general", "instance_type": "cpu-nano"},
}


class Town:
    """One installation, and the mails that it sends."""

    def __init__(self, url: str, operator_key: str) -> None:
        self.url, self.operator_key = url, operator_key

    def browser(self, **headers: str) -> httpx.AsyncClient:
        headers = {"Origin": self.url, **headers}
        return httpx.AsyncClient(base_url=f"{self.url}/api/v1", headers=headers, trust_env=False, timeout=30)

    async def newest_mail(self, address: str) -> str:
        async with self.browser(Authorization=f"Bearer {self.operator_key}") as operator:
            mails = (await operator.get("/operator/outbox")).json()["items"]
        return next(mail["text"] for mail in mails if mail["to"] == address)

    async def sign_up(self, address: str) -> httpx.AsyncClient:
        """By a mailed code; afterwards the browser has its cookie, and sends the token that goes with it."""
        browser = self.browser()
        assert (await browser.post("/auth/email/start", json={"email": address})).status_code == 202
        code = re.search(r"\b\d{6}\b", await self.newest_mail(address))
        assert code is not None
        answer = await browser.post("/auth/email/verify", json={"email": address, "code": code[0]})
        assert answer.status_code == 200, answer.text
        browser.headers["X-CSRF-Token"] = answer.json()["csrf_token"]
        return browser


@pytest.fixture
async def town(database: Database, short_folder: Path) -> AsyncIterator[Town]:
    port = free_port()
    settings = Settings(home=short_folder, api_listen=f"127.0.0.1:{port}")
    async with database.transaction() as session:
        await bootstrap(session, settings)
    app = create_app(settings, database, load_or_create_keyring(settings.key_file))
    async with serving(app, port) as url:
        yield Town(url, settings.operator_key_file.read_text().strip())


async def made(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code in (200, 201, 202), answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_two_people(town: Town) -> None:
    ada = await town.sign_up("ada@example.com")
    (organization,) = (await ada.get("/organizations")).json()["items"]
    assert organization["role"] == "admin"
    organization_path = f"/organizations/{organization['id']}"
    money = await made(await ada.get(f"{organization_path}/billing"))
    assert (money["balance_microusd"], money["available_microusd"]) == (20_000_000, 20_000_000)
    project = await made(await ada.post(f"{organization_path}/projects", json={"name": "models"}))
    secret = await made(await ada.post(f"{organization_path}/projects", json={"name": "secret"}))

    await made(await ada.post(f"{organization_path}/invitations", json={"email": "bea@example.com"}))
    link = re.search(r"/invitations/(\S+)", await town.newest_mail("bea@example.com"))
    assert link is not None

    # Somebody else finds nothing behind the link; the invited address finds the organization's name.
    eve = await town.sign_up("eve@example.com")
    assert (await eve.get(f"/invitations/{link[1]}")).status_code == 404
    assert (await eve.post(f"/invitations/{link[1]}/accept")).status_code == 404
    bea = await town.sign_up("bea@example.com")
    assert (await bea.get(organization_path)).status_code == 404
    shown = await made(await bea.get(f"/invitations/{link[1]}"))
    assert (shown["organization_name"], shown["project_name"]) == ("ada", "models")
    await made(await bea.post(f"/invitations/{link[1]}/accept"))

    # In the project that the invitation named she may deploy; elsewhere, and over people, she has no say.
    container = await made(await bea.post(f"/projects/{project['id']}/containers", json=CONTAINER))
    assert container["state"] == "PENDING"
    key = await made(await bea.post(f"/projects/{project['id']}/api-keys", json={"scope": "manage"}))
    invitation = {"email": "cy@example.com"}
    refused = await bea.post(f"{organization_path}/invitations", json=invitation)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await bea.get(f"/projects/{secret['id']}")).status_code == 404

    # Removed, she is refused with her very next request, and so is the key that she made.
    members = (await ada.get(f"{organization_path}/members")).json()["items"]
    bea_id = next(one["user_id"] for one in members if one["email"] == "bea@example.com")
    async with town.browser(Authorization=f"Bearer {key['key']}") as by_key:
        assert (await by_key.get(f"/containers/{container['id']}")).status_code == 200
        await made(await ada.delete(f"{organization_path}/members/{bea_id}"))
        assert (await bea.get(f"/containers/{container['id']}")).status_code == 401
        assert (await by_key.get(f"/containers/{container['id']}")).status_code == 401
    again = await town.sign_up("bea@example.com")
    for path in (f"/containers/{container['id']}", f"/projects/{project['id']}", organization_path):
        assert (await again.get(path)).status_code == 404

    actions = [one["action"] for one in (await ada.get(f"{organization_path}/audit")).json()["items"]]
    assert actions == [
        "member.remove", "api_key.create", "container.create", "invitation.accept", "invitation.create", "project.create",
        "project.create", "organization.create",
    ]  # fmt: skip
    for browser in (ada, bea, eve, again):
        await browser.aclose()
