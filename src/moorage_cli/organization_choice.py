"""Which organization a command is about."""

from typing import TYPE_CHECKING

from moorage_cli.api.calls import Api
from moorage_cli.client import ApiClient
from moorage_cli.errors import CliError, ExitCode, UsageError

if TYPE_CHECKING:
    from moorage_cli.api.types import Organization


def choose_organization(client: ApiClient, wish: str | None) -> "Organization":
    """The one wished for by name or id; without a wish, the account's first."""
    organizations = list(Api(client).list_organizations())
    if wish is None:
        if not organizations:
            raise CliError("You belong to no organization.", ExitCode.NOT_FOUND, code="no_organization")
        return min(organizations, key=lambda one: one["created_at"])
    found = [one for one in organizations if wish in (one["name"], one["id"])]
    if len(found) > 1:
        ids = ", ".join(one["id"] for one in found)
        raise UsageError(f"Several organizations are named {wish!r}. Name one by its id: {ids}.")
    if not found:
        raise CliError(
            f"There is no organization {wish!r}.",
            ExitCode.NOT_FOUND,
            code="not_found",
            hint="`moor org list` shows your organizations.",
        )
    return found[0]
