"""The installation, as a machine speaks to it: over HTTPS, with a secret that is good for itself alone."""

import ssl
from dataclasses import dataclass, field
from typing import Any

import httpx

from moorage.kit.errors import MoorageError

_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_LARGEST_ANSWER_BYTES = 2**20


class InstallationError(MoorageError):
    """The installation refused, or was not reached; the message says which and why."""

    code = "installation"


@dataclass(frozen=True)
class Installation:
    url: str
    machine_id: str = ""
    secret: str = field(default="", repr=False)
    ca_file: str | None = None
    """Certificates to trust besides the system's."""

    async def join(self, wish: dict[str, Any]) -> dict[str, Any]:
        return await self._ask("POST", "/machines/join", wish)

    async def membership(self) -> dict[str, Any]:
        return await self._ask("GET", f"/machines/{self.machine_id}/membership")

    async def renew_key(self, public_key: str) -> None:
        await self._ask("PUT", f"/machines/{self.machine_id}/key", {"public_key": public_key})

    async def leave(self) -> None:
        await self._ask("POST", f"/machines/{self.machine_id}/leave")

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        if not self.url.startswith("https://"):
            raise InstallationError(
                f"{self.url} is not an https:// address. Secrets are sent over HTTPS only."
            )
        headers = {"Authorization": f"Bearer {self.secret}"} if self.secret else {}
        trusted = ssl.create_default_context(cafile=self.ca_file)
        try:
            async with httpx.AsyncClient(timeout=_TIMEOUT, verify=trusted) as client:
                answer = await client.request(method, f"{self.url}/api/v1{path}", json=body, headers=headers)
        except httpx.TransportError as exc:
            raise InstallationError(f"Cannot reach {self.url}: {str(exc) or type(exc).__name__}.") from exc
        if len(answer.content) > _LARGEST_ANSWER_BYTES:
            raise InstallationError(f"{self.url} did not answer as Moorage does.")
        if answer.status_code == httpx.codes.NO_CONTENT:
            return {}
        try:
            found = answer.json()
        except ValueError as exc:
            raise InstallationError(
                f"{self.url} answered {answer.status_code}, but not as Moorage does."
            ) from exc
        if not answer.is_success:
            detail = found.get("detail") if isinstance(found, dict) else None
            code = found.get("code") if isinstance(found, dict) else None
            raise InstallationError(str(detail or f"{self.url} answered {answer.status_code}."), code=code)
        assert isinstance(found, dict), "the API answers with objects"
        return found
