"""`moor login`, `logout` and `whoami`."""

import os
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qs, urlsplit

import typer

from moorage_cli import browser
from moorage_cli.api.calls import Api
from moorage_cli.client import ApiClient, Record
from moorage_cli.command import command
from moorage_cli.config import (
    Config,
    checked_url,
    installed_addresses,
    is_this_machine,
    operator_key_path,
    save_config,
)
from moorage_cli.errors import ApiError, CliError, ExitCode, UnreachableError, UsageError
from moorage_cli.secret_values import read_secret
from moorage_cli.session import Session

if TYPE_CHECKING:
    from moorage_cli.api.types import Me

_SESSION_PREFIX = "moor_ses_"


def register(app: typer.Typer) -> None:
    command(app)(login)
    command(app)(logout)
    command(app)(whoami)


def login(
    session: Session,
    key: Annotated[
        str | None, typer.Option(help="The operator's key, or an API key with scope manage.", metavar="KEY")
    ] = None,
    key_file: Annotated[Path | None, typer.Option(help="A file with the key; - is stdin.")] = None,
    link: Annotated[str | None, typer.Option(help="A one-time sign-in link.", metavar="LINK")] = None,
    email: Annotated[
        str | None, typer.Option(help="Sign in with a code sent to this address.", metavar="ADDRESS")
    ] = None,
    code: Annotated[str | None, typer.Option(help="The mailed code; asked for if left out.")] = None,
    browser: Annotated[bool, typer.Option("--browser", help="Approve the sign-in in a browser.")] = False,
) -> None:
    """Sign in, and remember the address and the session. Without options: as this machine's operator, else in a
    browser."""
    if sum(one is not None for one in (key, key_file, link, email, browser or None)) > 1:
        raise UsageError("Give only one of --key, --key-file, --link, --email and --browser.")
    url = session.url
    if link is not None:
        url, token = _by_link(session, link)
    elif key is not None or key_file is not None:
        token = key.strip() if key is not None else read_secret(key_file or Path("-"))
    elif email is not None:
        token = _by_email(url, session, email, code)
    else:
        operator = None if browser else _operator(session)
        url, token = operator or (url, _by_browser(url, session))
    who = _who(url, token)
    same_place = session.config.url is not None and checked_url(session.config.url) == url
    kept = session.config if same_place else Config()
    save_config(session.config_path, replace(kept, url=url, token=token))
    _warn_if_readable_on_the_way(session, url)
    session.output.answer({"url": url, **who}, f"Signed in to {url} as {_described(who)}.")


def logout(session: Session) -> None:
    """End the session and forget it."""
    token = session.config.token
    ended = False
    if token is not None and token.startswith(_SESSION_PREFIX) and session.config.url is not None:
        ended = _end_session(session, checked_url(session.config.url), token)
    save_config(session.config_path, replace(session.config, token=None, project=None))
    if session.environment.get("MOORAGE_TOKEN"):
        session.output.note("MOORAGE_TOKEN is set and still signs you in.")
    session.output.answer(
        {"signed_out": token is not None, "session_ended": ended},
        "Signed out." if token is not None else "You were not signed in.",
    )


def whoami(session: Session) -> None:
    """Show who you are to Moorage, and where."""
    who = session.api.me()
    who.pop("csrf_token", None)
    if session.output.as_json:
        session.output.result({"url": session.url, **who})
        return
    pairs = [("url", session.url), ("signed in as", _described(who))]
    if session.project_wish is not None:
        pairs.append(("project", session.project_wish))
    session.output.pairs(pairs)


def _by_link(session: Session, link: str) -> tuple[str, str]:
    if "://" in link:
        parts = urlsplit(link)
        token = (parse_qs(parts.query).get("token") or [""])[0]
        url = checked_url(f"{parts.scheme}://{parts.netloc}")
    else:
        url, token = session.url, link.strip()
    if not token:
        raise UsageError("The link has no token in it. Copy it whole, from http to the end.")
    return url, _exchanged(url, "/auth/link/verify", {"token": token})


