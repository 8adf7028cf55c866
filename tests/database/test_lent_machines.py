"""Machines that organizations lend: who may, who sees what, whose word counts, and what becomes of them."""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network
from typing import Any

import pytest
from api_support import ANONYMOUS, KEYRING, Api, Home, assert_problem, bearer, join_body, new_home
from api_support import api_fixture as api_fixture

from moorage.entrypoints.api import create_app
from moorage.entrypoints.migrate import migrate
from moorage.kit.clock import processor_time_s, system_clock
from moorage.machines.reconciler import MachinesReconciler
from moorage.machines.repository import (
    MOST_STATE_CHANGES,
    free_addresses,
    given_addresses,
    list_engine_machines,
    machine_ends,
    purge_state_changes,
)
from moorage.machines.service import TOLD_PER_HOUR, say
from moorage.machines.states import Happening, Speaker
from moorage.reconcile.lease import LeaseKeeper
from moorage.tunnel.addresses import machine_address

EMAIL = "ada@example.com"
Machines = Callable[[], Awaitable[tuple[Any, ...]]]
"""The time of pauses is over, and Moorage looks: the state of the one machine, and until when it is paused."""


@pytest.fixture(name="cloud")
async def cloud_fixture(api: Api) -> Api:
    """An installation that is open to machines of organizations."""
    changes = {"public_url": "https://cloud.moorage.example", "community_machines": True}
    settings = api.settings.model_copy(update=changes)
    await api.new_hub()
    return Api(create_app(settings, api.database, KEYRING), api.database, settings)


async def lent(cloud: Api, home: Home, state: str = "probation", **changes: Any) -> str:
    return await cloud.new_machine(
        state,
        **{
            "infrastructure": "community",
            "owner_organization_id": home.organization_id,
            "standing": "probation",
            **changes,
        },
    )


async def moorage_says(cloud: Api, machine_id: str, happening: Happening, because: str | None = None) -> None:
    async with cloud.database.transaction() as session:
        await say(
            session,
            KEYRING,
            cloud.settings,
            machine_id,
            happening,
            speaker=Speaker.MOORAGE,
            actor_id="system",
            because=because,
        )


def in_an_hour() -> dict[str, str]:
    return {"until": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}


async def subjects(cloud: Api, to: str) -> list[str]:
    return [mail["subject"] for mail in await cloud.mails() if mail["to"] == to]


async def test_closed_unless_the_operator_opens_it(api: Api) -> None:
    settings = api.settings.model_copy(update={"public_url": "https://cloud.moorage.example"})
    closed = Api(create_app(settings, api.database, KEYRING), api.database, settings)
    home = await new_home(closed)
    answer = await closed.post(home.admin, f"/organizations/{home.organization_id}/machines", {})
    assert_problem(answer, 409, "community_machines_closed")
    assert await closed.rows("SELECT 1 FROM machines") == []


async def test_an_organization_lends_a_machine(cloud: Api) -> None:
    home = await new_home(cloud)
    path = f"/organizations/{home.organization_id}/machines"
    added = (await cloud.post(home.admin, path, {"infrastructure": "community"})).json()
    body = join_body(added["token"])
    bare = await cloud.post(ANONYMOUS, "/machines/join", body)
    assert_problem(bare, 422, "sandbox_needed")
    body["facts"]["runtime"] = "runsc"
    joined = await cloud.post(ANONYMOUS, "/machines/join", body)
    assert joined.status_code == 200, joined.text
    assert (joined.json()["infrastructure"], joined.json()["allow_runc"]) == ("community", False)
    await moorage_says(cloud, added["id"], Happening.ANSWERED)
    shown = (await cloud.get(home.admin, f"/machines/{added['id']}")).json()
    assert (shown["state"], shown["infrastructure"]) == ("verifying", "community")
    assert (shown["owner_organization_id"], shown["tier"]) == (home.organization_id, "probation")
    assert shown["runtime"] == "runsc"
    await moorage_says(cloud, added["id"], Happening.VERIFIED)
    listed = (await cloud.get(home.admin, path)).json()["items"]
    assert [(one["id"], one["state"]) for one in listed] == [(added["id"], "probation")]
    all_of_them = (await cloud.get(cloud.operator, "/operator/machines")).json()["items"]
    assert [one["id"] for one in all_of_them] == [added["id"]]
    records = (await cloud.get(home.admin, f"/organizations/{home.organization_id}/audit")).json()["items"]
    assert {"machine.add", "machine.join", "machine.answered", "machine.verified"} <= {
        one["action"] for one in records
    }
    assert await subjects(cloud, EMAIL) == [
        "The machine rack-7 is on probation",
        "The machine rack-7 has joined",
    ]
    assert await subjects(cloud, cloud.settings.operator_email) == [], "it is not theirs"


