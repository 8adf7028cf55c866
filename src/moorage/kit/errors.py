"""Every error Moorage raises on purpose, each with a stable `code`.

The message is a sentence for the person who can act on it. Which HTTP status a class becomes is
known in `entrypoints` alone.
"""

from dataclasses import dataclass


class MoorageError(Exception):
    """Base of all expected errors. Anything else that escapes is a bug and becomes a 500."""

    code = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


@dataclass(frozen=True)
class FieldError:
    """One thing wrong with one field of the input, e.g. `("name", "must not be empty")`."""

    field: str
    message: str


class InvalidInputError(MoorageError):
    code = "invalid_input"

    def __init__(self, message: str, *, code: str | None = None, fields: tuple[FieldError, ...] = ()) -> None:
        super().__init__(message, code=code)
        self.fields = fields


class NotAuthenticatedError(MoorageError):
    code = "authentication_failed"


class ForbiddenError(MoorageError):
    code = "forbidden"


class NotFoundError(MoorageError):
    """Absent, or not visible to whoever asks: the two must be indistinguishable."""

    code = "not_found"


class ConflictError(MoorageError):
    code = "conflict"


class TooManyRequestsError(MoorageError):
    code = "too_many_requests"

    def __init__(self, message: str, *, retry_after_s: int, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after_s = retry_after_s


class InsufficientCreditError(MoorageError):
    """It would cost more than there is. The message says how much is missing."""

    code = "insufficient_credit"

    def __init__(self, message: str, *, missing_microusd: int) -> None:
        super().__init__(message)
        self.missing_microusd = missing_microusd


class UnavailableError(MoorageError):
    code = "unavailable"


class SettingsError(MoorageError):
    """The installation's own settings are wrong; the message says which one and what to write."""

    code = "settings"


class SetupError(MoorageError):
    """This machine cannot run Moorage as it is; the message says what to do about it."""

    code = "setup"


class DecryptionError(MoorageError):
    """A ciphertext is damaged, belongs to another row, or was made with a key that is gone."""

    code = "decryption_failed"


class LeaseLostError(MoorageError):
    """Somebody else leads now; whatever was about to be written must not be."""

    code = "lease_lost"


class EngineError(MoorageError):
    """The container engine did not do what was asked, for a reason outside the request."""

    code = "engine_error"


class ImageError(EngineError):
    """An image cannot be had. `code` is the container's reason, e.g. `image_not_found`."""


class StartError(EngineError):
    """A replica's process could not be started. `code` is the reason, e.g. `start_command_not_found`."""


class ModelError(InvalidInputError):
    """A model cannot be served, or not as it was asked for. `code` says why, e.g. `model_not_found`."""

    code = "model_not_usable"
