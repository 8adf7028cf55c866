"""Everything a hub can refuse, as a sentence to act on. Pure. None holds a token, or text that a hub chose."""

import re

from moorage.kit.errors import ModelError, UnavailableError
from moorage.models.reference import ModelReference

_USUAL_PAUSE_S = 60
_LONGEST_PAUSE_S = 600
"""However long a hub asks for: then it is asked once more."""


class HubBusyError(UnavailableError):
    """The hub was asked too often."""

    def __init__(self, message: str, *, wait_s: int) -> None:
        super().__init__(message, code="hub_unreachable")
        self.wait_s = wait_s


class HubWords:
    def __init__(self, hub: str, reference: ModelReference, *, has_token: bool) -> None:
        """`hub` is its address, as the operator set it."""
        self._hub = hub
        self.host = hub.partition("://")[2]
        self._model = reference
        self._has_token = has_token

    def not_found(self) -> ModelError:
        hint = (
            "or it is private, and the token may not read it"
            if self._has_token
            else "a private model needs a token that may read it"
        )
        return ModelError(
            f"{self.host} knows no model {self._model.repository}. Check the spelling; {hint}.",
            code="model_not_found",
        )

    def revision_not_found(self) -> ModelError:
        return ModelError(
            f"{self._model.repository} at {self.host} has no revision {self._model.revision}. "
            "Leave it out for the newest, or name a branch, tag or commit.",
            code="revision_not_found",
        )

    def gated(self) -> ModelError:
        first = (
            f"{self._model.repository} is gated: accept its licence at {self._hub}/{self._model.repository}"
        )
        then = (
            "with the account that the token belongs to, then try again."
            if self._has_token
            else "and give a token of the account that accepted it."
        )
        return ModelError(f"{first} {then}", code="model_gated")

    def token_refused(self) -> ModelError:
        return ModelError(
            f"{self.host} refused the token. Check that it was copied whole, has not expired, and may read "
            f"{self._model.repository}.",
            code="hub_token_refused",
        )

    def not_described(self) -> ModelError:
        return ModelError(
            f"{self.host} answered something that is not a model's description. Try again; if it stays, tell the operator.",
            code="hub_misbehaves",
        )

    def unusable(self, code: str, clause: str) -> ModelError:
        return ModelError(f"{self._model.repository} {clause}.", code=code)

    def unreachable(self, why: str) -> UnavailableError:
        return UnavailableError(
            f"{self._model.repository} cannot be looked up: {why}. Try again later, or deploy an image of your own.",
            code="hub_unreachable",
        )

    def odd_status(self, status: int) -> UnavailableError:
        return UnavailableError(
            f"{self.host} answered with HTTP status {status} when asked for {self._model.repository}. Try again later.",
            code="hub_unreachable",
        )

    def busy(self, retry_after: str | None) -> HubBusyError:
        """`retry_after` as the hub's header says it: a number of seconds, or anything else."""
        said = re.fullmatch(r"[0-9]{1,6}", retry_after or "")
        wait_s = min(max(int(said[0]), 1), _LONGEST_PAUSE_S) if said is not None else _USUAL_PAUSE_S
        return self.paused(wait_s)

    def paused(self, wait_s: int) -> HubBusyError:
        token = "" if self._has_token else ", or give a token"
        return HubBusyError(
            f"{self._model.repository} cannot be looked up: {self.host} limits how often Moorage may ask. "
            f"Try again in {wait_s} s{token}.",
            wait_s=wait_s,
        )