async def test_its_command_runs_a_script_that_says_what_lending_means(cloud: Api) -> None:
    home = await new_home(cloud)
    path = f"/organizations/{home.organization_id}/machines"
    added = (await cloud.post(home.admin, path, {})).json()
    again = (await cloud.post(home.admin, f"/machines/{added['id']}/command")).json()
    script = await cloud.get(ANONYMOUS, "/machines/join-community.sh")
    for command in (added["command"], again["command"]):
        assert "/machines/join-community.sh" in command
        assert hashlib.sha256(script.content).hexdigest() in command


async def test_a_webhook_hears_of_it(cloud: Api) -> None:
    home = await new_home(cloud)
    await cloud.new_webhook(home.organization_id, "https://hook.example/")
    machine_id = await lent(cloud, home)
    await cloud.post(home.admin, f"/machines/{machine_id}/pause")
    events = await cloud.rows("SELECT event, payload FROM webhook_deliveries")
    assert [event for event, _ in events] == ["machine.pause"]


async def test_nobody_else_sees_it(cloud: Api) -> None:
    home, other = await new_home(cloud), await new_home(cloud, "bob@example.com")
    machine_id = await lent(cloud, home)
    for verb in ("pause", "resume", "drain", "reclaim", "command"):
        assert_problem(await cloud.post(other.admin, f"/machines/{machine_id}/{verb}"), 404)
    assert_problem(await cloud.get(other.admin, f"/machines/{machine_id}"), 404)
    assert_problem(await cloud.get(home.admin, "/operator/machines"), 403)
    operators = await cloud.new_machine()
    assert_problem(await cloud.get(home.admin, f"/machines/{operators}"), 404)
    listed = (await cloud.get(other.admin, f"/organizations/{other.organization_id}/machines")).json()
    assert listed["items"] == []


async def test_a_name_tells_nobody_that_another_has_it(cloud: Api) -> None:
    home = await new_home(cloud)
    await cloud.new_machine(name="garage")
    path = f"/organizations/{home.organization_id}/machines"
    assert (await cloud.post(home.admin, path, {"name": "garage"})).status_code == 201
    (named,) = (await cloud.get(home.admin, path)).json()["items"]
    assert named["name"].startswith("garage-")


async def test_so_many_and_no_more(cloud: Api) -> None:
    home = await new_home(cloud)
    settings = cloud.settings.model_copy(update={"machines_per_organization": 1})
    small = Api(create_app(settings, cloud.database, KEYRING), cloud.database, settings)
    path = f"/organizations/{home.organization_id}/machines"
    assert (await small.post(home.admin, path, {})).status_code == 201
    assert_problem(await small.post(home.admin, path, {}), 409, "too_many_machines")


async def joined(cloud: Api, path: str, home: Home) -> tuple[str, Any]:
    """A machine's id, and what its join was answered."""
    added = (await cloud.post(home.admin, path, {})).json()
    body = join_body(added["token"])
    body["facts"]["runtime"] = "runsc"
    return added["id"], await cloud.post(ANONYMOUS, "/machines/join", body)


async def test_who_lends_and_removes_again_and_again_keeps_few_addresses(cloud: Api) -> None:
    home = await new_home(cloud)
    settings = cloud.settings.model_copy(update={"machines_per_organization": 2})
    small = Api(create_app(settings, cloud.database, KEYRING), cloud.database, settings)
    path = f"/organizations/{home.organization_id}/machines"
    for _ in range(2):
        machine_id, _ = await joined(small, path, home)
        await small.ask(home.admin, "DELETE", f"/api/v1/machines/{machine_id}")
    assert_problem(await small.post(home.admin, path, {}), 409, "too_many_machines_removed")
    await cloud.execute("UPDATE machines SET state_since = now() - interval '8 days'")
    async with cloud.database.transaction() as session:
        await free_addresses(session)
    assert await cloud.rows("SELECT count(address) FROM machines") == [(0,)]
    _, answer = await joined(small, path, home)
    assert answer.json()["address"] == "198.19.1.0"


