"""GitHub, and GitHub Enterprise: OAuth without ID tokens, so who came back is asked with the access token."""

from dataclasses import dataclass
from typing import Any

from authlib.integrations.httpx_client import AsyncOAuth2Client

from moorage.identity.providers.base import Claimed, Client, Secrets, fetch_token, refused


@dataclass(frozen=True)
class GitHubProvider:
    name: str
    title: str
    issuer: str
    """Where people sign in, e.g. `https://github.com`."""
    api_url: str
    client: Client

    async def authorization_url(self, secrets: Secrets) -> str:
        async with self.client.open(scope="user:email") as http:
            url, _ = http.create_authorization_url(
                f"{self.issuer}/login/oauth/authorize",
                state=secrets.state,
                code_verifier=secrets.code_verifier,
            )
        return str(url)

    async def claimed(self, code: str, secrets: Secrets) -> Claimed:
        async with self.client.open(scope="user:email") as http:
            await fetch_token(http, f"{self.issuer}/login/oauth/access_token", code, secrets)
            user = await self._get(http, "/user")
            addresses = await self._get(http, "/user/emails")
        if not isinstance(user.get("id"), int):
            raise refused("did not say who you are")
        # The profile's own `email` is whatever somebody typed there; only this list says what was verified.
        primary: dict[str, Any] = next((one for one in addresses if one.get("primary")), {})
        email, verified = primary.get("email"), primary.get("verified") is True
        return Claimed(self.issuer, str(user["id"]), str(email or ""), verified)

    async def _get(self, http: AsyncOAuth2Client, path: str) -> Any:
        headers = {"Accept": "application/vnd.github+json"}
        return (await http.get(f"{self.api_url}{path}", headers=headers)).raise_for_status().json()
