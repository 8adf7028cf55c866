"""An OpenID provider and a GitHub on a loopback port that check what they are sent, and lie on request.

As strict as the standards: registered redirect URI, S256 PKCE with the right verifier, client authentication, codes that
work once. `lies` says how the next answers are to be wrong.
"""

import base64
import hashlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.servers import serving

CLIENT_ID, CLIENT_SECRET = "moorage-test", "a secret of thirty-two characters"


@dataclass
class Person:
    subject: str
    email: str
    email_verified: bool = True


@dataclass
class Lies:
    claims: dict[str, Any] = field(default_factory=dict)
    """Laid over the ID token's; None takes a claim away."""
    algorithm: str = "RS256"
    key: Any = None
    tamper: bool = False
    no_id_token: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    api_emails: Any = None


@dataclass
class Grant:
    person: Person
    query: dict[str, str]


@dataclass
class Provider:
    url: str = ""
    lies: Lies = field(default_factory=Lies)
    grants: dict[str, Grant] = field(default_factory=dict)
    tokens: dict[str, Person] = field(default_factory=dict)
    redirect_uris: set[str] = field(default_factory=set)
    key: RSAKey = field(default_factory=lambda: _key())
    refused: list[str] = field(default_factory=list)
    visitor: Person | None = None
    """Who sits at the browser that comes here."""

    def sign_in(self, authorization_url: str, person: Person) -> dict[str, str]:
        """What a person does there: looks at the request, agrees, and is sent back with these parameters."""
        parts = urlsplit(authorization_url)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["redirect_uri"] in self.redirect_uris
        assert query["code_challenge_method"] == "S256"
        assert len(query["code_challenge"]) == 43
        assert len(query["state"]) >= 32
        if "openid" in query["scope"]:
            assert len(query["nonce"]) >= 32
        code = f"code-{len(self.grants)}-{hashlib.sha256(authorization_url.encode()).hexdigest()[:16]}"
        self.grants[code] = Grant(person, query)
        return {"code": code, "state": query["state"]}

    def redeem(self, form: dict[str, str], authorization: str | None) -> Grant | None:
        if authorization is not None:
            scheme, _, encoded = authorization.partition(" ")
            given = tuple(base64.b64decode(encoded).decode().split(":", 1)) if scheme == "Basic" else ()
        else:
            given = (form.get("client_id", ""), form.get("client_secret", ""))
        if given != (CLIENT_ID, CLIENT_SECRET):
            return self._refuse("client")
        grant = self.grants.pop(form.get("code", ""), None)
        if grant is None:
            return self._refuse("code")
        verifier = form.get("code_verifier", "")
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        if challenge != grant.query["code_challenge"] or not 43 <= len(verifier) <= 128:
            return self._refuse("PKCE")
        if form.get("redirect_uri") != grant.query["redirect_uri"]:
            return self._refuse("redirect_uri")
        if form.get("grant_type") != "authorization_code":
            return self._refuse("grant_type")
        return grant

    def _refuse(self, why: str) -> None:
        self.refused.append(why)

    def id_token(self, grant: Grant) -> str:
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": grant.person.subject,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 600,
            "nonce": grant.query.get("nonce"),
            "email": grant.person.email,
            "email_verified": grant.person.email_verified,
            **self.lies.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.lies.algorithm == "none":
            parts = [json.dumps({"alg": "none"}), json.dumps(claims)]
            return (
                ".".join(base64.urlsafe_b64encode(one.encode()).rstrip(b"=").decode() for one in parts) + "."
            )
        header = {"alg": self.lies.algorithm, "kid": "one"}
        key = self.lies.key or self.key
        token = jwt.encode(header, claims, key, algorithms=[self.lies.algorithm])
        if self.lies.tamper:
            head, body, signature = token.split(".")
            padded = body + "=" * (-len(body) % 4)
            changed = json.loads(base64.urlsafe_b64decode(padded)) | {"sub": "somebody-else"}
            body = base64.urlsafe_b64encode(json.dumps(changed).encode()).rstrip(b"=").decode()
            token = f"{head}.{body}.{signature}"
        return token

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/.well-known/openid-configuration")
        async def metadata() -> dict[str, Any]:
            return {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/jwks",
                **self.lies.metadata,
            }

        @app.get("/authorize")
        @app.get("/login/oauth/authorize")
        async def authorize(request: Request) -> HTMLResponse:
            assert self.visitor is not None, "a test says who comes"
            agreed = self.sign_in(str(request.url), self.visitor)
            refused = {"error": "access_denied", "state": agreed["state"]}
            back = request.query_params["redirect_uri"]
            links = [
                f'<a href="{escape(f"{back}?{urlencode(answer)}")}">{text}</a>'
                for text, answer in (("Continue", agreed), ("Cancel", refused))
            ]
            return HTMLResponse(f'<link rel="icon" href="data:,">{"".join(links)}')

        @app.get("/jwks")
        async def jwks() -> dict[str, Any]:
            return {"keys": [self.key.as_dict(private=False) | {"kid": "one", "use": "sig"}]}

        @app.post("/token")
        async def token(request: Request) -> JSONResponse:
            form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
            grant = self.redeem(form, request.headers.get("authorization"))
            if grant is None:
                return JSONResponse({"error": "invalid_grant"}, 400)
            answer = {"access_token": "access", "token_type": "Bearer", "id_token": self.id_token(grant)}
            if self.lies.no_id_token:
                del answer["id_token"]
            return JSONResponse(answer)

        @app.post("/login/oauth/access_token")
        async def github_token(request: Request) -> JSONResponse:
            form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
            grant = self.redeem(form, request.headers.get("authorization"))
            if grant is None:  # with 200, as GitHub does
                return JSONResponse({"error": "bad_verification_code", "error_description": "no"})
            access = f"gho_{len(self.tokens)}"
            self.tokens[access] = grant.person
            return JSONResponse({"access_token": access, "token_type": "bearer", "scope": "user:email"})

        @app.get("/api/v3/user")
        async def user(request: Request) -> JSONResponse:
            person = self._bearer(request)
            if person is None:
                return JSONResponse({"message": "Bad credentials"}, 401)
            return JSONResponse({"id": int(person.subject), "login": "x", "email": "typed@example.com"})

        @app.get("/api/v3/user/emails")
        async def emails(request: Request) -> JSONResponse:
            person = self._bearer(request)
            if person is None:
                return JSONResponse({"message": "Bad credentials"}, 401)
            if self.lies.api_emails is not None:
                return JSONResponse(self.lies.api_emails)
            listed = [
                {"email": "second@example.com", "primary": False, "verified": True},
                {"email": person.email, "primary": True, "verified": person.email_verified},
            ]
            return JSONResponse(listed)

        return app

    def _bearer(self, request: Request) -> Person | None:
        return self.tokens.get(request.headers.get("authorization", "").removeprefix("Bearer "))


@cache
def _key() -> RSAKey:
    """One for all providers: to make one takes a tenth of a second and more."""
    return RSAKey.generate_key(2048, parameters={"kid": "one"})


@asynccontextmanager
async def running_provider() -> AsyncIterator[Provider]:
    provider = Provider()
    async with serving(provider.app()) as url:
        provider.url = url
        yield provider