async def test_what_rests_is_given_to_nobody(cloud: Api) -> None:
    home = await new_home(cloud)
    path = f"/organizations/{home.organization_id}/machines"
    gone, first = await joined(cloud, path, home)
    await cloud.ask(home.admin, "DELETE", f"/api/v1/machines/{gone}")
    async with cloud.database.transaction() as session:
        await free_addresses(session)
    _, second = await joined(cloud, path, home)
    assert [one.json()["address"] for one in (first, second)] == ["198.19.1.0", "198.19.1.1"]


async def test_a_machine_joins_a_full_network_without_keeping_others_waiting(cloud: Api) -> None:
    home = await new_home(cloud)
    await cloud.execute(
        "INSERT INTO machines (id, infrastructure, state, address, created_by) SELECT 'mch_' || n, 'operator', 'removed', "
        "host('198.19.0.0'::inet + n), 'usr_somebody' FROM generate_series(256, 65533) n"
    )
    async with cloud.database.transaction() as session:
        await given_addresses(session)  # what is made ready once
        began_s = processor_time_s()
        taken = await given_addresses(session)
        address = machine_address(IPv4Network(cloud.settings.tunnel_network), taken)
        spent_s = processor_time_s() - began_s
    assert str(address) == "198.19.255.254"
    assert spent_s < 0.05
    _, last = await joined(cloud, f"/organizations/{home.organization_id}/machines", home)
    assert last.json()["address"] == "198.19.255.254"
    _, answer = await joined(cloud, f"/organizations/{home.organization_id}/machines", home)
    assert_problem(answer, 409, "tunnel_full")


@pytest.mark.parametrize(
    "ends",
    [
        "DELETE FROM organization_members WHERE user_id = :id",
        "UPDATE organization_members SET role = 'user' WHERE user_id = :id",
    ],
)
async def test_a_command_ends_with_the_right_of_whoever_printed_it(cloud: Api, ends: str) -> None:
    home = await new_home(cloud)
    bob, token = await cloud.new_person("bob@example.com")
    await cloud.join(home.organization_id, bob, "admin")
    path = f"/organizations/{home.organization_id}/machines"
    asker = bearer("bob", token)
    bobs = [(await cloud.post(asker, path, {})).json() for _ in range(3)]
    hers = (await cloud.post(home.admin, f"/machines/{bobs[1]['id']}/command")).json()
    operators = (await cloud.post(cloud.operator, f"/machines/{bobs[2]['id']}/command")).json()
    await cloud.execute(ends, id=bob)
    for added, status in ((bobs[0], 401), (hers, 200), (operators, 200)):
        body = join_body(added["token"])
        body["facts"]["runtime"] = "runsc"
        assert (await cloud.post(ANONYMOUS, "/machines/join", body)).status_code == status


async def test_who_pauses_and_resumes_all_day_fills_no_mailbox(cloud: Api) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)
    for _ in range(TOLD_PER_HOUR):
        for verb in ("pause", "resume"):
            assert (await cloud.post(home.admin, f"/machines/{machine_id}/{verb}")).status_code == 200
    assert len(await subjects(cloud, EMAIL)) == TOLD_PER_HOUR
    await cloud.post(cloud.operator, f"/machines/{machine_id}/drain")
    await cloud.ask(home.admin, "DELETE", f"/api/v1/machines/{machine_id}")
    assert len(await subjects(cloud, EMAIL)) == TOLD_PER_HOUR + 2, "that is news"


