"""Two organizations of an installation: one that is measured, one that attacks."""

import re
from dataclasses import dataclass, field

import aiohttp
from deploy_stack import HEALTH_PATH, IMAGE, Stack

CONTAINER = {
    "image": IMAGE,
    "registry": {"provider": "local"},
    "resources": {"mode": "general", "instance_type": "cpu-nano"},
    "health_check": {"path": HEALTH_PATH, "timeout_s": 60},
}
NEVER_READY = {"path": HEALTH_PATH, "timeout_s": 3600}
"""For containers that serve nothing: they stay as long as they are needed."""


@dataclass(frozen=True)
class Tenant:
    api_url: str
    headers: dict[str, str] = field(repr=False)
    organization_id: str
    project_id: str
    key: str = field(repr=False)

    async def post(self, http: aiohttp.ClientSession, path: str, body: object = None) -> dict[str, object]:
        async with http.post(f"{self.api_url}{path}", json=body, headers=self.headers) as answer:
            found = await answer.json()
            assert answer.status < 300, found
            return dict(found)

    async def get(self, http: aiohttp.ClientSession, path: str) -> dict[str, object]:
        async with http.get(f"{self.api_url}{path}", headers=self.headers) as answer:
            return dict(await answer.json())

    async def deploy(self, http: aiohttp.ClientSession, name: str, **changes: object) -> dict[str, object]:
        body = {"name": name, **CONTAINER, **changes}
        return await self.post(http, f"/projects/{self.project_id}/containers", body)


async def sign_up(stack: Stack, http: aiohttp.ClientSession, email: str) -> Tenant:
    """With a code by mail, which is read where the operator reads it."""
    async with http.post(f"{stack.api_url}/auth/email/start", json={"email": email}) as answer:
        assert answer.status == 202, await answer.text()
    async with http.get(f"{stack.api_url}/operator/outbox", headers=stack.operator_headers) as answer:
        mails = (await answer.json())["items"]
    code = next(re.search(r"\b(\d{6})\b", mail["text"]) for mail in mails if mail["to"] == email)
    assert code is not None, f"no code in the mail to {email}"
    body = {"email": email, "code": code[1]}
    async with http.post(f"{stack.api_url}/auth/email/verify", json=body) as answer:
        headers = {"Authorization": f"Bearer {(await answer.json())['session_token']}"}
    async with http.get(f"{stack.api_url}/organizations", headers=headers) as answer:
        organization_id = (await answer.json())["items"][0]["id"]
    path = f"{stack.api_url}/organizations/{organization_id}/projects"
    async with http.post(path, json={"name": "fairness"}, headers=headers) as answer:
        project_id = (await answer.json())["id"]
    path = f"{stack.api_url}/projects/{project_id}/api-keys"
    async with http.post(path, json={"name": "fairness"}, headers=headers) as answer:
        key = (await answer.json())["key"]
    return Tenant(stack.api_url, headers, organization_id, project_id, key)
