"""What the operator finds about one organization, by searching, and in the set-up checklist."""

from datetime import UTC, datetime, timedelta

from api_support import Api, assert_problem, bearer, new_home
from api_support import api_fixture as api_fixture


async def test_an_organization_in_numbers(api: Api) -> None:
    home = await new_home(api)
    path = f"/operator/organizations/{home.organization_id}"
    running = await api.new_container(home.project_id, "chat")
    await api.execute(
        "UPDATE containers SET state = 'RUNNING', desired_state = 'running' WHERE id = :id", id=running
    )
    await api.new_replica(running)
    gone = await api.new_container(home.project_id, "gone")
    await api.execute("UPDATE containers SET deleted_at = now() WHERE id = :id", id=gone)
    now = datetime.now(UTC)
    await api.book(home.organization_id, "bank_transfer", 25_000_000, now, reference="BT-1")
    for days_ago, price in ((0, 1_000_000), (0, 500_000), (29, 250_000), (30, 9_000_000)):
        await api.execute(
            "INSERT INTO hours (id, organization_id, project_id, container_id, instance_type, slot, state,"
            " price_microusd, bought_at, expires_at) VALUES (:id, :organization_id, :project_id, :container_id,"
            " 'cpu-nano', 0, 'paid', :price, :at, :until)",
            id=f"hour_{days_ago}_{price}",
            organization_id=home.organization_id,
            project_id=home.project_id,
            container_id=running,
            price=price,
            at=now - timedelta(days=days_ago),
            until=now - timedelta(days=days_ago) + timedelta(hours=1),
        )
    found = (await api.get(api.operator, path)).json()
    assert (found["name"], found["suspended_at"]) == ("acme", None)
    assert found["paid_in_microusd"] == 25_000_000
    own = (await api.get(home.admin, f"/organizations/{home.organization_id}/billing")).json()
    for figure in ("balance_microusd", "held_microusd", "burn_per_hour_microusd", "runs_out_at"):
        assert found[figure] == own[figure], figure
    assert found["balance_microusd"] > 0
    assert found["burn_per_hour_microusd"] > 0
    assert [one["amount_microusd"] for one in found["spend"]] == [250_000, 1_500_000]
    days = {0: 1_500_000, 29: 250_000, 30: 9_000_000}
    this_month = [amount for ago, amount in days.items() if (now - timedelta(days=ago)).month == now.month]
    assert found["spent_this_month_microusd"] == sum(this_month)

    [container] = (await api.get(api.operator, f"{path}/containers")).json()["items"]
    assert (container["name"], container["state"], container["replicas"]["ready"]) == ("chat", "RUNNING", 1)
    assert container["price_per_hour_microusd"] > 0
    # What is there, not what is in it.
    assert {"env", "image", "message", "start_command"}.isdisjoint(container)
    [person] = (await api.get(api.operator, f"{path}/members")).json()["items"]
    assert (person["email"], person["role"]) == ("ada@example.com", "admin")
    await api.post(api.operator, f"{path}/suspend", {"reason": "abuse"})
    [record] = (await api.get(api.operator, f"{path}/audit")).json()["items"]
    assert record["action"] == "organization.suspend"
    for part in ("", "/containers", "/members", "/audit"):
        assert_problem(await api.get(api.operator, f"/operator/organizations/org_nothing{part}"), 404)