async def test_whose_word_counts(cloud: Api) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)

    async def said(asker: Any, verb: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
        answer = await cloud.post(asker, f"/machines/{machine_id}/{verb}", body)
        return answer.status_code, answer.json().get("state") or answer.json()["code"]

    assert await said(home.admin, "pause") == (200, "paused")
    assert await said(home.admin, "resume") == (200, "probation")
    assert await said(cloud.operator, "pause") == (200, "paused")
    assert await said(home.admin, "resume") == (409, "machine_held")
    assert await said(home.admin, "drain") == (200, "draining")
    assert await said(home.admin, "resume") == (409, "machine_held")
    assert await said(cloud.operator, "resume") == (200, "probation")
    records = (await cloud.get(home.admin, f"/organizations/{home.organization_id}/audit")).json()["items"]
    by = [(one["action"], one["actor"]) for one in records if one["action"].startswith("machine.")]
    assert ("machine.pause", "operator") in by
    assert ("machine.pause", home.user_id) in by
    assert "operator@" not in str(records), "who the operator is, is not the owner's business"


async def test_a_pause_that_ends_by_itself(cloud: Api) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home, address="127.0.9.9")
    until = datetime.now(UTC) + timedelta(hours=1)
    answer = await cloud.post(home.admin, f"/machines/{machine_id}/pause", {"until": until.isoformat()})
    assert datetime.fromisoformat(answer.json()["paused_until"]) == until
    lease = await LeaseKeeper(cloud.database, "machines", "test", system_clock).acquire()
    assert lease is not None
    reconciler = MachinesReconciler(cloud.database, KEYRING, cloud.settings, system_clock)
    await reconciler.resume_overdue(lease)
    assert await cloud.rows("SELECT state FROM machines") == [("paused",)]
    await cloud.execute("UPDATE machines SET paused_until = now()")
    await reconciler.resume_overdue(lease)
    assert await cloud.rows("SELECT state, paused_until FROM machines") == [("probation", None)]


@pytest.fixture(name="machines")
async def machines_fixture(cloud: Api) -> Machines:
    lease = await LeaseKeeper(cloud.database, "machines", "test", system_clock).acquire()
    assert lease is not None
    reconciler = MachinesReconciler(cloud.database, KEYRING, cloud.settings, system_clock)

    async def time_is_over() -> tuple[Any, ...]:
        await cloud.execute("UPDATE machines SET paused_until = now() WHERE paused_until IS NOT NULL")
        await reconciler.resume_overdue(lease)
        (row,) = await cloud.rows("SELECT state, paused_until FROM machines")
        return tuple(row)

    return time_is_over


@pytest.mark.parametrize(
    "until", ["2020-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"]
)
async def test_an_end_that_is_none(cloud: Api, until: str) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)
    answer = await cloud.post(home.admin, f"/machines/{machine_id}/pause", {"until": until})
    assert_problem(answer, 422)
    assert await cloud.rows("SELECT state FROM machines") == [("probation",)]


async def test_an_operators_pause_ends_by_itself_too(cloud: Api, machines: Machines) -> None:
    machine_id = await lent(cloud, await new_home(cloud))
    await cloud.post(cloud.operator, f"/machines/{machine_id}/pause", in_an_hour())
    assert await machines() == ("probation", None)


@pytest.mark.parametrize("happening", [Happening.SILENT, Happening.PROMOTED])
async def test_a_pause_ends_whatever_happened_meanwhile(
    cloud: Api, machines: Machines, happening: Happening
) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)
    await cloud.post(home.admin, f"/machines/{machine_id}/pause", in_an_hour())
    await moorage_says(cloud, machine_id, happening)
    await moorage_says(cloud, machine_id, Happening.ANSWERED)
    assert (await machines())[0] in ("probation", "active")


@pytest.mark.parametrize("stop", ["operator", "moorage"])
async def test_an_owner_sets_no_end_to_the_stop_of_another(cloud: Api, machines: Machines, stop: str) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)
    if stop == "operator":
        await cloud.post(cloud.operator, f"/machines/{machine_id}/pause")
    else:
        await moorage_says(cloud, machine_id, Happening.DISTRUSTED, "It lied.")
    await cloud.post(home.admin, f"/machines/{machine_id}/drain")
    await cloud.post(home.admin, f"/machines/{machine_id}/pause", in_an_hour())
    assert await machines() == ("draining", None)
    assert await cloud.rows("SELECT stopped_by FROM machines") == [(stop,)]


