"""`moor members list`, `invite`, `resend`, `withdraw`, `role` and `remove`."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer

from moorage_cli.client import Record
from moorage_cli.command import command
from moorage_cli.errors import CliError, ExitCode
from moorage_cli.session import Session, path_part
from moorage_cli.times import shown_time

app = typer.Typer(help="The people of an organization.", no_args_is_help=True)


class Role(StrEnum):
    ADMIN = "admin"
    USER = "user"


InvitedArgument = Annotated[str, typer.Argument(metavar="ADDRESS|ID", help="The invited.")]
WhoArgument = Annotated[str, typer.Argument(metavar="ADDRESS|ID", help="The member.")]


@command(app, "list")
def list_them(session: Session) -> None:
    """List the members and the invitations that wait."""
    members = list(session.client.pages(f"{_path(session)}/members"))
    invitations = list(session.client.pages(f"{_path(session)}/invitations"))
    if session.output.as_json:
        session.output.result({"members": members, "invitations": invitations})
        return
    rows = [
        [one["email"], one["role"], "member", one["user_id"], shown_time(one["joined_at"])] for one in members
    ]
    rows += [
        [one["email"], one["role"], f"invited ({one['state']})", one["id"], shown_time(one["created_at"])]
        for one in invitations
    ]
    session.output.table(("ADDRESS", "ROLE", "STATUS", "ID", "SINCE"), rows, "Nobody is here.")


@command(app, "invite")
def invite(
    session: Session,
    address: Annotated[str, typer.Argument(help="Their e-mail address.")],
    role: Annotated[Role, typer.Option(help="What they may do.")] = Role.USER,
    into: Annotated[str | None, typer.Option(metavar="ID", help="The project that they join.")] = None,
) -> None:
    """Mail somebody an invitation. Only that very address can accept it, within 7 days."""
    body: Record = {"email": address, "role": role.value}
    if into is not None:
        body["project_id"] = into
    made = session.client.post(f"{_path(session)}/invitations", body)
    session.output.answer(made, f"Invited {made['email']} until {shown_time(made['expires_at'])}.")


@command(app, "resend")
def resend(session: Session, address: InvitedArgument) -> None:
    """Mail an invitation anew, with a new link and another 7 days."""
    found = _invitation(session, address)
    sent = session.client.post(f"{_path(session)}/invitations/{path_part(found['id'])}/resend")
    session.output.answer(sent, f"Invited {sent['email']} again, until {shown_time(sent['expires_at'])}.")


@command(app, "withdraw")
def withdraw(session: Session, address: InvitedArgument) -> None:
    """Withdraw an invitation that was not accepted yet."""
    found = _invitation(session, address)
    session.client.request("DELETE", f"{_path(session)}/invitations/{path_part(found['id'])}")
    session.output.answer(
        {"id": found["id"], "withdrawn": True}, f"Withdrew the invitation of {found['email']}."
    )


@command(app, "role")
def change_role(
    session: Session, who: WhoArgument, role: Annotated[Role, typer.Argument(help="What they may do.")]
) -> None:
    """Make a member an admin, or a user again."""
    member = _member(session, who)
    path = f"{_path(session)}/members/{path_part(member['user_id'])}"
    changed = session.client.request("PATCH", path, body={"role": role.value}).body
    session.output.answer(changed, f"{changed['email']} is now {role.value}.")


@command(app, "remove")
def remove(
    session: Session,
    who: WhoArgument,
    keep_keys: Annotated[
        bool, typer.Option("--keep-keys", help="Leave the API keys that they made as they are.")
    ] = False,
) -> None:
    """Remove a member: their rights end at once, and the keys that they made are revoked."""
    member = _member(session, who)
    path = f"{_path(session)}/members/{path_part(member['user_id'])}"
    params = {"revoke_keys": "false" if keep_keys else "true"}
    removed = session.client.request("DELETE", path, params=params).body
    session.output.answer(
        removed, f"Removed {member['email']}; revoked {len(removed['revoked_key_ids'])} keys."
    )


def _member(session: Session, who: str) -> Record:
    return _one(session.client.pages(f"{_path(session)}/members"), who, "user_id", "member")


def _invitation(session: Session, address: str) -> Record:
    return _one(session.client.pages(f"{_path(session)}/invitations"), address, "id", "invitation")


def _one(found: Iterable[Record], wish: str, id_field: str, what: str) -> Record:
    for one in found:
        if wish in (one["email"], one[id_field]):
            return one
    raise CliError(
        f"There is no {what} {wish!r} in this organization.",
        ExitCode.NOT_FOUND,
        code="not_found",
        hint="`moor members list` shows those that there are.",
    )


def _path(session: Session) -> str:
    return f"/organizations/{session.organization['id']}"
