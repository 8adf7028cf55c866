"""A hostile owner, with an account and the real keys of a machine that joined, against everybody else: each attempt by name, and each
without effect. What is asserted of all of them is in `hostile_owner_support.py`."""

import asyncio
import re

import pytest
from api_support import ANONYMOUS, KEYRING, Api, Asker, bearer, join_body, route_table
from hostile_owner_support import Attempt, Scene, play
from hostile_owner_support import hostile_dsn_fixture as hostile_dsn_fixture
from hostile_owner_support import scene_fixture as scene_fixture

from moorage.entrypoints.api import create_app
from moorage.machines.repository import list_engine_machines, machine_ends
from moorage.machines.states import Happening, Speaker
from moorage.tunnel.keys import new_private_key, public_key_of

_ITS_OWN = ("/membership", "/key", "/leave")
_FOR_ANYBODY = re.compile(
    r"/api/v1/(auth|health|machines/(join|moorage)|openapi|docs|version|config|signing)|/(docs|$)"
)


# Who it is.


async def anothers_membership(scene: Scene) -> None:
    for machine in (scene.theirs, scene.operators):
        await scene.ask(scene.machine, "GET", f"/machines/{machine}/membership")


async def anothers_key(scene: Scene) -> None:
    body = {"public_key": public_key_of(new_private_key())}
    for machine in (scene.theirs, scene.operators):
        await scene.ask(scene.machine, "PUT", f"/machines/{machine}/key", json=body)


async def anothers_leave(scene: Scene) -> None:
    for asker in (scene.machine, scene.owner.admin, bearer("credential", scene.brought["credential"])):
        for machine in (scene.theirs, scene.operators):
            await scene.post(f"/machines/{machine}/leave", asker=asker)


async def the_key_of_another_machine(scene: Scene) -> None:
    ((key,),) = await scene.api.rows("SELECT public_key FROM machines WHERE id = :id", id=scene.theirs)
    answer = await scene.ask(scene.machine, "PUT", f"/machines/{scene.mine}/key", json={"public_key": key})
    assert answer.json()["code"] == "key_in_use"
    added = await scene.lend()
    body = join_body(added["token"], public_key=key)
    body["facts"]["runtime"] = "runsc"
    assert (await scene.post("/machines/join", body, ANONYMOUS)).json()["code"] == "key_in_use"


async def a_key_that_is_none(scene: Scene) -> None:
    for key in ("A" * 43 + "=", "x" * 44, "../../etc", "", "A" * 5000, None, 7, ["a"]):
        await scene.ask(scene.machine, "PUT", f"/machines/{scene.mine}/key", json={"public_key": key})


async def its_secret_wherever_there_is_a_door(scene: Scene) -> None:
    """On every route of the API: a machine's secret, and what Moorage presents to it, are good for three of its own."""
    known = {"machine_id": scene.theirs, "container_id": scene.container_id}
    known |= {"organization_id": scene.victim.organization_id, "project_id": scene.victim.project_id}
    tried = 0
    for method, path in route_table(scene.api.app):
        if not path.startswith("/api/v1/") or _FOR_ANYBODY.match(path):
            continue
        filled = re.sub(r"\{(\w+)[^}]*\}", lambda found: known.get(found[1], "absent"), path)
        for asker in (scene.machine, bearer("credential", scene.brought["credential"])):
            await scene.ask(asker, method, filled.removeprefix("/api/v1"))
            tried += 1
    assert tried > 200


# Enrolment.


async def a_token_that_was_used(scene: Scene) -> None:
    for name in ("public_key", "credential", "secret"):
        replayed = scene.brought | {name: join_body("")[name]}
        assert (await scene.post("/machines/join", replayed, ANONYMOUS)).json()[
            "code"
        ] == "join_token_refused"


async def one_token_for_many(scene: Scene) -> None:
    token = (await scene.lend())["token"]
    bodies = [join_body(token) for _ in range(8)]
    for body in bodies:
        body["facts"]["runtime"] = "runsc"
    answers = await asyncio.gather(*(scene.post("/machines/join", body, ANONYMOUS) for body in bodies))
    assert sorted(answer.status_code for answer in answers) == [200, *[401] * 7]