async def test_what_the_operator_empties_is_emptied(cloud: Api) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)
    await cloud.post(cloud.operator, f"/machines/{machine_id}/drain")
    shown = (await cloud.post(home.admin, f"/machines/{machine_id}/pause")).json()
    assert shown["state"] == "draining"
    shown = (await cloud.post(home.admin, f"/machines/{machine_id}/reclaim")).json()
    assert (shown["state"], shown["empty_by"] is None) == ("draining", False), (
        "and at once, if its owner wants"
    )


@pytest.mark.parametrize("happening", [Happening.SILENT, Happening.PROMOTED, Happening.DISTRUSTED])
async def test_who_wants_it_back_gets_it_whatever_happens(cloud: Api, happening: Happening) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)
    wanted = (await cloud.post(home.admin, f"/machines/{machine_id}/reclaim")).json()["empty_by"]
    await moorage_says(cloud, machine_id, happening)
    shown = (await cloud.get(home.admin, f"/machines/{machine_id}")).json()
    assert (shown["returns_as"] or shown["state"], shown["empty_by"]) == ("draining", wanted)


async def test_reclaim_says_by_when(cloud: Api) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)
    shown = (await cloud.post(home.admin, f"/machines/{machine_id}/reclaim")).json()
    assert shown["state"] == "draining"
    left = datetime.fromisoformat(shown["empty_by"]) - datetime.now(UTC)
    assert timedelta(seconds=20) < left <= timedelta(seconds=30)
    again = (await cloud.post(home.admin, f"/machines/{machine_id}/resume")).json()
    assert (again["state"], again["empty_by"]) == ("probation", None)


async def test_ban_and_unban(cloud: Api) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home, "active", standing="active")
    path = f"/operator/machines/{machine_id}"
    assert_problem(await cloud.post(home.admin, f"{path}/ban"), 403)
    banned = (await cloud.post(cloud.operator, f"{path}/ban", {"reason": "It mined coins."})).json()
    assert banned["state"] == "banned"
    seen = (await cloud.get(home.admin, f"/machines/{machine_id}")).json()
    assert "It mined coins." in seen["message"]
    async with cloud.database.reading() as session:
        assert await list_engine_machines(session, KEYRING) == [], "it is not spoken to"
        assert await machine_ends(session) == [], "nor is it in the tunnel"
    assert_problem(await cloud.post(home.admin, f"/machines/{machine_id}/resume"), 409, "machine_banned")
    await moorage_says(cloud, machine_id, Happening.ANSWERED)
    assert await cloud.rows("SELECT state FROM machines") == [("banned",)]
    assert (await cloud.post(cloud.operator, f"{path}/unban")).json()["state"] == "joining"
    await moorage_says(cloud, machine_id, Happening.ANSWERED)
    assert await cloud.rows("SELECT state, standing FROM machines") == [("verifying", "verifying")]


async def test_who_is_banned_while_lost_is_told_of_the_ban(cloud: Api) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)
    await moorage_says(cloud, machine_id, Happening.SILENT)
    await cloud.post(cloud.operator, f"/operator/machines/{machine_id}/ban", {"reason": "It mined coins."})
    (subject,) = await subjects(cloud, EMAIL)
    assert subject.endswith("is banned")
    assert await cloud.rows("SELECT untold_since FROM machines") == [(None,)], "and not that it answers again"


async def test_what_moorage_distrusts_waits_for_the_operator(cloud: Api) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)
    why = "Another machine says that it has the same GPU."
    await moorage_says(cloud, machine_id, Happening.DISTRUSTED, why)
    seen = (await cloud.get(home.admin, f"/machines/{machine_id}")).json()
    assert (seen["state"], why in seen["message"]) == ("paused", True)
    assert_problem(await cloud.post(home.admin, f"/machines/{machine_id}/resume"), 409, "machine_held")
    for whom in (EMAIL, cloud.settings.operator_email):
        assert len(await subjects(cloud, whom)) == 1
    back = (await cloud.post(cloud.operator, f"/machines/{machine_id}/resume")).json()
    assert (back["state"], why in back["message"]) == ("verifying", False)


async def test_an_owner_leaves(cloud: Api) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)
    assert (await cloud.ask(home.admin, "DELETE", f"/api/v1/machines/{machine_id}")).status_code == 204
    assert await cloud.rows("SELECT state, sealed_credential FROM machines") == [("removed", None)]


