"""Canaries through the API: how they begin, what they say, and how somebody decides."""

from typing import Any

from api_support import Api, Home, assert_problem, new_home
from api_support import api_fixture as api_fixture
from test_api_drafts import deployed, save
from test_api_versions import apply, versions

_SERVES = (
    'UPDATE containers SET trial_image = \'{"ref": "sha256:1"}\', '
    'rollout = rollout || \'{"serving_since": "2026-01-01T00:00:00+00:00"}\''
)


async def begun(api: Api, home: Home, **options: Any) -> tuple[str, dict[str, Any]]:
    container_id = await deployed(api, home)
    await save(api, home, container_id, {"image": "acme/chat:2"})
    answer = await apply(api, home, container_id, {"strategy": "canary", "share": 10, **options})
    assert answer.status_code == 202, answer.text
    return container_id, answer.json()["rollout"]


async def test_what_a_canary_needs(api: Api) -> None:
    home = await new_home(api)
    container_id = await deployed(api, home)
    await save(api, home, container_id, {"image": "acme/chat:2"})
    for body in (
        {"strategy": "canary"},
        {"strategy": "canary", "share": 0},
        {"strategy": "canary", "share": 51},
        {"strategy": "canary", "share": 10, "promote_after_s": 59},
        {"strategy": "rolling", "share": 10},
        {"share": 10},
    ):
        assert_problem(await apply(api, home, container_id, body), 422, "invalid_input")
    path = f"/containers/{container_id}/canary"
    for how, body in (("", {"share": 5}), ("/promote", None), ("/abort", None)):
        assert_problem(await api.post(home.admin, f"{path}{how}", body), 409, "no_canary")
    assert_problem(await api.post(home.admin, path, {"share": 51}), 422, "invalid_input")


async def test_both_side_by_side_and_another_share(api: Api) -> None:
    home = await new_home(api)
    container_id, rollout = await begun(api, home, promote_after_s=1800)
    assert (rollout["strategy"], rollout["share"], rollout["promote_after_s"]) == ("canary", 10, 1800)
    assert (rollout["beside"], rollout["serving_since"], rollout["error_bound_percent"]) == (False, None, 1.0)
    path = f"/containers/{container_id}/canary"
    assert_problem(await api.post(home.admin, f"{path}/promote", None), 409, "canary_not_serving")
    await api.execute(_SERVES)
    for version, answers, errors, bucket in ((1, 900, 1, 20), (2, 100, 2, 10)):
        values = {"id": container_id, "version": version}
        await api.execute(
            "INSERT INTO version_figures VALUES (:id, :version, 'gtw_1', :answers, :errors)",
            **values,
            answers=answers,
            errors=errors,
        )
        await api.execute(
            "INSERT INTO version_response_times VALUES (:id, :version, 'gtw_1', :bucket, 10)",
            **values,
            bucket=bucket,
        )
    new, old = (await versions(api, home, container_id))["items"][:2]
    assert (new["answers"], new["errors"], new["response_p95_ms"], new["replicas_ready"]) == (100, 2, 10, 0)
    assert (old["answers"], old["errors"], old["response_p50_ms"], old["replicas_ready"]) == (900, 1, 20, 0)
    changed = await api.post(home.admin, path, {"share": 25})
    assert changed.status_code == 202, changed.text
    rollout = changed.json()["rollout"]
    assert (rollout["share"], rollout["promote_after_s"], rollout["beside"]) == (25, 1800, True)
    changed = await api.post(home.admin, path, {"share": 25, "promote_after_s": None})
    assert changed.json()["rollout"]["promote_after_s"] is None
    for other in ("restart", "draft/apply"):
        answer = await api.post(home.admin, f"/containers/{container_id}/{other}", None)
        assert_problem(answer, 409, "canary_under_way")
    kinds = [
        row[0] for row in await api.rows("SELECT kind FROM activities WHERE kind LIKE 'container.canary%'")
    ]
    assert kinds == ["container.canary"] * 2


async def test_decided_by_somebody_once(api: Api) -> None:
    home = await new_home(api)
    container_id, _ = await begun(api, home)
    await api.execute(_SERVES)
    path = f"/containers/{container_id}/canary"
    for _ in range(2):
        assert (await api.post(home.admin, f"{path}/promote", None)).status_code in (200, 202)
    for _ in range(2):
        assert (await api.post(home.admin, f"{path}/abort", None)).status_code in (200, 202)
    rows = await api.rows(
        "SELECT kind, actor, details->>'version' FROM activities WHERE kind LIKE 'container.canary%' ORDER BY kind"
    )
    assert [tuple(row) for row in rows] == [
        ("container.canary_abort", home.user_id, "2"),
        ("container.canary_promote", home.user_id, "2"),
    ]


async def test_aborted_before_its_image_is_known(api: Api) -> None:
    home = await new_home(api)
    container_id, _ = await begun(api, home)
    aborted = await api.post(home.admin, f"/containers/{container_id}/canary/abort", None)
    assert (aborted.status_code, aborted.json()["rollout"]) == (202, None)
    newest = (await versions(api, home, container_id))["items"][0]
    assert (newest["strategy"], newest["outcome"], newest["reason"]) == (
        "canary",
        "rolled_back",
        "It was aborted.",
    )
