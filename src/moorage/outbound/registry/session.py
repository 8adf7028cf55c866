"""Requests to the registry of one image, signed in where it asks for that.

Who may be given the password is decided in `auth.py`, where a request may go in `addresses.py`. A token lasts for
minutes and a pull for an hour: one that has run out is replaced, once for each request.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from multidict import CIMultiDictProxy
from yarl import URL

from moorage.kit.errors import ImageError
from moorage.outbound.addresses import AddressRefusedError, Origin, origin_of, strict_url
from moorage.outbound.registry import auth
from moorage.outbound.registry.credentials import RegistryCredentials
from moorage.outbound.registry.sentences import ImageName, Sentences
from moorage.outbound.transport import Answer, OpenAnswer, Transport

MAX_TOKEN_BYTES = 64 << 10


class RegistrySession:
    def __init__(
        self,
        image: ImageName,
        registry: Origin,
        credentials: RegistryCredentials | None,
        transport: Transport,
    ) -> None:
        self.image = image
        self.sentences = Sentences(image, credentials)
        self._registry = registry
        self._credentials = credentials
        self._transport = transport
        self._authorization: str | None = None
        self._signed_in = False
        self._signing_in = asyncio.Lock()

    async def get(self, path: str, max_bytes: int, accept: str) -> Answer:
        used = self._authorization
        answer = await self._transport.get(
            self._url(path), max_bytes=max_bytes, accept=accept, authorization=used
        )
        if not self._asks_to_sign_in(answer, used):
            return answer
        await self._sign_in(answer.headers, used)
        return await self._transport.get(
            self._url(path), max_bytes=max_bytes, accept=accept, authorization=self._authorization
        )

    @asynccontextmanager
    async def open(self, path: str, first_byte: int) -> AsyncIterator[OpenAnswer]:
        used = self._authorization
        url = self._url(path)
        async with self._transport.open(
            url, accept="*/*", authorization=used, first_byte=first_byte
        ) as answer:
            if not self._asks_to_sign_in(answer, used):
                yield answer
                return
        await self._sign_in(answer.headers, used)
        async with self._transport.open(
            url, accept="*/*", authorization=self._authorization, first_byte=first_byte
        ) as answer:
            yield answer

    def refusal(self, answer: Answer | OpenAnswer) -> ImageError | None:
        """What an answer of this status means; None for one that holds what was asked for."""
        if answer.status in (200, 206):
            return None
        if answer.status == 404:
            return self.sentences.not_found()
        if answer.status in (401, 403) and answer.origin == self._registry:
            return self.sentences.denied(signed_in=self._signed_in)
        return self.sentences.odd_status(answer.origin, answer.status)

    def _url(self, path: str) -> URL:
        base = f"{self._registry.scheme}://{self._registry.host}:{self._registry.port}"
        return URL(f"{base}/v2/{self.image.repository}/{path}", encoded=True)

    def _asks_to_sign_in(self, answer: Answer | OpenAnswer, used: str | None) -> bool:
        """The registry's own 401 alone: a host that it sends us on to gets no say. A password that was refused
        is not sent again."""
        refused = used is not None and used.startswith("Basic ")
        return answer.status == 401 and answer.origin == self._registry and not refused

    async def _sign_in(self, headers: CIMultiDictProxy[str], used: str | None) -> None:
        async with self._signing_in:
            if self._authorization != used:
                return  # another layer's request did meanwhile
            challenges = auth.parse_challenges(headers.getall("WWW-Authenticate", []))
            challenge = auth.choose_challenge(challenges)
            if challenge is None:
                raise self.sentences.misbehaves(
                    "a demand to sign in that says no way how (neither Bearer nor Basic)"
                )
            self._authorization = await self._authorize(challenge)

    async def _authorize(self, challenge: auth.Challenge) -> str:
        if challenge.scheme == "bearer":
            return auth.bearer_authorization(await self._token(challenge))
        if self._credentials is None:
            raise self.sentences.needs_credentials()
        return auth.basic_authorization(self._credentials)

    async def _token(self, challenge: auth.Challenge) -> str:
        try:
            realm = strict_url(challenge.parameters["realm"])
            realm_origin = origin_of(realm)
        except AddressRefusedError as exc:
            raise self.sentences.misbehaves(f"an address for tokens that is not allowed ({exc})") from exc
        if self._credentials and not auth.may_receive_credentials(self._registry.host, realm_origin.host):
            # Not even asked without the password: what it said no to then would be a riddle to whoever gave one.
            raise self.sentences.foreign_realm(realm_origin)
        answer = await self._transport.get(
            realm.update_query(auth.token_query(challenge, self.image.repository)),
            max_bytes=MAX_TOKEN_BYTES,
            accept="application/json",
            authorization=auth.basic_authorization(self._credentials) if self._credentials else None,
            max_redirects=0,
        )
        if answer.status in (401, 403):
            raise self.sentences.denied()
        if answer.status != 200:
            raise self.sentences.odd_status(answer.origin, answer.status)
        try:
            token = auth.parse_token(answer.body)
        except ValueError as exc:
            raise self.sentences.misbehaves(f"no token ({exc})") from exc
        self._signed_in = self._credentials is not None
        return token