def _by_browser(url: str, session: Session) -> str:
    """This machine shows a code; whoever approves it in a browser is who signs in here."""
    client = ApiClient(url)
    try:
        api = Api(client)
        started = api.start_device({"client_name": f"moor on {socket.gethostname()}"[:100]})
        page = started["verification_url"]
        session.output.note(f"Open {page} and approve the code {started['user_code']}.")
        if sys.stdout.isatty():
            browser.show(page)
        deadline = time.monotonic() + started["expires_in_s"]
        while time.monotonic() < deadline:
            answer = api.collect_device({"device_code": started["device_code"]})
            if answer["signed_in"] is not None:
                return answer["signed_in"]["session_token"]
            time.sleep(started["interval_s"])
    except ApiError as exc:
        if exc.status == 401:
            raise CliError(exc.message, ExitCode.NOT_SIGNED_IN, code=exc.code, status=401) from exc
        raise
    finally:
        client.close()
    raise CliError("The code was not approved in time.", ExitCode.NOT_SIGNED_IN, code="not_approved")


def _by_email(url: str, session: Session, address: str, code: str | None) -> str:
    if code is None:
        code = _asked_code(url, session, address)
    return _exchanged(url, "/auth/email/verify", {"email": address, "code": code.strip()})


def _asked_code(url: str, session: Session, address: str) -> str:
    client = ApiClient(url)
    try:
        sent = Api(client).start_email({"email": address})
    finally:
        client.close()
    session.output.note(sent["message"])
    try:
        return str(typer.prompt("Code", err=True))
    except typer.Abort:
        typer.echo(err=True)  # the question's line is still open
        raise UsageError(
            "No code was typed.", hint=f"Finish with `moor login --email {address} --code CODE`."
        ) from None


def _exchanged(url: str, path: str, body: Record) -> str:
    client = ApiClient(url)
    try:
        return str(client.post(path, body)["session_token"])
    except ApiError as exc:
        if exc.status == 401:
            raise CliError(exc.message, ExitCode.NOT_SIGNED_IN, code=exc.code, status=401) from exc
        raise
    finally:
        client.close()


def _operator(session: Session) -> tuple[str, str] | None:
    """The address of the installation on this machine, and its operator's key. The key opens that one; no other has any
    business seeing it, whoever listens where."""
    path = operator_key_path(session.environment, os.geteuid() == 0)
    addresses = installed_addresses(path)
    if not addresses or not os.access(path, os.R_OK):
        return None
    if session.named_url is not None and session.url not in addresses:
        return None
    session.output.note(f"Using the operator's key in {path}.")
    return session.url if session.named_url is not None else addresses[0], read_secret(path)


def _who(url: str, token: str) -> "Me":
    client = ApiClient(url, token)
    try:
        who = Api(client).me()
    except ApiError as exc:
        if exc.status != 401:
            raise
        raise CliError(
            f"{url} refused the key.",
            ExitCode.NOT_SIGNED_IN,
            code=exc.code,
            hint="An API key needs the scope manage; an inference key only reaches containers.",
            status=401,
        ) from exc
    finally:
        client.close()
    who.pop("csrf_token", None)
    return who


def _end_session(session: Session, url: str, token: str) -> bool:
    client = ApiClient(url, token)
    try:
        Api(client).logout()
    except UnreachableError:
        session.output.note(f"{url} cannot be reached. The session ends there when it expires.")
        return False
    except ApiError as exc:
        if exc.status != 401:
            raise
        return False
    finally:
        client.close()
    return True


def _described(who: "Me") -> str:
    user = who.get("user")
    if user is None:
        return f"an API key of the project {who.get('project_id')}"
    return f"{user['email']} (operator)" if user["is_operator"] else str(user["email"])


def _warn_if_readable_on_the_way(session: Session, url: str) -> None:
    if url.startswith("http://") and not is_this_machine(url):
        session.output.note(
            f"Warning: {url} is not encrypted. Anybody on the network path can read the session."
        )