async def test_reliability_follows_from_what_it_was(cloud: Api) -> None:
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)
    await cloud.execute(
        "INSERT INTO machine_state_changes (machine_id, at, state, before_loss) VALUES"
        " (:id, now() - interval '40 days', 'probation', NULL), (:id, now() - interval '35 days', 'lost', 'probation'),"
        " (:id, now() - interval '34 days', 'probation', NULL), (:id, now() - interval '2 hours', 'lost', 'probation'),"
        " (:id, now() - interval '1 hour', 'probation', NULL)",
        id=machine_id,
    )
    async with cloud.database.transaction() as session:
        await purge_state_changes(session)
    left = await cloud.rows("SELECT state FROM machine_state_changes ORDER BY at")
    assert [row[0] for row in left] == ["probation", "lost", "probation"]
    shown = (await cloud.get(home.admin, f"/machines/{machine_id}")).json()
    assert shown["reliability"] == pytest.approx((19 + 719) / (20 + 719 + 10), abs=0.001)
    assert shown["tier"] == "standard"
    days = shown["days"]
    assert [one["day"] for one in days] == sorted({one["day"] for one in days})
    assert len(days) == 30
    assert sum(one["lost_s"] for one in days) == pytest.approx(3600, abs=2)
    assert days[0] == {"day": days[0]["day"], "there_s": 86400, "away_s": 0, "lost_s": 0}


async def test_a_machine_that_is_paused_and_resumed_all_day_has_a_short_history(cloud: Api) -> None:
    """Tenants whose replicas run there read it, and whoever places replicas."""
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)
    await cloud.execute(
        "INSERT INTO machine_state_changes (machine_id, at, state) SELECT :id, now() - interval '3 days' + n * interval '5 s',"
        " CASE WHEN n % 2 = 0 THEN 'paused' ELSE 'probation' END FROM generate_series(1, 20000) n",
        id=machine_id,
    )
    before = (await cloud.get(home.admin, f"/machines/{machine_id}")).json()
    after = (await cloud.post(home.admin, f"/machines/{machine_id}/pause")).json()
    [(count,)] = await cloud.rows("SELECT count(*) FROM machine_state_changes")
    assert count < MOST_STATE_CHANGES
    for name in ("there_s", "away_s", "lost_s"):
        sums = [[one[name] for one in shown["days"]] for shown in (before, after)]
        assert sums[0] == pytest.approx(sums[1], abs=2)
    assert after["reliability"] == pytest.approx(before["reliability"], abs=0.0001)


async def test_when_a_proof_comes_the_operator_alone_knows(cloud: Api) -> None:
    home = await new_home(cloud)
    proven_at, due_at = datetime.now(UTC) - timedelta(hours=3), datetime.now(UTC) + timedelta(hours=20)
    machine_id = await lent(cloud, home, proven_at=proven_at, proof_due_at=due_at)
    lists = (f"/organizations/{home.organization_id}/machines", "/operator/machines")
    owners, operators = [
        [
            (await cloud.get(asker, f"/machines/{machine_id}")).json(),
            (await cloud.get(asker, path)).json()["items"][0],
            (await cloud.post(asker, f"/machines/{machine_id}/{verb}")).json(),
        ]
        for asker, path, verb in ((home.admin, lists[0], "pause"), (cloud.operator, lists[1], "drain"))
    ]
    for shown in (*owners, *operators):
        assert datetime.fromisoformat(shown["proven_at"]) == proven_at
    assert [shown["proof_due_at"] for shown in owners] == [None] * 3
    assert [datetime.fromisoformat(shown["proof_due_at"]) for shown in operators] == [due_at] * 3
    own = await cloud.new_machine()
    assert (await cloud.get(cloud.operator, f"/machines/{own}")).json()["days"] is None


