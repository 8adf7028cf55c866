"""Caches as people see them, and what of others' they do not."""

import pytest
from api_support import Api, Asker, bearer
from api_support import api_fixture as api_fixture
from reconciler_support import SETTINGS

from moorage.containers.schemas import ContainerCreate
from moorage.containers.validation import validated
from moorage.kit.errors import InvalidInputError
from moorage.kit.ids import new_cache_id


async def test_a_cache_is_shown_and_deleted(api: Api) -> None:
    owner, organization_id, project_id = await _organization(api, "acme")
    container_id = await api.new_container(project_id, "chat")
    cache_id = await api.new_cache(container_id)
    path = f"/organizations/{organization_id}/caches"
    (shown,) = (await api.ask(owner, "GET", f"/api/v1{path}")).json()["items"]
    assert (shown["id"], shown["container_name"], shown["node"]) == (cache_id, "chat", "machine-1")
    assert (shown["size_bytes"], shown["in_use"], shown["deleting"]) == (15, False, False)

    replica_id = await api.new_replica(container_id)
    refused = await api.ask(owner, "DELETE", f"/api/v1{path}/{cache_id}")
    assert (refused.status_code, refused.json()["code"]) == (409, "cache_in_use")
    await api.execute("UPDATE replicas SET state = 'removed' WHERE id = :id", id=replica_id)
    for _ in range(2):
        answer = await api.ask(owner, "DELETE", f"/api/v1{path}/{cache_id}")
        assert (answer.status_code, answer.json()["deleting"]) == (202, True)
    kinds = await api.rows("SELECT kind FROM activities WHERE kind LIKE 'cache.%'")
    assert kinds == [("cache.delete",)]


async def test_another_organization_reaches_none(api: Api) -> None:
    _, organization_id, project_id = await _organization(api, "acme")
    stranger, own_id, own_project = await _organization(api, "other")
    ids = [await api.new_cache(await api.new_container(project_id, f"chat-{number}")) for number in range(5)]
    own = await api.new_cache(await api.new_container(own_project, "own"))
    listed = (await api.ask(stranger, "GET", f"/api/v1/organizations/{own_id}/caches")).json()["items"]
    assert [one["id"] for one in listed] == [own]
    tries = [
        f"/api/v1/organizations/{organization}/caches/{one}"
        for one in ids
        for organization in (organization_id, own_id)
    ]
    assert len(tries) >= 10
    absent = await api.ask(stranger, "DELETE", f"/api/v1/organizations/{own_id}/caches/{new_cache_id()}")
    for path in tries:
        answer = await api.ask(stranger, "DELETE", path)
        assert answer.status_code == 404, path
    assert absent.status_code == 404
    assert (
        await api.ask(stranger, "GET", f"/api/v1/organizations/{organization_id}/caches")
    ).status_code == 404
    assert await api.rows("SELECT count(*) FROM container_caches WHERE deleting_at IS NOT NULL") == [(0,)]


async def test_a_user_sees_those_of_projects_that_they_joined(api: Api) -> None:
    _, organization_id, project_id = await _organization(api, "acme")
    user_id, token = await api.new_person("user@example.com")
    await api.join(organization_id, user_id)
    side = await api.new_project(organization_id, "side", user_id)
    hidden = await api.new_cache(await api.new_container(project_id, "chat"))
    seen = await api.new_cache(await api.new_container(side, "mine"))
    user = bearer("user", token)
    path = f"/api/v1/organizations/{organization_id}/caches"
    assert [one["id"] for one in (await api.ask(user, "GET", path)).json()["items"]] == [seen]
    assert (await api.ask(user, "DELETE", f"{path}/{hidden}")).status_code == 404


@pytest.mark.parametrize(
    ("size_gib", "changes", "sentence"),
    [
        (2000, {}, "cache must have a size_gib of at most 1024."),
        (20, {"kubernetes": "in-cluster"}, "in a Kubernetes cluster, which keeps no caches"),
    ],
)
async def test_a_cache_that_cannot_be_is_refused(
    api: Api, size_gib: int, changes: dict[str, str], sentence: str
) -> None:
    wanted = ContainerCreate.model_validate(
        {
            "name": "chat",
            "image": "local/chat",
            "registry": {"provider": "local"},
            "resources": {"mode": "general", "instance_type": "cpu-nano"},
            "cache": {"size_gib": size_gib},
        }
    )
    async with api.database.reading() as session:
        with pytest.raises(InvalidInputError, match=sentence):
            await validated(session, wanted, SETTINGS.model_copy(update=changes))


async def _organization(api: Api, name: str) -> tuple[Asker, str, str]:
    user_id, token = await api.new_person(f"{name}@example.com")
    organization_id = await api.new_organization(name, {user_id: "admin"})
    return bearer(name, token), organization_id, await api.new_project(organization_id, name)
