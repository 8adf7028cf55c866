"""Who does not get in, and what they are told."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from tests.acceptance.stack import Deployed, Person, Stack, until

ERROR_KEYS = {"message", "type", "code", "request_id"}


def refused(answer: httpx.Response, status: int, code: str) -> bool:
    if answer.status_code != status:
        return False
    error = answer.json()["error"]
    assert set(error) == ERROR_KEYS
    assert error["request_id"] == answer.headers["x-request-id"]
    return bool(error["code"] == code)


def until_refused(chat: Deployed, key: str | None, status: int, code: str, what: str) -> httpx.Response:
    """One question at a time, each judged as a whole: a second one may be answered otherwise."""

    answers: list[httpx.Response] = []

    def is_refused() -> bool:
        answers.append(chat.ask(key))
        return refused(answers[-1], status, code)

    try:
        until(is_refused, what)
    except AssertionError as exc:
        shown = chat.owner.api.get(f"/containers/{chat.id}")
        raise AssertionError(
            f"{exc}; the last answer was {answers[-1].status_code}, {answers[-1].text}; "
            f"the API says {shown.status_code}, {shown.text}"
        ) from None
    return answers[-1]


def accepted_key_that_expires(person: Person, chat: Deployed) -> tuple[str, datetime]:
    """However slow the machine: a key that was accepted before its time was over, and when that is."""
    for lifetime_s in (4, 8, 16, 32):
        expires_at = datetime.now(UTC) + timedelta(seconds=lifetime_s)
        key = person.key(expires_at=expires_at.isoformat())
        while datetime.now(UTC) < expires_at:
            if chat.ask(key).status_code == 200:
                return key, expires_at
    raise AssertionError("no key was accepted before it expired")


@pytest.mark.long
def test_keys_containers_and_states(person: Person, stack: Stack) -> None:
    chat = person.deploy("refusals")
    chat.until_state("RUNNING")
    key = person.key()
    chat.until_answered(key)

    assert refused(chat.ask(None), 401, "authentication_failed")
    assert refused(chat.ask("moor_wrong"), 401, "authentication_failed")
    assert refused(chat.ask(key[:-1] + ("a" if key[-1] != "a" else "b")), 401, "authentication_failed")

    expiring, expires_at = accepted_key_that_expires(person, chat)
    until_refused(chat, expiring, 401, "authentication_failed", "it expires")
    # HAProxy compares whole seconds.
    assert datetime.now(UTC) > expires_at - timedelta(seconds=1)

    made = person.api.post(f"/projects/{person.project_id}/api-keys", json={"name": "to revoke"}).json()
    chat.until_answered(made["key"])
    assert person.api.delete(f"/api-keys/{made['id']}").status_code == 204
    until_refused(chat, made["key"], 401, "authentication_failed", "a revoked key is refused")

    stranger = stack.sign_up("stranger@example.com")
    foreign = stranger.key()
    hidden = until_refused(chat, foreign, 404, "not_found", "another project's key sees nothing")
    absent = Deployed(person, "ctr_" + "a" * 20, chat.url.replace(chat.id, "ctr_" + "a" * 20))
    unknown = absent.ask(key)
    assert refused(unknown, 404, "not_found")
    assert unknown.json()["error"]["message"] == hidden.json()["error"]["message"]

    chat.do("stop")
    chat.until_state("STOPPED")
    stopped = until_refused(chat, key, 503, "container_not_running", "a stopped container says so")
    assert int(stopped.headers["retry-after"]) > 0
    chat.delete()
    until_refused(chat, key, 404, "not_found", "a deleted container is not there")
