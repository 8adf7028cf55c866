"""How many of each thing one may have: the next is refused, with a sentence and a code, also when many come at once."""

import asyncio
from typing import Any

import pytest
from api_support import KEYRING, Api, Home, assert_problem, bearer, container_body, new_home
from api_support import api_fixture as api_fixture

from moorage.entrypoints.api import create_app
from moorage.kit.streams import OpenStreams, StreamKind
from tests.servers import serving

MOST = 3


async def limited(api: Api, **most: int) -> Api:
    """The same installation with other settings."""
    settings = api.settings.model_copy(update=most)
    return Api(create_app(settings, api.database, KEYRING), api.database, settings)


def the_rest(home: Home, name: str) -> tuple[str, dict[str, Any]]:
    """Where one more is made, and of what."""
    return {
        "organizations_per_person": ("/organizations", {"name": "more"}),
        "projects_per_organization": (f"/organizations/{home.organization_id}/projects", {"name": "more"}),
        "api_keys_per_project": (f"/projects/{home.project_id}/api-keys", {"name": "more"}),
        "containers_per_project": (f"/projects/{home.project_id}/containers", container_body("more")),
        "webhooks_per_organization": (
            f"/organizations/{home.organization_id}/webhooks",
            {"url": "https://93.184.215.14/more", "events": ["*"]},
        ),
    }[name]


@pytest.mark.parametrize(
    ("setting", "code", "there_already"),
    [
        ("organizations_per_person", "too_many_organizations", 1),
        ("projects_per_organization", "too_many_projects", 1),
        ("api_keys_per_project", "too_many_api_keys", 0),
        ("containers_per_project", "too_many_containers", 0),
        ("webhooks_per_organization", "too_many_webhooks", 0),
    ],
)
async def test_the_next_one_is_refused_also_in_a_crowd(
    api: Api, setting: str, code: str, there_already: int
) -> None:
    home = await new_home(api)
    few = await limited(api, **{setting: MOST})
    path, body = the_rest(home, setting)

    async def one_more(number: int) -> int:
        sent = {key: f"{value}-{number}" if key in ("name", "url") else value for key, value in body.items()}
        answer = await few.post(home.admin, path, sent)
        if answer.status_code == 409:
            assert str(MOST) in assert_problem(answer, 409, code)["detail"]
        return answer.status_code

    statuses = await asyncio.gather(*(one_more(number) for number in range(8)))
    assert sorted(statuses) == [201] * (MOST - there_already) + [409] * (8 - MOST + there_already)


async def test_what_is_gone_leaves_room(api: Api) -> None:
    home = await new_home(api)
    few = await limited(api, api_keys_per_project=1)
    path = f"/projects/{home.project_id}/api-keys"
    key = (await few.post(home.admin, path, {"name": "one"})).json()
    assert_problem(await few.post(home.admin, path, {"name": "two"}), 409, "too_many_api_keys")
    assert_problem(await few.post(home.admin, f"/api-keys/{key['id']}/rotate"), 409, "too_many_api_keys")
    await few.ask(home.admin, "DELETE", f"/api/v1/api-keys/{key['id']}")
    assert (await few.post(home.admin, path, {"name": "two"})).status_code == 201


async def test_invitations_of_a_person_through_many_organizations(api: Api) -> None:
    home = await new_home(api)
    second = await api.new_organization("second", {home.user_id: "admin"})
    few = await limited(api, invitations_per_day=2)
    statuses = []
    for number, organization_id in enumerate([home.organization_id, second, second, home.organization_id]):
        answer = await few.post(
            home.admin, f"/organizations/{organization_id}/invitations", {"email": f"p{number}@example.com"}
        )
        statuses.append(answer.status_code)
    assert statuses == [201, 201, 429, 429]
    assert_problem(answer, 429, "too_many_invitations")


async def test_streams_of_logs(api: Api) -> None:
    """399 of one person took the API most of a processor."""
    home = await new_home(api)
    _, key = await api.new_key(home.project_id, "manage")
    few = await limited(api, streams_per_person=MOST)
    streams: OpenStreams = few.app.state.streams
    path = f"/api/v1/projects/{home.project_id}/logs/stream"
    async with serving(few.app) as url, asyncio.timeout(60):
        host, port = url.removeprefix("http://").split(":")

        async def opened(token: str) -> tuple[bytes, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection(host, int(port))
            head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
            writer.write(head.encode())
            return await reader.readline(), writer

        answers = await asyncio.gather(*(opened(home.token) for _ in range(20)))
        statuses = sorted(line.split()[1] for line, _ in answers)
        assert statuses == [b"200"] * MOST + [b"429"] * (20 - MOST)
        # A key that nobody made shares by its project.
        other, writer = await opened(key)
        assert other.split()[1] == b"200"
        for one in (writer, *(writer for _, writer in answers)):
            one.close()
        while streams.count_of(StreamKind.LOGS, home.user_id):  # noqa: ASYNC110 - a counter tells nobody
            await asyncio.sleep(0.02)
        assert (await opened(home.token))[0].split()[1] == b"200"


async def test_streams_of_all_keys_of_a_person_count_for_them(api: Api) -> None:
    home = await new_home(api)
    few = await limited(api, streams_per_person=MOST)
    other = await few.post(home.admin, f"/organizations/{home.organization_id}/projects", {"name": "other"})
    streams: OpenStreams = few.app.state.streams
    held = [streams.take(kind, home.user_id, MOST) for kind in StreamKind for _ in range(MOST)]
    for project_id in (home.project_id, other.json()["id"]):
        wanted = {"name": "key", "scope": "manage"}
        made = await few.post(home.admin, f"/projects/{project_id}/api-keys", wanted)
        asker = bearer("key", made.json()["key"])
        for path in ("logs/stream", "logs/download", "events"):
            async with asyncio.timeout(20):  # a stream that is opened would not end
                answer = await few.get(asker, f"/projects/{project_id}/{path}")
            assert_problem(answer, 429, "too_many_streams")
    for one in held:
        one.close()


async def test_downloads_and_exports(api: Api) -> None:
    home = await new_home(api)
    streams: OpenStreams = api.app.state.streams
    paths = (
        f"/projects/{home.project_id}/logs/download",
        f"/organizations/{home.organization_id}/audit/export",
        f"/organizations/{home.organization_id}/billing/entries/export",
        f"/organizations/{home.organization_id}/billing/usage/export",
    )
    for path in paths:
        assert (await api.get(home.admin, path)).status_code == 200
    assert streams.count_of(StreamKind.DOWNLOADS, home.user_id) == 0
    held = [
        streams.take(StreamKind.DOWNLOADS, home.user_id, 9) for _ in range(api.settings.downloads_per_person)
    ]
    for path in paths:
        assert_problem(await api.get(home.admin, path), 429, "too_many_streams")
    held[0].close()
    assert (await api.get(home.admin, paths[0])).status_code == 200
