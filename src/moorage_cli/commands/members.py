"""`moor members list`, `invite`, `resend`, `withdraw`, `role` and `remove`."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.command import command
from moorage_cli.errors import CliError, ExitCode
from moorage_cli.session import Session
from moorage_cli.times import shown_time

if TYPE_CHECKING:
    from moorage_cli.api.types import Invitation, InvitationCreate, Member

app = typer.Typer(help="The people of an organization.", no_args_is_help=True)


class Role(StrEnum):
    ADMIN = "admin"
    USER = "user"


InvitedArgument = Annotated[str, typer.Argument(metavar="ADDRESS|ID", help="The invited.")]
WhoArgument = Annotated[str, typer.Argument(metavar="ADDRESS|ID", help="The member.")]


@command(app, "list")
def list_them(session: Session) -> None:
    """List the members and the open invitations."""
    members = list(session.api.list_members(session.organization["id"]))
    invitations = list(session.api.list_invitations(session.organization["id"]))
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
    session.output.table(("ADDRESS", "ROLE", "STATUS", "ID", "SINCE"), rows, "There are no members.")


@command(app, "invite")
def invite(
    session: Session,
    address: Annotated[str, typer.Argument(help="Their e-mail address.")],
    role: Annotated[Role, typer.Option(help="What they may do.")] = Role.USER,
    into: Annotated[str | None, typer.Option(metavar="ID", help="The project to add them to.")] = None,
) -> None:
    """Mail somebody an invitation. Only that address can accept it, within 7 days."""
    body: InvitationCreate = {"email": address, "role": role.value}
    if into is not None:
        body["project_id"] = into
    made = session.api.invite(session.organization["id"], body)
    session.output.answer(made, f"Invited {made['email']} until {shown_time(made['expires_at'])}.")


@command(app, "resend")
def resend(session: Session, address: InvitedArgument) -> None:
    """Mail an invitation again, with a new link that works for another 7 days."""
    found = _invitation(session, address)
    sent = session.api.resend_invitation(session.organization["id"], found["id"])
    session.output.answer(sent, f"Invited {sent['email']} again, until {shown_time(sent['expires_at'])}.")


@command(app, "withdraw")
def withdraw(session: Session, address: InvitedArgument) -> None:
    """Withdraw an open invitation."""
    found = _invitation(session, address)
    session.api.withdraw_invitation(session.organization["id"], found["id"])
    session.output.answer(
        {"id": found["id"], "withdrawn": True}, f"Withdrew the invitation of {found['email']}."
    )


@command(app, "role")
def change_role(
    session: Session, who: WhoArgument, role: Annotated[Role, typer.Argument(help="What they may do.")]
) -> None:
    """Make a member an admin, or a user again."""
    member = _member(session, who)
    changed = session.api.change_member(session.organization["id"], member["user_id"], {"role": role.value})
    session.output.answer(changed, f"{changed['email']} is now {role.value}.")


@command(app, "remove")
def remove(
    session: Session,
    who: WhoArgument,
    keep_keys: Annotated[bool, typer.Option("--keep-keys", help="Keep the API keys that they made.")] = False,
) -> None:
    """Remove a member. Their rights end at once, and the keys that they made are revoked."""
    member = _member(session, who)
    removed = session.api.remove_member(
        session.organization["id"], member["user_id"], revoke_keys=not keep_keys
    )
    session.output.answer(
        removed, f"Removed {member['email']}; revoked {len(removed['revoked_key_ids'])} keys."
    )


def _member(session: Session, who: str) -> "Member":
    for one in session.api.list_members(session.organization["id"]):
        if who in (one["email"], one["user_id"]):
            return one
    raise _absent("member", who)


def _invitation(session: Session, address: str) -> "Invitation":
    for one in session.api.list_invitations(session.organization["id"]):
        if address in (one["email"], one["id"]):
            return one
    raise _absent("invitation", address)


def _absent(what: str, wish: str) -> CliError:
    return CliError(
        f"There is no {what} {wish!r} in this organization.",
        ExitCode.NOT_FOUND,
        code="not_found",
        hint="`moor members list` shows everybody.",
    )
