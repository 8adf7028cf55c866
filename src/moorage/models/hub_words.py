"""Everything a hub can refuse, as a sentence to act on. Pure. None holds a token, or text that a hub chose."""

from moorage.kit.errors import ModelError, UnavailableError
from moorage.models.reference import ModelReference


class HubWords:
    def __init__(self, hub: str, reference: ModelReference, *, has_token: bool) -> None:
        """`hub` is its address, as the operator set it."""
        self._hub = hub
        self.host = hub.partition("://")[2]
        self._model = reference
        self._has_token = has_token

    def not_found(self) -> ModelError:
        hint = (
            "a hub says the same of a private model that the token may not read"
            if self._has_token
            else "a private model needs a token that may read it"
        )
        return ModelError(
            f"{self.host} knows no model {self._model.repository}. Check how it is spelled; {hint}.",
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
            else "and give a token of that account (moor deploy --hub-token-file FILE)."
        )
        return ModelError(f"{first} {then}", code="model_gated")

    def token_refused(self) -> ModelError:
        return ModelError(
            f"{self.host} refused the token. Check that it was copied whole, has not expired, and may read "
            f"{self._model.repository}.",
            code="hub_token_refused",
        )

    def unusable(self, code: str, clause: str) -> ModelError:
        return ModelError(f"{self._model.repository} {clause}.", code=code)

    def unreachable(self, why: str) -> UnavailableError:
        return UnavailableError(
            f"{self._model.repository} cannot be looked up: {why}. Try again later, or deploy an image of your own.",
            code="hub_unreachable",
        )

    def odd_status(self, status: int) -> UnavailableError:
        wait = (
            "It limits how often it may be asked; wait some minutes" if status == 429 else "Try again later"
        )
        token = ", or give a token" if status == 429 and not self._has_token else ""
        return UnavailableError(
            f"{self.host} answered with HTTP status {status} when asked for {self._model.repository}. {wait}{token}.",
            code="hub_unreachable",
        )
