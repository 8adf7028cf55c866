"""The doctor on a whole installation: asked over HTTP, answered by the controller from inside a replica on Docker."""

from typing import Any

import pytest

from tests.acceptance.stack import Person, until


@pytest.mark.long
def test_the_controller_looks_from_inside(person: Person) -> None:
    chat = person.deploy("patient")
    chat.until_state("RUNNING")
    assert person.api.post(f"/containers/{chat.id}/doctor").status_code == 202

    def answered() -> dict[str, Any] | None:
        found: dict[str, Any] = person.api.get(f"/containers/{chat.id}/doctor").json()
        return found if found["state"] != "asked" else None

    found = until(answered, "the doctor has looked")
    assert found is not None
    assert found["state"] == "done", found
    findings = found["findings"]
    assert findings["listening"] == [{"address": "0.0.0.0", "port": 8000}]
    assert findings["resolvers"] == ["127.0.0.11"]
    kept = {one["address"]: one["outcome"] for one in findings["forbidden"]}
    # Docker may give our bridge an address that is one of the known ones.
    assert len(findings["forbidden"]) == 5, "four that are known, and this machine"
    assert set(kept.values()) <= {"timed_out", "unreachable"}
    assert found["message"].endswith("Listening: 0.0.0.0 port 8000.")
    newest = person.api.get(f"/containers/{chat.id}/activity").json()["items"][0]
    assert (newest["kind"], newest["details"]["findings"]) == ("container.diagnosed", findings)
    chat.delete()
