"""Which project a command is about."""

from typing import TYPE_CHECKING

from moorage_cli.api.calls import Api
from moorage_cli.client import ApiClient, is_absent
from moorage_cli.errors import ApiError, CliError, ExitCode, UsageError

if TYPE_CHECKING:
    from moorage_cli.api.types import Organization, Project

    class NamedProject(Project):
        """With the name of its organization, for people."""

        organization_name: str


class NoProjectError(CliError):
    def __init__(self) -> None:
        super().__init__(
            "You have no project yet.",
            ExitCode.NOT_FOUND,
            code="no_project",
            hint="Create one with `moor project create NAME`.",
        )


def choose_project(client: ApiClient, wish: str | None) -> "Project":
    """The one wished for by name or id; without a wish, the only one there is."""
    project_id = Api(client).me().get("project_id")
    if project_id is not None:
        return _of_key(client, project_id, wish)
    if wish is not None and wish.startswith("prj_"):
        try:
            by_id = Api(client).get_project(wish)
        except ApiError as exc:
            if not is_absent(exc):
                raise
        else:
            return by_id
    projects = list_projects(client)
    if wish is None:
        return _only(projects)
    named = [project for project in projects if wish in (project["name"], project["id"])]
    if len(named) == 1:
        return named[0]
    if named:
        raise UsageError(f"Several projects are named {wish!r}. Name one by its id: {_ids(named)}.")
    raise CliError(
        f"There is no project {wish!r}.",
        ExitCode.NOT_FOUND,
        code="not_found",
        hint="`moor project list` shows your projects.",
    )


def list_projects(client: ApiClient) -> "list[NamedProject]":
    """All that the account has joined, each with the name of its organization."""
    api = Api(client)
    return [
        {**project, "organization_name": organization["name"]}
        for organization in api.list_organizations()
        for project in api.list_projects(organization["id"])
    ]


def create_project(client: ApiClient, name: str, organization: "Organization") -> "NamedProject":
    project = Api(client).create_project(organization["id"], {"name": name})
    return {**project, "organization_name": organization["name"]}


def _only(projects: "list[NamedProject]") -> "Project":
    if not projects:
        raise NoProjectError()
    if len(projects) > 1:
        raise UsageError(
            f"You have several projects: {', '.join(project['name'] for project in projects)}.",
            hint="Choose one with --project NAME, or permanently with `moor project use NAME`.",
        )
    return projects[0]


def _of_key(client: ApiClient, project_id: str, wish: str | None) -> "Project":
    project = Api(client).get_project(project_id)
    if wish is not None and wish not in (project["name"], project["id"]):
        raise CliError(
            f"This API key belongs to the project {project['name']}, not to {wish!r}.",
            ExitCode.FORBIDDEN,
            code="forbidden",
        )
    return project


def _ids(projects: "list[NamedProject]") -> str:
    return ", ".join(project["id"] for project in projects)
