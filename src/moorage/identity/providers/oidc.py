"""OpenID Connect, as Google speaks it: who came back is said by a signed ID token."""

from dataclasses import dataclass
from typing import Any

from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from moorage.identity.providers.base import Claimed, Client, Secrets, fetch_token, refused
from moorage.kit.clock import Clock

# Public-key signatures only: `none` and those with a shared secret are no proof of who signed.
_ALGORITHMS = ["RS256", "ES256"]
_LEEWAY_S = 60


@dataclass(frozen=True)
class OpenIdProvider:
    name: str
    title: str
    issuer: str
    client: Client
    clock: Clock

    async def authorization_url(self, secrets: Secrets) -> str:
        async with self.client.open(scope="openid email") as http:
            endpoint = (await self._metadata(http))["authorization_endpoint"]
            url, _ = http.create_authorization_url(
                endpoint, state=secrets.state, nonce=secrets.nonce, code_verifier=secrets.code_verifier
            )
        return str(url)

    async def claimed(self, code: str, secrets: Secrets) -> Claimed:
        async with self.client.open(scope="openid email") as http:
            metadata = await self._metadata(http)
            token = await fetch_token(http, metadata["token_endpoint"], code, secrets)
            keys = await _json(http, metadata["jwks_uri"])
        claims = self._checked(token, keys, secrets.nonce)
        email, verified = claims.get("email"), claims.get("email_verified") is True
        return Claimed(self.issuer, str(claims["sub"]), str(email or ""), verified)

    async def _metadata(self, http: AsyncOAuth2Client) -> dict[str, str]:
        metadata: dict[str, str] = await _json(http, f"{self.issuer}/.well-known/openid-configuration")
        if metadata["issuer"] != self.issuer:
            raise refused("speaks for somebody else")
        return metadata

    def _checked(self, token: dict[str, Any], keys: Any, nonce: str) -> CodeIDToken:
        options = {
            "iss": {"essential": True, "value": self.issuer},
            "aud": {"essential": True, "value": self.client.client_id},
            "sub": {"essential": True},
        }
        known = {
            "nonce": nonce,
            "client_id": self.client.client_id,
            "access_token": token.get("access_token"),
        }
        try:
            signed = jwt.decode(
                str(token.get("id_token")), KeySet.import_key_set(keys), algorithms=_ALGORITHMS
            )
            claims = CodeIDToken(signed.claims, signed.header, options, known)
            claims.validate(now=int(self.clock.now().timestamp()), leeway=_LEEWAY_S)
        except (JoseError, ValueError) as exc:
            raise refused("sent an invalid proof") from exc
        return claims


async def _json(http: AsyncOAuth2Client, url: str) -> Any:
    return (await http.request("GET", url, withhold_token=True)).raise_for_status().json()
