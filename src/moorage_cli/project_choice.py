"""Which project a command is about."""

from moorage_cli.client import ApiClient, Record, is_absent
from moorage_cli.errors import ApiError, CliError, ExitCode, UsageError


class NoProjectError(CliError):
    def __init__(self) -> None:
        super().__init__(
            "You have no project yet.",
            ExitCode.NOT_FOUND,
            code="no_project",
            hint="Create one with `moor project create NAME`.",
        )


def choose_project(client: ApiClient, wish: str | None) -> Record:
    """The one wished for by name or id; without a wish, the only one there is."""
    project_id = client.get("/me").get("project_id")
    if project_id is not None:
        return _of_key(client, project_id, wish)
    if wish is not None and wish.startswith("prj_"):
        try:
            by_id: Record = client.get(f"/projects/{wish}")
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
        hint="`moor project list` shows those that there are.",
    )


def list_projects(client: ApiClient) -> list[Record]:
    """All that the account has joined, each with the name of its organization."""
    return [
        {**project, "organization_name": organization["name"]}
        for organization in client.pages("/organizations")
        for project in client.pages(f"/organizations/{organization['id']}/projects")
    ]


def create_project(client: ApiClient, name: str, organization: Record) -> Record:
    project: Record = client.post(f"/organizations/{organization['id']}/projects", {"name": name})
    return {**project, "organization_name": organization["name"]}


def _only(projects: list[Record]) -> Record:
    if not projects:
        raise NoProjectError()
    if len(projects) > 1:
        raise UsageError(
            f"You have several projects: {', '.join(project['name'] for project in projects)}.",
            hint="Choose one with --project NAME, or for good with `moor project use NAME`.",
        )
    return projects[0]


def _of_key(client: ApiClient, project_id: str, wish: str | None) -> Record:
    project: Record = client.get(f"/projects/{project_id}")
    if wish is not None and wish not in (project["name"], project["id"]):
        raise CliError(
            f"This API key belongs to the project {project['name']}, not to {wish!r}.",
            ExitCode.FORBIDDEN,
            code="forbidden",
        )
    return project


def _ids(projects: list[Record]) -> str:
    return ", ".join(project["id"] for project in projects)
