"""A restart while requests come in: the new replica takes over, and nobody notices."""

import pytest

from tests.acceptance.stack import Person, until
from tests.acceptance.test_kill import Prober


@pytest.mark.long
def test_a_restart_fails_no_request(person: Person) -> None:
    chat = person.deploy("restarted")
    chat.until_state("RUNNING")
    key = person.key()
    chat.until_answered(key)
    prober = Prober(chat, key)
    prober.start()
    try:
        until(lambda: prober.count > 20, "the endpoint is asked")
        for generation in (2, 3):
            chat.do("restart")

            def taken_over(generation: int = generation) -> bool:
                rows = person.api.get(f"/containers/{chat.id}/replicas").json()["items"]
                return [(row["state"], row["generation"]) for row in rows if row["state"] != "removed"] == [
                    ("routed", generation)
                ]

            until(taken_over, f"generation {generation} serves alone")
            asked = prober.count
            until(lambda asked=asked: prober.count > asked + 20, "and is asked")  # type: ignore[misc]
    finally:
        prober.stop()
    assert prober.failures == []
    print(f"{prober.count} requests during two restarts, 0 failed")
    chat.delete()
