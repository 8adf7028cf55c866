"""One search through the installation, for the operator: whose is this, and where is it."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from moorage.catalog.repository import list_nodes
from moorage.containers.operator.organization_repository import organization_of_project, search_containers
from moorage.engines.base import LOCAL_ENGINE
from moorage.identity.authentication import TheOperator
from moorage.kit.web import TheSession
from moorage.machines.repository import search_machines
from moorage.organizations.operator.repository import search_organizations, search_users
from moorage.telemetry.requests.repository import find_record

router = APIRouter(tags=["operator"])

MOST_OF_A_KIND = 8
_REQUEST = "req_"


class Found(BaseModel):
    kind: Literal["organization", "user", "container", "machine", "request"]
    id: str
    name: str
    """A person's is their address, a request's its id."""
    organization_id: str | None
    """Whose it is; null for a person without an organization and for the operator's own machines."""
    organization_name: str | None


class SearchResult(BaseModel):
    items: list[Found]
    """At most eight of each kind."""


@router.get("/operator/search", summary="Search the installation")
async def search_installation(
    _: TheOperator,
    session: TheSession,
    text: Annotated[
        str, Query(alias="q", min_length=2, max_length=100, description="Part of a name, or a whole id.")
    ],
) -> SearchResult:
    """Finds organizations, people, containers and machines by a part of their name or by their id, and a request by
    its id. Returns only what each is and whose."""
    wanted = text.strip().replace("\x00", "")
    found = [
        Found(kind="organization", id=id_, name=name, organization_id=id_, organization_name=name)
        for id_, name in await search_organizations(session, wanted, MOST_OF_A_KIND)
    ]
    found += [
        Found(kind="user", id=id_, name=email, organization_id=owner, organization_name=owner_name)
        for id_, email, owner, owner_name in await search_users(session, wanted, MOST_OF_A_KIND)
    ]
    found += [
        Found(kind="container", id=id_, name=name, organization_id=owner, organization_name=owner_name)
        for id_, name, owner, owner_name in await search_containers(session, wanted, MOST_OF_A_KIND)
    ]
    found += [
        Found(kind="machine", id=id_, name=name, organization_id=owner, organization_name=owner_name)
        for id_, name, owner, owner_name in await search_machines(session, wanted, MOST_OF_A_KIND)
    ]
    named = {one.name for one in found if one.kind == "machine"}
    found += [
        Found(kind="machine", id=node.name, name=node.name, organization_id=None, organization_name=None)
        for node in await list_nodes(session)
        # Those that joined are found above, as theirs whose they are.
        if node.engine == LOCAL_ENGINE and wanted.lower() in node.name.lower() and node.name not in named
    ][:MOST_OF_A_KIND]
    record = await find_record(session, wanted) if wanted.startswith(_REQUEST) else None
    if record is not None:
        owner = await organization_of_project(session, record[0].project_id)
        if owner is not None:
            found.append(
                Found(
                    kind="request",
                    id=wanted,
                    name=wanted,
                    organization_id=owner[0],
                    organization_name=owner[1],
                )
            )
    return SearchResult(items=found)
