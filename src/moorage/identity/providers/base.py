"""What a provider is to us: somewhere to send a browser, and somebody who then says who came back."""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import Protocol

from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client

from moorage.kit.errors import NotAuthenticatedError

TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Secrets:
    """Of one attempt. All follow from the token in the browser's cookie: what comes back with another browser's
    state, nonce or code does not fit."""

    token: str

    @property
    def state(self) -> str:
        return self._derived("state")

    @property
    def nonce(self) -> str:
        return self._derived("nonce")

    @property
    def code_verifier(self) -> str:
        return self._derived("code_verifier")

    def _derived(self, purpose: str) -> str:
        digest = hmac.new(self.token.encode(), purpose.encode(), hashlib.sha256).digest()
        return urlsafe_b64encode(digest).rstrip(b"=").decode()


@dataclass(frozen=True)
class Claimed:
    """Who a provider says somebody is."""

    issuer: str
    subject: str
    email: str
    email_verified: bool


class Provider(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def issuer(self) -> str: ...

    async def authorization_url(self, secrets: Secrets) -> str: ...

    async def claimed(self, code: str, secrets: Secrets) -> Claimed:
        """Raises `NotAuthenticatedError` for whatever does not fit together."""
        ...


@dataclass(frozen=True)
class Client:
    """Our registration at a provider."""

    client_id: str
    client_secret: str
    redirect_uri: str

    def open(self, **how: object) -> AsyncOAuth2Client:
        return AsyncOAuth2Client(
            self.client_id,
            self.client_secret,
            redirect_uri=self.redirect_uri,
            code_challenge_method="S256",
            timeout=TIMEOUT_S,
            trust_env=False,
            **how,
        )


async def fetch_token(client: AsyncOAuth2Client, url: str, code: str, secrets: Secrets) -> dict[str, object]:
    try:
        token: dict[str, object] = await client.fetch_token(
            url, code=code, code_verifier=secrets.code_verifier, headers={"Accept": "application/json"}
        )
    except OAuthError as exc:
        raise refused("did not accept the code") from exc
    return token


def refused(why: str) -> NotAuthenticatedError:
    return NotAuthenticatedError(
        f"The sign-in could not be completed: the provider {why}. Start again.", code="provider_refused"
    )
