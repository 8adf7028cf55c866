"""The stand-in answers as a real API server did."""

import json
from pathlib import Path

import pytest

from moorage.engines.kubernetes.account import account_from
from moorage.engines.kubernetes.connection import ApiServer
from moorage.kit.clock import system_clock
from tests.kubernetes.conversation import converse
from tests.kubernetes.world import ClusterWorld

RECORDING = Path(__file__).parent / "recordings" / "conversation-v1.32.13.json"


async def test_the_stand_in_says_what_a_real_api_server_said(world: ClusterWorld) -> None:
    del world.server.store.objects["priorityclasses", "", "moorage-replica"]
    world.server.store.listeners.clear()  # nothing is scheduled: what is said is the API server's alone
    api = ApiServer(account_from(str(world.kubeconfig)), system_clock)
    try:
        said = json.loads(json.dumps(await converse(api, world.server.forget_old_versions)))
    finally:
        await api.close()
    recorded = json.loads(RECORDING.read_text())["answers"]
    for step in recorded:
        assert (step, said.get(step)) == (step, recorded[step])
    assert said.keys() == recorded.keys()


@pytest.mark.parametrize("field", ["version", "answers"])
def test_the_recording_says_what_it_is_of(field: str) -> None:
    assert json.loads(RECORDING.read_text())[field]
