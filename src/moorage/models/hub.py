"""Asks a hub what a model is. Nothing of its weights is fetched.

Two or three requests: the model's description, its `config.json` (of GGUF the beginning of one file, of an adapter its own
configuration), each within a bound of size and all within 15 s. The hub is the operator's choice (`model_hub`), so it may be at a private address; where it sends us on, only public
ones are followed (`outbound/transport.py`). A token of the user's goes to the hub's own origin and nowhere else, is kept by nobody
here, and never comes back in an answer or an error.
"""

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from yarl import URL

from moorage.kit.clock import Clock
from moorage.kit.errors import MoorageError
from moorage.kit.json_bounds import excess_of
from moorage.models.facts import (
    ADAPTER,
    ADAPTER_CONFIG,
    ModelFacts,
    NotUsableError,
    adapter_of,
    chosen_gguf,
    commit_of,
    facts_from,
)
from moorage.models.gguf_header import HEADER_BYTES, config_of_header
from moorage.models.hub_words import HubWords
from moorage.models.kinds import ModelFormat
from moorage.models.reference import ModelReference
from moorage.outbound.addresses import (
    AddressRefusedError,
    Lookup,
    Reach,
    origin_of,
    strict_url,
    system_lookup,
)
from moorage.outbound.transport import TOTAL_TIMEOUT_S, Answer, OpenAnswer, Transport, TransportError

MAX_DESCRIPTION_BYTES = 8 << 20
MAX_CONFIG_BYTES = 1 << 20
_MOST_DESCRIPTION_VALUES = 250_000
_MOST_CONFIG_VALUES = 50_000
_WHOLE_LOOKUP_S = TOTAL_TIMEOUT_S
"""Requests have a deadline of their own, the body of a GGUF file has none that is as short."""


async def look_up_model(
    hub: str,
    reference: ModelReference,
    token: str | None,
    *,
    gguf: str | None = None,
    clock: Clock,
    lookup: Lookup = system_lookup,
    tls: ssl.SSLContext | None = None,
) -> ModelFacts:
    """`gguf` is the file or tag that is wanted of a repository of GGUF files. Raises `ModelError` and `UnavailableError`."""
    words = HubWords(hub, reference, has_token=token is not None)
    try:
        base = strict_url(hub)
        origin = origin_of(base)
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        reach = Reach(origin, (f"{host}:{origin.port}",), lookup)
        async with asyncio.timeout(_WHOLE_LOOKUP_S), Transport(reach, clock, tls) as transport:
            return await _Lookup(base, reference, token, transport, words).facts(gguf)
    except TimeoutError as exc:
        raise words.unreachable(f"{words.host} does not answer in time") from exc
    except (TransportError, AddressRefusedError) as exc:
        raise words.unreachable(str(exc)) from exc
    except NotUsableError as exc:
        raise words.unusable(exc.code, str(exc)) from exc


class _Lookup:
    def __init__(
        self, base: URL, reference: ModelReference, token: str | None, transport: Transport, words: HubWords
    ) -> None:
        self._base = str(base).rstrip("/")
        self._reference = reference
        self._authorization = f"Bearer {token}" if token is not None else None
        self._transport = transport
        self._words = words

    async def facts(self, gguf: str | None) -> ModelFacts:
        path = f"api/models/{self._reference.repository}/revision/{_one_segment(self._reference.revision)}"
        answer = await self._get(f"{path}?blobs=true", MAX_DESCRIPTION_BYTES)
        described = await asyncio.to_thread(_parsed, answer.body, _MOST_DESCRIPTION_VALUES)
        if not isinstance(described, Mapping):
            raise self._words.not_described()
        try:
            facts = await asyncio.to_thread(facts_from, self._reference, described, gguf)
        except NotUsableError as exc:
            raise await self._with_base_model(exc, described.get("sha")) from exc
        if facts.gated and self._authorization is None:
            raise self._words.gated()
        if facts.format is ModelFormat.GGUF:
            return replace(facts, config=await self._header(facts, gguf))
        name = {ModelFormat.DIFFUSERS: "model_index.json"}.get(facts.format, "config.json")
        answer = await self._get(self._file(facts.commit, name), MAX_CONFIG_BYTES)
        config = await asyncio.to_thread(_parsed, answer.body, _MOST_CONFIG_VALUES)
        if config is None:
            raise NotUsableError("hub_misbehaves", f"has a {name} that Moorage cannot read")
        if not isinstance(config, Mapping):
            raise NotUsableError("not_a_model", f"has a {name} that is not a configuration")
        return replace(facts, config=config, config_bytes=len(answer.body))

    async def _with_base_model(self, refused: NotUsableError, commit: object) -> NotUsableError:
        """Of an adapter, the model to deploy instead; anything that is wrong with its file leaves the refusal as it is."""
        if refused.code != ADAPTER:
            return refused
        try:
            path = self._file(commit_of(commit), ADAPTER_CONFIG)
            answer = await self._get(path, MAX_CONFIG_BYTES)
            return adapter_of(await asyncio.to_thread(_parsed, answer.body, _MOST_CONFIG_VALUES))
        except (MoorageError, NotUsableError, TransportError, AddressRefusedError):
            return refused

    async def _header(self, facts: ModelFacts, wanted: str | None) -> Mapping[str, Any]:
        """Of the file that is going to be served."""
        url = self._url(self._file(facts.commit, chosen_gguf(facts.gguf, wanted).name))
        async with self._transport.open(url, accept="*/*", authorization=self._authorization) as answer:
            self._refuse(answer)
            beginning = b""
            async for chunk in answer.chunks():
                beginning += chunk
                if len(beginning) >= HEADER_BYTES:
                    break
        try:
            return await asyncio.to_thread(config_of_header, beginning[:HEADER_BYTES])
        except ValueError as exc:
            raise NotUsableError("not_a_model", f"has a file that {exc}") from exc

    def _file(self, commit: str | None, name: str) -> str:
        # By the commit that was described: what a branch means may change between two requests.
        revision = commit or _one_segment(self._reference.revision)
        return f"{self._reference.repository}/resolve/{revision}/{name}"

    async def _get(self, path: str, max_bytes: int) -> Answer:
        answer = await self._transport.get(
            self._url(path), max_bytes=max_bytes, accept="application/json", authorization=self._authorization
        )
        self._refuse(answer)
        return answer

    def _url(self, path: str) -> URL:
        return URL(f"{self._base}/{path}", encoded=True)

    def _refuse(self, answer: Answer | OpenAnswer) -> None:
        """The hub says in a header what its status means."""
        if answer.status in (200, 206):
            return
        code = answer.headers.get("X-Error-Code", "")
        if code == "GatedRepo":
            raise self._words.gated()
        if code == "RevisionNotFound":
            raise self._words.revision_not_found()
        if code == "EntryNotFound":
            raise NotUsableError("not_a_model", "has no configuration that says what it is")
        # Without a token, 401 is also what a hub says of a model that does not exist.
        if (
            code == "RepoNotFound"
            or answer.status == 404
            or (answer.status == 401 and self._authorization is None)
        ):
            raise self._words.not_found()
        if answer.status in (401, 403):
            raise self._words.token_refused()
        if answer.status == 429:
            raise self._words.busy(answer.headers.get("Retry-After"))
        raise self._words.odd_status(answer.status)


def _one_segment(revision: str) -> str:
    return revision.replace("/", "%2F")


def _parsed(body: bytes, most_values: int) -> object:
    """None for what is no JSON."""
    if excess_of(body, most_values, MAX_DESCRIPTION_BYTES) is not None:
        raise NotUsableError("hub_misbehaves", "has a description that is too long to read")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