async def a_token_of_what_was_removed(scene: Scene) -> None:
    added = await scene.lend()
    await scene.ask(scene.owner.admin, "DELETE", f"/machines/{added['id']}")
    await scene.post("/machines/join", join_body(added["token"]), ANONYMOUS)


async def a_command_for_anothers_machine(scene: Scene) -> None:
    for machine in (scene.theirs, scene.operators):
        await scene.post(f"/machines/{machine}/command")


async def a_machine_in_anothers_name(scene: Scene) -> None:
    path = f"/organizations/{scene.victim.organization_id}/machines"
    for asker in (scene.owner.admin, scene.machine, ANONYMOUS):
        await scene.post(path, {}, asker)
    for more in ({"owner_organization_id": scene.victim.organization_id}, {"infrastructure": "operator"}):
        await scene.post(f"/organizations/{scene.owner.organization_id}/machines", more)
    await scene.post("/operator/machines", {})


async def a_join_that_says_what_it_is(scene: Scene) -> None:
    """Active, the operator's, verified, with an address and rights of its choice."""
    for more in (
        {"state": "active"},
        {"standing": "active"},
        {"infrastructure": "operator"},
        {"owner_organization_id": scene.victim.organization_id},
        {"address": "198.19.0.1"},
        {"allow_runc": True},
    ):
        token = (await scene.lend())["token"]
        await scene.post("/machines/join", join_body(token) | more, ANONYMOUS)
    body = join_body((await scene.lend())["token"])
    body["facts"] |= {"runtime": "runsc", "proven": {"memory_bytes": 2**50}}
    await scene.post("/machines/join", body, ANONYMOUS)


async def no_sandbox(scene: Scene) -> None:
    for runtime in (None, "runc", "runsc; echo"):
        body = join_body((await scene.lend())["token"])
        body["facts"]["runtime"] = runtime
        await scene.post("/machines/join", body, ANONYMOUS)


# States.


async def anothers_state(scene: Scene) -> None:
    for machine in (scene.theirs, scene.operators):
        for word in ("pause", "resume", "drain", "reclaim"):
            await scene.post(f"/machines/{machine}/{word}")
        await scene.ask(scene.owner.admin, "DELETE", f"/machines/{machine}?force=true")


async def the_operators_words(scene: Scene) -> None:
    for machine in (scene.mine, scene.theirs):
        await scene.post(f"/operator/machines/{machine}/ban", {"reason": "It is in my way."})
        await scene.post(f"/operator/machines/{machine}/unban")
        await scene.post(f"/operator/machines/{machine}/void-earnings", {"reason": "It is in my way."})
    await scene.ask(
        scene.owner.admin, "PUT", f"/operator/nodes/{scene.theirs}/intake", json={"intake": "cordoned"}
    )
    await scene.ask(scene.owner.admin, "GET", "/operator/tunnel")


async def resumed_against_the_operator(scene: Scene) -> None:
    await scene.says(Happening.PAUSE, Speaker.OPERATOR)
    await scene.post(f"/machines/{scene.mine}/resume")
    assert await scene.state() == ("paused", "operator")


async def a_hold_that_ends_by_itself(scene: Scene) -> None:
    """Drained, and then paused for a moment: what Moorage paused would be resumed in Moorage's own name."""
    await scene.says(Happening.DISTRUSTED)
    await scene.post(f"/machines/{scene.mine}/drain")
    await scene.post(f"/machines/{scene.mine}/pause", {"until": "2020-01-01T00:00:00Z"})
    await scene.looks()
    assert await scene.state() == ("draining", "moorage"), "emptied as asked for, and held all the same"


async def nobody_looks_after_machines_any_more(scene: Scene) -> None:
    """The same with the operator's pause: to resume it is refused, at each look at whatever machine."""
    await scene.says(Happening.PAUSE, Speaker.OPERATOR)
    await scene.post(f"/machines/{scene.mine}/drain")
    await scene.post(f"/machines/{scene.mine}/pause", {"until": "2020-01-01T00:00:00Z"})
    await scene.looks()
    assert await scene.state() == ("draining", "operator")


