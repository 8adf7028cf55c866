"""What a key's page says of its use, and its own limit, on a running installation."""

import pytest

from tests.acceptance.stack import Person, Stack, until


@pytest.mark.long
def test_last_use_and_limit(person: Person, stack: Stack) -> None:
    path = f"/projects/{person.project_id}/api-keys"
    made = [
        person.api.post(path, json=wanted).json()
        for wanted in ({"name": "limited", "requests_per_minute": 3}, {"name": "manager", "scope": "manage"})
    ]
    limited, manager = made

    def used_from(key: dict[str, str]) -> str | None:
        found = person.api.get(f"/api-keys/{key['id']}").json()["last_used_from"]
        return str(found) if found is not None else None

    with stack.client(manager["key"]) as client:
        assert client.get("/me").status_code == 200
    assert used_from(manager) == "127.0.0.1"
    assert used_from(limited) is None

    chat = person.deploy("limited")
    chat.until_state("RUNNING")
    # The key reaches the gateway within a second; from its first admitted request on, three are admitted in a minute.
    until(lambda: chat.ask(limited["key"]).status_code != 401, "the gateway has the key", timeout_s=10)
    until(lambda: chat.ask(limited["key"]).status_code == 429, "its limit is reached", timeout_s=10)
    refused = chat.ask(limited["key"])
    assert refused.json()["error"]["code"] == "rate_limited"
    assert refused.headers["retry-after"] == "21"
    until(lambda: used_from(limited) == "127.0.0.1", "the key's page says that it was used", timeout_s=15)
    chat.delete()
