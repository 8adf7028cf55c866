"""Who does not get in, and what they are told."""

from datetime import UTC, datetime, timedelta

import httpx

from tests.acceptance.stack import Deployed, Person, Stack, until

ERROR_KEYS = {"message", "type", "code", "request_id"}


def refused(answer: httpx.Response, status: int, code: str) -> bool:
    assert set(answer.json()["error"]) == ERROR_KEYS
    assert answer.json()["error"]["request_id"] == answer.headers["x-request-id"]
    return answer.status_code == status and answer.json()["error"]["code"] == code


def test_keys_containers_and_states(person: Person, stack: Stack) -> None:
    chat = person.deploy("refusals")
    chat.until_state("RUNNING")
    key = person.key()
    chat.until_answered(key)

    assert refused(chat.ask(None), 401, "authentication_failed")
    assert refused(chat.ask("moor_wrong"), 401, "authentication_failed")
    assert refused(chat.ask(key[:-1] + ("a" if key[-1] != "a" else "b")), 401, "authentication_failed")

    soon = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
    expiring = person.key(expires_at=soon)
    until(lambda: chat.ask(expiring).status_code == 200, "the key works before it expires", timeout_s=3)
    until(
        lambda: (
            refused(chat.ask(expiring), 401, "authentication_failed")
            if chat.ask(expiring).status_code != 200
            else False
        ),
        "it expires",
        timeout_s=10,
    )

    made = person.api.post(f"/projects/{person.project_id}/api-keys", json={"name": "to revoke"}).json()
    chat.until_answered(made["key"])
    assert person.api.delete(f"/api-keys/{made['id']}").status_code == 204
    until(lambda: chat.ask(made["key"]).status_code == 401, "a revoked key is refused", timeout_s=5)

    stranger = stack.sign_up("stranger@example.com")
    foreign = stranger.key()
    until(
        lambda: (
            refused(chat.ask(foreign), 404, "not_found") if chat.ask(foreign).status_code != 401 else False
        ),
        "another project's key sees nothing",
        timeout_s=5,
    )
    absent = Deployed(person, "ctr_" + "a" * 20, chat.url.replace(chat.id, "ctr_" + "a" * 20))
    assert refused(absent.ask(key), 404, "not_found")
    assert absent.ask(key).json()["error"]["message"] == chat.ask(foreign).json()["error"]["message"]

    chat.do("stop")
    chat.until_state("STOPPED")
    stopped = chat.ask(key)
    assert refused(stopped, 503, "container_not_running")
    assert int(stopped.headers["retry-after"]) > 0
    chat.delete()
    until(lambda: chat.ask(key).status_code == 404, "a deleted container is not there", timeout_s=5)