async def test_tenants_see_how_far_a_machine_is_trusted_and_not_whose_it_is(cloud: Api) -> None:
    owner, tenant = await new_home(cloud), await new_home(cloud, "tia@example.com")
    await cloud.execute(
        "UPDATE organizations SET name = 'Garage Ltd' WHERE id = :id", id=owner.organization_id
    )
    machine_id = await lent(cloud, owner, name="garage-3090", facts={"gpus": ["NVIDIA L4", "NVIDIA A40"]})
    await cloud.execute(
        "INSERT INTO machine_state_changes (machine_id, at, state) VALUES (:id, now() - interval '100 hours', 'active')",
        id=machine_id,
    )
    await cloud.execute(
        "INSERT INTO nodes (engine, name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, seen_at, owner) "
        "VALUES (:id, :id, 'community', 'amd64', 1000, 1000, CAST(:gpus AS jsonb), now(), :owner)",
        id=machine_id,
        gpus='[{"device_id": "GPU-0", "model": "NVIDIA L4"}, {"device_id": "GPU-1", "model": "NVIDIA A40"}]',
        owner=owner.organization_id,
    )
    container_id = await cloud.new_container(tenant.project_id, "chat")
    lent_one = await cloud.new_replica(container_id, "routed", machine_id)
    await cloud.execute("UPDATE replicas SET slot = 1 WHERE id = :id", id=lent_one)
    own_one = await cloud.new_replica(container_id, "ready", "here")
    gone = await cloud.new_replica(container_id, "removed", machine_id)
    await cloud.execute(
        "UPDATE replicas SET engine = :machine, gpu_device_ids = '{GPU-1}' WHERE id = ANY(:ids)",
        machine=machine_id,
        ids=[lent_one, gone],
    )
    answer = await cloud.get(tenant.admin, f"/containers/{container_id}/replicas")
    assert {one["id"]: one["community"] for one in answer.json()["items"]} == {
        lent_one: {
            "gpus": ["NVIDIA A40"],
            "tier": "standard",
            "reliability": pytest.approx(119 / 120, abs=1e-4),
        },
        own_one: None,
        gone: None,
    }
    (address,) = (await cloud.rows("SELECT address FROM machines WHERE id = :id", id=machine_id))[0]
    for secret in ("garage", "Garage", owner.organization_id, address, EMAIL):
        assert secret not in answer.text
    # And of the tenant, the owner sees that something runs there.
    shown = await cloud.get(owner.admin, f"/machines/{machine_id}")
    for secret in (container_id, lent_one, tenant.organization_id, tenant.project_id, "chat"):
        assert secret not in shown.text
    assert_problem(await cloud.get(owner.admin, f"/containers/{container_id}/replicas"), 404)


async def test_a_type_names_the_other_that_any_takes(cloud: Api) -> None:
    home = await new_home(cloud)
    size = {
        "vcpu_millis": 3000,
        "memory_bytes": 2**30,
        "disk_bytes": 2**30,
        "gpu_model": None,
        "gpu_count": 0,
    }
    for name, kind, price in (("own-3", "operator", 50_000), ("lent-3", "community", 30_000)):
        wanted = {**size, "name": name, "infrastructure": kind, "price_per_hour_microusd": price}
        made = await cloud.post(cloud.operator, "/operator/instance-types", wanted)
        assert made.status_code == 201, made.text
    offered = (await cloud.get(home.admin, "/instance-types")).json()["items"]
    siblings = {one["name"]: one["sibling"] for one in offered}
    assert (siblings["own-3"], siblings["lent-3"]) == ("lent-3", "own-3")
    assert {name: other for name, other in siblings.items() if other} == {
        "own-3": "lent-3",
        "lent-3": "own-3",
    }


async def test_whoever_is_signed_in_reads_whether_machines_can_be_lent(api: Api, cloud: Api) -> None:
    for installation, is_open in ((api, False), (cloud, True)):
        assert (await installation.get(installation.operator, "/me")).json()["community_machines"] is is_open


async def test_a_version_from_before_goes_on_without_them(cloud: Api, database_dsn: str) -> None:
    """Lent machines are gone, the operator's stay; and everything is there again for what comes after."""
    home = await new_home(cloud)
    machine_id = await lent(cloud, home)
    await moorage_says(cloud, machine_id, Happening.DISTRUSTED, "It lied.")
    own = await cloud.new_machine("paused", stopped_by="operator")
    await cloud.new_machine("banned")
    await migrate(database_dsn, "0087")
    rows = await cloud.rows("SELECT state FROM machines ORDER BY state")
    assert [row[0] for row in rows] == ["paused", "paused"]
    await migrate(database_dsn)
    rows = await cloud.rows("SELECT id, stopped_by, standing FROM machines WHERE id = :id", id=own)
    assert rows == [(own, "operator", "active")]
