"""What an engine does with a ticket, without an engine: greet, manifest, configuration, layers."""

import asyncio
import json

import aiohttp

from moorage.kit.errors import ImageError
from moorage.outbound.pulls.proxy import PullProxy
from moorage.outbound.pulls.ticket import PullOrder, Ticket
from tests.registry.images import digest_of

_ANSWER_TIMEOUT_S = 60.0


class Puller:
    """`tries` is how often it asks for a layer that it did not get whole, from where it was."""

    def __init__(self, ticket: Ticket, tries: int = 1) -> None:
        self.ticket = ticket
        listen, _, self._name = ticket.name.partition("/")
        self._base = f"http://{listen}/v2"
        self._tries = tries
        sign_in = aiohttp.encode_basic_auth(ticket.credentials.username, ticket.credentials.password)
        self._session = aiohttp.ClientSession(
            headers={"Authorization": sign_in},
            timeout=aiohttp.ClientTimeout(total=_ANSWER_TIMEOUT_S),
        )

    async def pull(self) -> dict[str, bytes]:
        """All parts by digest. Raises what the ticket says against the pull."""
        try:
            async with self._session:
                async with self._session.get(f"{self._base}/") as hello:
                    assert hello.status == 200
                return await self._parts()
        finally:
            if self.ticket.refused.done():
                raise self.ticket.refused.result()

    async def _parts(self) -> dict[str, bytes]:
        body = await self._get(f"manifests/{self.ticket.manifest_digest}")
        parts = {digest_of(body): body}
        manifest = json.loads(body)
        for descriptor in (manifest["config"], *manifest["layers"]):
            parts[descriptor["digest"]] = await self._get(f"blobs/{descriptor['digest']}")
            assert digest_of(parts[descriptor["digest"]]) == descriptor["digest"]
        return parts

    async def _get(self, path: str) -> bytes:
        received = b""
        for _ in range(self._tries):
            headers = {"Range": f"bytes={len(received)}-"} if received else {}
            try:
                async with self._session.get(f"{self._base}/{self._name}/{path}", headers=headers) as answer:
                    if answer.status not in (200, 206):
                        continue
                    assert (answer.status == 206) == bool(received)
                    async for chunk in answer.content.iter_any():
                        received += chunk
                    return received
            except aiohttp.ClientPayloadError:
                continue
            except aiohttp.ServerDisconnectedError:
                continue
        raise self.ticket.trouble or AssertionError(f"{path} was not given")


async def pull(proxy: PullProxy, order: PullOrder, tries: int = 1) -> dict[str, bytes]:
    async with proxy.ticket(order) as ticket:
        return await Puller(ticket, tries).pull()


async def refusal_of(proxy: PullProxy, order: PullOrder, tries: int = 1) -> ImageError:
    try:
        async with asyncio.timeout(60):
            await pull(proxy, order, tries)
    except ImageError as exc:
        return exc
    raise AssertionError("the pull succeeded")