async def a_pause_beyond_time(scene: Scene) -> None:
    for until in ("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "soon", 10**30, "2030-01-01"):
        answer = await scene.post(f"/machines/{scene.mine}/pause", {"until": until})
        assert answer.status_code < 500, answer.text
    await scene.looks()


# A ban.


async def back_under_another_name(scene: Scene) -> None:
    before = await scene.lend()
    await scene.says(Happening.BAN, Speaker.OPERATOR)
    path = f"/organizations/{scene.owner.organization_id}/machines"
    assert (await scene.post(path, {"name": "quite-another"})).json()["code"] == "machine_banned"
    # With a command from before, and new keys.
    body = join_body(before["token"], hostname="quite-another")
    body["facts"]["runtime"] = "runsc"
    assert (await scene.post("/machines/join", body, ANONYMOUS)).json()["code"] == "machine_banned"


async def a_ban_that_is_forgotten(scene: Scene) -> None:
    """It leaves, or is removed, and joins anew."""
    await scene.says(Happening.BAN, Speaker.OPERATOR)
    await scene.post(f"/machines/{scene.mine}/leave", asker=scene.machine)
    await scene.ask(scene.owner.admin, "DELETE", f"/machines/{scene.mine}?force=true")
    path = f"/organizations/{scene.owner.organization_id}/machines"
    assert (await scene.post(path, {})).json()["code"] == "machine_banned"
    assert await scene.state() == ("banned", None)


async def a_banned_machine_goes_on(scene: Scene) -> None:
    await scene.says(Happening.BAN, Speaker.OPERATOR)
    for word in ("resume", "pause", "drain", "reclaim"):
        await scene.post(f"/machines/{scene.mine}/{word}")
    await scene.ask(
        scene.machine,
        "PUT",
        f"/machines/{scene.mine}/key",
        json={"public_key": public_key_of(new_private_key())},
    )
    await scene.says(Happening.ANSWERED)
    async with scene.api.database.reading() as session:
        assert scene.mine not in {one.id for one in await list_engine_machines(session, KEYRING)}
        assert scene.mine not in {one.machine_id for one in await machine_ends(session)}


# Tenants.


async def tenants_of_its_machine(scene: Scene) -> None:
    """Whose replica runs there: every route of that container, project and organization."""
    known = {"container_id": scene.container_id, "project_id": scene.victim.project_id}
    known["organization_id"] = scene.victim.organization_id
    tried = 0
    for method, path in route_table(scene.api.app):
        if any(f"{{{name}}}" in path for name in known):
            filled = re.sub(r"\{(\w+)[^}]*\}", lambda found: known.get(found[1], "absent"), path)
            answer = await scene.ask(scene.owner.admin, method, filled.removeprefix("/api/v1"))
            assert answer.status_code in (403, 404, 422), (filled, answer.text)
            tried += 1
    assert tried > 80


async def what_the_owner_may_read(scene: Scene) -> None:
    """Of its own machine, with a tenant on it: how many, and never who."""
    own = f"/organizations/{scene.owner.organization_id}"
    for path in (f"/machines/{scene.mine}", f"{own}/machines", f"{own}/audit", f"{own}/earnings"):
        answer = await scene.ask(scene.owner.admin, "GET", path)
        assert answer.status_code == 200, answer.text
        for hidden in (scene.theirs, scene.container_id, scene.victim.organization_id, scene.victim.user_id):
            assert hidden not in answer.text


async def others_machines(scene: Scene) -> None:
    for path in (
        f"/machines/{scene.theirs}",
        f"/machines/{scene.operators}",
        f"/organizations/{scene.victim.organization_id}/machines",
        "/operator/machines",
        "/operator/nodes",
    ):
        await scene.ask(scene.owner.admin, "GET", path)


async def who_else_has_that_name(scene: Scene) -> None:
    """A name that is taken is not refused, which would tell; it is varied."""
    ((name,),) = await scene.api.rows("SELECT name FROM machines WHERE id = :id", id=scene.operators)
    answer = await scene.post(f"/organizations/{scene.owner.organization_id}/machines", {"name": name})
    assert answer.status_code == 201, answer.text
    ((mine,),) = await scene.api.rows("SELECT name FROM machines WHERE id = :id", id=answer.json()["id"])
    assert mine != name


# Bodies.


async def bodies_that_are_none(scene: Scene) -> None:
    token = (await scene.lend())["token"]
    huge = join_body(token) | {"hostname": "a" * 2_000_000}
    deep = b'{"token": ' + b"[" * 50_000
    for how in (
        {"json": huge},
        {"content": deep, "headers": {"content-type": "application/json"}},
        {"content": b"\xff\xfe\x00" * 100, "headers": {"content-type": "application/json"}},
        {"content": b"", "headers": {"content-type": "application/json"}},
        {"json": join_body(token, hostname="a\x00b")},
        {"json": join_body(token, facts={"architecture": "x" * 10_000})},
        {"json": [join_body(token)]},
    ):
        await scene.ask(ANONYMOUS, "POST", "/machines/join", **how)
    for body in ("x" * 3_000_000, "[" * 50_000):
        await scene.ask(
            scene.machine,
            "PUT",
            f"/machines/{scene.mine}/key",
            content=body,
            headers={"content-type": "application/json"},
        )


async def more_machines_than_anybody_may(scene: Scene) -> None:
    api, few = scene.api, scene.api.settings.model_copy(update={"machines_per_organization": 3})
    scene.api = Api(create_app(few, api.database, KEYRING), api.database, few)
    path = f"/organizations/{scene.owner.organization_id}/machines"
    answers = await asyncio.gather(*(scene.post(path, {}) for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [201, 201, 409, 409, 409, 409]


async def keys_without_end(scene: Scene) -> None:
    """Each would change every hub's tunnel."""
    for _ in range(5):
        key = {"public_key": public_key_of(new_private_key())}
        await scene.ask(scene.machine, "PUT", f"/machines/{scene.mine}/key", json=key)


async def a_secret_that_is_nearly_right(scene: Scene) -> None:
    secret = scene.brought["secret"]
    for text in (secret[:-1], secret + "a", secret.upper(), secret.swapcase(), f" {secret[1:]}", "", "null"):
        await scene.ask(
            Asker("near", {"Authorization": f"Bearer {text}"}), "GET", f"/machines/{scene.mine}/membership"
        )
    await scene.ask(
        Asker("basic", {"Authorization": f"Basic {secret}"}), "GET", f"/machines/{scene.mine}/membership"
    )


ATTEMPTS = [
    Attempt("another machine's membership", anothers_membership),
    Attempt("another key for another machine", anothers_key),
    Attempt("another machine is to leave", anothers_leave),
    Attempt("another machine's key", the_key_of_another_machine, allowed=1),
    Attempt("a key that is none", a_key_that_is_none),
    Attempt("its secret on every route", its_secret_wherever_there_is_a_door),
    Attempt("a secret that is nearly right", a_secret_that_is_nearly_right),
    Attempt("a token that was used", a_token_that_was_used),
    Attempt("one token for many machines", one_token_for_many, allowed=2),
    Attempt("a token of a machine that was removed", a_token_of_what_was_removed, allowed=2),
    Attempt("a command for another's machine", a_command_for_anothers_machine),
    Attempt("a machine in another's name", a_machine_in_anothers_name),
    Attempt("a join that says what it is", a_join_that_says_what_it_is, allowed=7),
    Attempt("a join without a sandbox", no_sandbox, allowed=3),
    Attempt("another machine's state", anothers_state),
    Attempt("the operator's words", the_operators_words),
    Attempt("resumed against the operator", resumed_against_the_operator),
    Attempt("a hold that ends by itself", a_hold_that_ends_by_itself, allowed=2),
    Attempt("nobody looks after machines any more", nobody_looks_after_machines_any_more, allowed=2),
    Attempt("a pause beyond time", a_pause_beyond_time, allowed=1),
    Attempt("back under another name after a ban", back_under_another_name, allowed=1),
    Attempt("a ban that is forgotten", a_ban_that_is_forgotten, allowed=1),
    Attempt("a banned machine goes on", a_banned_machine_goes_on, allowed=1),
    Attempt("all about a tenant of its machine", tenants_of_its_machine),
    Attempt("what an owner may read", what_the_owner_may_read, allowed=4),
    Attempt("others' machines", others_machines),
    Attempt("who else has that name", who_else_has_that_name, allowed=1),
    Attempt("bodies that are none", bodies_that_are_none, allowed=1),
    Attempt("more machines than anybody may lend", more_machines_than_anybody_may, allowed=2),
    Attempt("keys without end", keys_without_end, allowed=1),
]


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=str)
@pytest.mark.long
async def test_without_effect(scene: Scene, attempt: Attempt) -> None:
    await play(scene, attempt)