async def test_lists_of_an_organization_have_pages(api: Api) -> None:
    home = await new_home(api)
    for name in ("one", "two", "three"):
        await api.new_container(home.project_id, name)
        user_id, _ = await api.new_person(f"{name}@example.com")
        await api.join(home.organization_id, user_id)
    for part, count in (("containers", 3), ("members", 4)):
        path, seen, cursor = f"/operator/organizations/{home.organization_id}/{part}", [], ""
        while True:
            page = (await api.get(api.operator, f"{path}?limit=2{cursor}")).json()
            seen += [item.get("name") or item["email"] for item in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert len(seen) == len(set(seen)) == count


async def test_search_finds_each_kind_and_whose_it_is(api: Api) -> None:
    home = await new_home(api)
    await api.execute(
        "UPDATE organizations SET name = '100%_harbour' WHERE id = :id", id=home.organization_id
    )
    container_id = await api.new_container(home.project_id, "harbour-chat")
    key_id, _ = await api.new_key(home.project_id, "inference", name="k")
    request_id = await api.new_request(home.project_id, key_id)
    machine_id = await api.new_machine(
        name="harbour-gpu", infrastructure="community", owner_organization_id=home.organization_id
    )
    await api.new_person("harbour@example.com")

    async def found(text: str) -> list[tuple[str, str, str | None]]:
        answer = await api.ask(api.operator, "GET", "/api/v1/operator/search", params={"q": text})
        assert answer.status_code == 200, answer.text
        return [(one["kind"], one["name"], one["organization_name"]) for one in answer.json()["items"]]

    owner = "100%_harbour"
    assert await found("HARBOUR") == [
        ("organization", owner, owner),
        ("user", "harbour@example.com", None),
        ("container", "harbour-chat", owner),
        ("machine", "harbour-gpu", owner),
    ]
    # What means something in a pattern is looked for as it is.
    assert await found("100%_h") == [("organization", owner, owner)]
    assert await found("%_%_") == []
    assert await found("ada@") == [("user", "ada@example.com", owner)]
    for whole in (container_id, machine_id, home.organization_id):
        assert len(await found(whole)) == 1
    assert await found(request_id) == [("request", request_id, owner)]
    assert await found("req_nothing") == []
    for short in ("", "a"):
        answer = await api.ask(api.operator, "GET", "/api/v1/operator/search", params={"q": short})
        assert_problem(answer, 422)


async def test_the_checklist_says_what_is_missing_first(api: Api) -> None:
    steps = (await api.get(api.operator, "/operator/setup")).json()["steps"]
    states = [one["state"] for one in steps]
    assert states == sorted(states, key=["missing", "unknown", "done"].index)
    by_name = {one["name"]: one for one in steps}
    assert set(by_name) == {"backup", "isolation", "mail", "sign-in", "payments", "TLS", "GPUs", "machines"}
    assert by_name["backup"]["command"] == "moor backup FILE"
    assert by_name["mail"]["settings"] == ["MOORAGE_SMTP_HOST", "MOORAGE_MAIL_FROM"]
    assert all(one["consequence"] for one in steps if one["state"] == "missing")
    await api.execute("UPDATE installation SET backed_up_at = now()")
    steps = (await api.get(api.operator, "/operator/setup")).json()["steps"]
    assert ("backup", "done") in [(one["name"], one["state"]) for one in steps]


async def test_a_person_is_signed_out_everywhere(api: Api) -> None:
    home = await new_home(api)
    bea, token = await api.new_person("bea@example.com")
    key_id, _ = await api.new_key(home.project_id, "inference", name="stays")
    path = f"/operator/users/{bea}/sign-out"
    assert (await api.get(bearer("bea", token), "/me")).json()["user"]["email"] == "bea@example.com"
    assert (await api.post(api.operator, path)).status_code == 204
    assert_problem(await api.get(bearer("bea", token), "/me/sessions"), 401)
    # Nobody else is.
    assert (await api.get(home.admin, "/me/sessions")).status_code == 200
    [key] = (await api.get(home.admin, f"/projects/{home.project_id}/api-keys")).json()["items"]
    assert (key["id"], key["status"]) == (key_id, "active")
    [record] = (await api.get(api.operator, "/operator/audit")).json()["items"]
    assert (record["action"], record["target"]) == ("user.sign_out", bea)
    assert_problem(await api.post(api.operator, "/operator/users/usr_nobody/sign-out"), 404)
