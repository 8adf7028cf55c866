"""What can go wrong, as the person at the terminal reads it, and the exit code that a script reads."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_READY = 3
    UNREACHABLE = 4
    NOT_SIGNED_IN = 5
    FORBIDDEN = 6
    NOT_FOUND = 7
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "tried and failed, e.g. a deployment is FAILED",
    ExitCode.USAGE: "wrong use or invalid input",
    ExitCode.NOT_READY: "Moorage answers but is not ready",
    ExitCode.UNREACHABLE: "Moorage cannot be reached",
    ExitCode.NOT_SIGNED_IN: "not signed in",
    ExitCode.FORBIDDEN: "not allowed",
    ExitCode.NOT_FOUND: "not found",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C",
}

_EXIT_CODES = {
    400: ExitCode.USAGE,
    401: ExitCode.NOT_SIGNED_IN,
    403: ExitCode.FORBIDDEN,
    404: ExitCode.NOT_FOUND,
    422: ExitCode.USAGE,
}


_SENTENCE_SAYS_MORE = ("model_does_not_fit", "no_machine_has_it")
"""Codes of problems whose detail says what would work; their fields say only what does not."""


class CliError(Exception):
    """Expected: shown as one clear line, never as a traceback."""

    def __init__(
        self,
        message: str,
        exit_code: ExitCode = ExitCode.FAILED,
        *,
        code: str = "failed",
        hint: str | None = None,
        fields: Sequence[tuple[str, str]] = (),
        request_id: str | None = None,
        status: int | None = None,
        lists_fields: bool = True,
    ) -> None:
        """`lists_fields` is False where the message says all of them, and more."""
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.code = code
        self.hint = hint
        self.fields = tuple(fields)
        self.request_id = request_id
        self.status = status
        self.listed_fields = self.fields if lists_fields else ()

    def to_json(self) -> dict[str, Any]:
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "hint": self.hint,
                "errors": [{"field": field, "message": message} for field, message in self.fields],
                "request_id": self.request_id,
                "status": self.status,
                "exit_code": int(self.exit_code),
            }
        }


class UsageError(CliError):
    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, ExitCode.USAGE, code="usage", hint=hint)


class UnreachableError(CliError):
    def __init__(self, url: str, why: str) -> None:
        super().__init__(
            f"Cannot reach Moorage at {url} ({why}).",
            ExitCode.UNREACHABLE,
            code="unreachable",
            hint="Is it running? Start it (`systemctl start moorage`, or `make up` in a checkout), or name another address with --url.",
        )


class NotSignedInError(CliError):
    def __init__(self, url: str) -> None:
        super().__init__(
            f"You are not signed in to Moorage at {url}.",
            ExitCode.NOT_SIGNED_IN,
            code="not_signed_in",
            hint="Run `moor login`, or set MOORAGE_TOKEN.",
        )


class ApiError(CliError):
    """A problem document (RFC 9457) that the API answered with."""


def api_error(status: int, problem: Mapping[str, Any]) -> ApiError:
    fields = [
        (str(one.get("field", "")), str(one.get("message", "")))
        for one in problem.get("errors") or ()
        if isinstance(one, dict)
    ]
    message = str(problem.get("detail") or problem.get("title") or f"Moorage answered {status}.")
    code = str(problem.get("code") or f"http_{status}")
    lists_fields = code not in _SENTENCE_SAYS_MORE
    if fields and lists_fields:
        # The detail repeats the fields in one long line; they are listed one by one below.
        message = "Moorage did not accept this:"
    hints = {
        401: "Run `moor login`: the session may have expired.",
        429: "Wait a little and try again.",
    }
    hint = hints.get(status)
    if any(field == "resources.instance_type" for field, _ in fields) and lists_fields:
        hint = "`moor instance-types` lists what there is."
    return ApiError(
        message,
        _EXIT_CODES.get(status, ExitCode.FAILED),
        code=code,
        hint=hint,
        fields=fields,
        request_id=problem.get("request_id"),
        status=status,
        lists_fields=lists_fields,
    )


def exit_codes_text() -> str:
    return "Exit codes: " + "; ".join(f"{code.value} {meaning}" for code, meaning in MEANINGS.items()) + "."
