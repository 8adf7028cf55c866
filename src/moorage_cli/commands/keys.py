"""`moor keys create`, `list`, `show`, `limit`, `rotate`, `disable`, `enable` and `revoke`."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from moorage_cli.api.calls import Api
from moorage_cli.client import ApiClient
from moorage_cli.command import command
from moorage_cli.errors import CliError, ExitCode, UsageError
from moorage_cli.session import Session
from moorage_cli.times import shown_time, time_after

if TYPE_CHECKING:
    from moorage_cli.api.types import ApiKey, ApiKeyCreate, ApiKeyCreated

app = typer.Typer(help="API keys of a project.", no_args_is_help=True)


KeyArgument = Annotated[str, typer.Argument(metavar="ID|NAME", help="The key.")]


class Scope(StrEnum):
    INFERENCE = "inference"
    MANAGE = "manage"


@command(app, "create")
def create(
    session: Session,
    name: Annotated[str, typer.Option(help="A name to tell it from others.")] = "key",
    scope: Annotated[
        Scope, typer.Option(help="Whether it may call containers only, or manage them too.")
    ] = Scope.INFERENCE,
    expires: Annotated[
        str | None, typer.Option(metavar="30d|TIME", help="When it expires.", show_default="never")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Requests per minute, beyond which it gets 429.")
    ] = None,
) -> None:
    """Create an API key. Only the key goes to stdout: export MOORAGE_API_KEY=$(moor keys create)"""
    expires_at = time_after(expires, datetime.now(UTC), "--expires") if expires is not None else None
    created = create_key(
        session.client, session.project["id"], name, scope.value, expires_at, requests_per_minute=limit
    )
    if session.output.as_json:
        session.output.result(created)
        return
    until = f"until {shown_time(created['expires_at'])}" if created["expires_at"] else "until it is revoked"
    session.output.note(f"Created {created['name']} ({created['id']}), good for {scope.value} {until}.")
    session.output.note("Keep it. It is shown only once.")
    session.output.line(created["key"])


@command(app, "list")
def list_them(session: Session) -> None:
    """List the project's API keys."""
    keys = list(session.api.list_api_keys(session.project["id"]))
    if session.output.as_json:
        session.output.result(keys)
        return
    rows = [
        [
            one["name"],
            one["id"],
            one["scope"],
            f"…{one['hint']}",
            one["status"],
            shown_time(one["expires_at"]) if one["expires_at"] else "never",
            _limit(one),
            _last_use(one),
        ]
        for one in keys
    ]
    columns = ("NAME", "ID", "SCOPE", "KEY", "STATUS", "EXPIRES", "LIMIT", "LAST USED")
    session.output.table(columns, rows, "There are no API keys. Create one with `moor keys create`.")


@command(app, "show")
def show(session: Session, key: KeyArgument) -> None:
    """Show an API key: its limit, its last use, and whether and why it is refused."""
    one = session.api.get_api_key(_key_id(session, key))
    if session.output.as_json:
        session.output.result(one)
        return
    output = session.output
    output.line(f"{one['name']} ({one['id']}), …{one['hint']}, {one['scope']}: {one['status']}")
    output.line(one["message"] or "It is accepted.")
    output.line(
        f"Created {shown_time(one['created_at'])}; last used: {_last_use(one)}; limit: {_limit(one)}."
    )


@command(app, "limit")
def limit(
    session: Session,
    key: KeyArgument,
    requests_per_minute: Annotated[
        str, typer.Argument(metavar="N|none", help="Requests per minute, beyond which it gets 429.")
    ],
) -> None:
    """Set or remove an API key's own limit."""
    number = None if requests_per_minute == "none" else _whole_number(requests_per_minute)
    changed = session.api.change_api_key(_key_id(session, key), {"requests_per_minute": number})
    session.output.answer(changed, f"{changed['name']} ({changed['id']}): {_limit(changed)}.")


@command(app, "rotate")
def rotate(
    session: Session,
    key: KeyArgument,
    overlap: Annotated[str, typer.Option(metavar="1h|0s", help="How long the old key keeps working.")] = "1h",
) -> None:
    """Replace an API key with a new one. Only the new key goes to stdout."""
    now = datetime.now(UTC)
    overlap_s = int((time_after(overlap, now, "--overlap") - now).total_seconds())
    created = session.api.rotate_api_key(_key_id(session, key), {"overlap_s": overlap_s})
    if session.output.as_json:
        session.output.result(created)
        return
    session.output.note(f"Created {created['name']} ({created['id']}); the old key ends in {overlap}.")
    session.output.note("Keep it. It is shown only once.")
    session.output.line(created["key"])


@command(app, "disable")
def disable(session: Session, key: KeyArgument) -> None:
    """Refuse an API key until it is enabled again."""
    _set_disabled(session, key, True)


@command(app, "enable")
def enable(session: Session, key: KeyArgument) -> None:
    """Accept a disabled API key again."""
    _set_disabled(session, key, False)


@command(app, "revoke")
def revoke(session: Session, key: KeyArgument) -> None:
    """Revoke an API key: refused everywhere within seconds, and for good."""
    key_id = _key_id(session, key)
    session.api.revoke_api_key(key_id)
    session.output.answer({"id": key_id, "revoked": True}, f"Revoked {key_id}.")


def create_key(
    client: ApiClient,
    project_id: str,
    name: str,
    scope: Literal["inference", "manage"],
    expires_at: datetime | None,
    *,
    requests_per_minute: int | None = None,
) -> "ApiKeyCreated":
    body: ApiKeyCreate = {"name": name, "scope": scope}
    if requests_per_minute is not None:
        body["requests_per_minute"] = requests_per_minute
    if expires_at is not None:
        body["expires_at"] = expires_at.isoformat()
    return Api(client).create_api_key(project_id, body)


def _set_disabled(session: Session, key: str, disabled: bool) -> None:
    changed = session.api.change_api_key(_key_id(session, key), {"disabled": disabled})
    session.output.answer(changed, f"{'Disabled' if disabled else 'Enabled'} {changed['id']}.")


def _whole_number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"{text!r} is neither a whole number nor `none`.")
    return int(text)


def _limit(key: "ApiKey") -> str:
    per_minute = key["requests_per_minute"]
    return f"{per_minute}/min" if per_minute is not None else "none"


def _last_use(key: "ApiKey") -> str:
    if key["last_used_at"] is None:
        return "never"
    return f"{shown_time(key['last_used_at'])} from {key['last_used_from']}"


def _key_id(session: Session, key: str) -> str:
    return key if key.startswith("key_") else _find(session, key)["id"]


def _find(session: Session, name: str) -> "ApiKey":
    keys = session.api.list_api_keys(session.project["id"])
    found = [one for one in keys if one["name"] == name and one["status"] in ("active", "disabled")]
    if len(found) > 1:
        ids = ", ".join(one["id"] for one in found)
        raise UsageError(f"Several keys are named {name!r}. Name one by its id: {ids}.")
    if not found:
        raise CliError(
            f"There is no key named {name!r} in the project {session.project['name']}.",
            ExitCode.NOT_FOUND,
            code="not_found",
            hint="`moor keys list` shows the keys.",
        )
    return found[0]
