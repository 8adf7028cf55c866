"""`moor chat`."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.chat_client import ChatClient, Reply
from moorage_cli.client import Record
from moorage_cli.command import ContainerArgument, command
from moorage_cli.commands.keys import create_key
from moorage_cli.commands.outcome import failure
from moorage_cli.errors import CliError
from moorage_cli.session import Session
from moorage_cli.terminal_text import plain_paragraphs

if TYPE_CHECKING:
    from moorage_cli.api.types import Container

KEY_NAME = "moor chat"
KEY_LIFETIME = timedelta(minutes=15)


def register(app: typer.Typer) -> None:
    command(app)(chat)


def chat(
    session: Session,
    container: ContainerArgument,
    message: Annotated[str | None, typer.Argument(help="The message.", show_default="a conversation")] = None,
    key: Annotated[
        str | None, typer.Option(help="An API key of the project. Default: MOORAGE_API_KEY, else a new key.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="A system message before the conversation.")] = None,
    model: Annotated[str | None, typer.Option(help="The model, if the server has several.")] = None,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Wait for the whole answer instead of streaming it.")
    ] = False,
) -> None:
    """Chat with a running container through its endpoint. Without a message, have a conversation."""
    found = session.container(container)
    if found["state"] != "RUNNING":
        raise failure(found)
    body: Record = {"stream": not no_stream}
    if model is not None:
        body["model"] = model
    messages: list[Record] = [{"role": "system", "content": system}] if system is not None else []
    with _client(session, found, key) as client:
        if message is not None:
            _exchange(session, client, body, [*messages, {"role": "user", "content": message}])
        else:
            _converse(session, client, body, messages)
        if client.serves_v1 and found["api_path"] != "/v1":
            session.output.note(
                f"Its server serves /v1, so {found['endpoint_url']}/api/v1 does not reach it. "
                f"`moor edit {shlex.quote(found['name'])} --set api_path=/v1 --apply` changes that."
            )


@contextmanager
def _client(session: Session, container: "Container", key: str | None) -> Iterator[ChatClient]:
    given = key or session.environment.get("MOORAGE_API_KEY")
    if given:
        client = ChatClient(container["endpoint_url"], given.strip())
        try:
            yield client
        finally:
            client.close()
        return
    expires_at = datetime.now(UTC) + KEY_LIFETIME
    # The key must be of the container's own project, whichever is chosen for other commands.
    created = create_key(session.client, container["project_id"], KEY_NAME, "inference", expires_at)
    session.output.note(
        f"Created an API key named {KEY_NAME!r} for this chat; it ends in 15 minutes at the latest."
    )
    client = ChatClient(container["endpoint_url"], created["key"], key_is_new=True)
    try:
        yield client
    finally:
        client.close()
        _revoke(session, created["id"])


def _revoke(session: Session, key_id: str) -> None:
    try:
        session.api.revoke_api_key(key_id)
    except CliError as exc:
        session.output.note(f"The key {key_id} could not be revoked. It expires by itself. {exc.message}")


def _converse(session: Session, client: ChatClient, body: Record, messages: list[Record]) -> None:
    session.output.note("Type a message. /exit or Ctrl-D ends the conversation.")
    while True:
        said = _read_line()
        if said is None or said.strip() in ("/exit", "/quit"):
            return
        if not said.strip():
            continue
        messages.append({"role": "user", "content": said})
        try:
            reply = _exchange(session, client, body, messages)
        except CliError as exc:
            session.output.error(exc)
            messages.pop()  # so that it can be said again
        else:
            messages.append({"role": "assistant", "content": reply.text})


def _read_line() -> str | None:
    sys.stderr.write("> ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def _exchange(session: Session, client: ChatClient, body: Record, messages: list[Record]) -> Reply:
    output = session.output

    def show(text: str) -> None:
        if output.as_json:
            output.record({"event": "text", "text": text})
        else:
            sys.stdout.write(plain_paragraphs(text))
            sys.stdout.flush()

    reply = client.ask({**body, "messages": messages}, show)
    if output.as_json:
        output.record({"event": "done", **reply.to_json()})
        return reply
    sys.stdout.write("\n")
    sys.stdout.flush()
    first = (
        f"first token after {reply.time_to_first_token_s:.2f} s, "
        if reply.time_to_first_token_s is not None
        else ""
    )
    request_id = f", request {reply.request_id}" if reply.request_id else ""
    output.note(f"({first}total {reply.total_s:.2f} s{request_id})")
    return reply
