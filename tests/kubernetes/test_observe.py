"""What Pods say, as a real kubelet said it where that could be brought about (`recordings/`), and what Moorage makes of it."""

import copy
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from moorage.containers.start_limit import NOT_ITS_FAULT
from moorage.containers.states import Reason
from moorage.engines.base import Failure, ObservedReplica, ReplicaPhase
from moorage.engines.kubernetes.nodes import NodeSeen
from moorage.engines.kubernetes.observe import TicketState, fingerprint, has_begun, observed_replica

RECORDED = json.loads((Path(__file__).parent / "recordings" / "pods-v1.32.13.json").read_text())["pods"]
NODE = NodeSeen("node-1", "uid", "arm64", True, None, True, ("10.77.0.11",), None)
TICKET = TicketState(open=True)
PULL_TIMEOUT = timedelta(hours=1)
CREATED, WAITING, PULLING = ReplicaPhase.CREATED, ReplicaPhase.WAITING, ReplicaPhase.PULLING
RUNNING, EXITED = ReplicaPhase.RUNNING, ReplicaPhase.EXITED


def seen(
    pod: dict[str, Any],
    *,
    node: NodeSeen | None = NODE,
    ticket: TicketState = TICKET,
    after: timedelta = timedelta(),
) -> ObservedReplica:
    made = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    return observed_replica(pod, node, ticket, made + after, PULL_TIMEOUT)


def with_door(name: str, state: dict[str, Any]) -> dict[str, Any]:
    """What was recorded, of a Pod with a door in this state."""
    pod = copy.deepcopy(RECORDED[name])
    port = {"containerPort": 8443}
    pod["spec"]["initContainers"] = [
        {"name": "door", "image": "x", "restartPolicy": "Always", "ports": [port]}
    ]
    pod["status"]["initContainerStatuses"] = [{"name": "door", "state": state, "restartCount": 0}]
    return pod


def test_a_replica_with_a_door_is_reached_through_it() -> None:
    observed = seen(with_door("running", {"running": {}}))
    assert (observed.phase, observed.has_door, observed.host_port) == (RUNNING, True, 8443)
    plain = seen(RECORDED["running"])
    assert (plain.has_door, plain.host_port) == (False, 8000)


@pytest.mark.parametrize(
    ("reason", "ticket", "after_s", "phase", "fails"),
    [
        ("ErrImagePull", TICKET, 5, PULLING, False),
        ("ErrImagePull", TICKET, 3000, PULLING, True),
        ("ErrImagePull", TicketState(), 5, CREATED, False),
        ("ImagePullBackOff", TicketState(open=True, door_refused=True), 5, PULLING, True),
        ("CreateContainerConfigError", TICKET, 5, PULLING, False),
        ("CreateContainerConfigError", TICKET, 3000, PULLING, True),
        ("CrashLoopBackOff", TICKET, 3000, PULLING, True),
        ("PodInitializing", TICKET, 3000, PULLING, False),
    ],
)
def test_a_door_that_does_not_start_is_nobodys_fault_who_deploys(
    reason: str, ticket: TicketState, after_s: int, phase: ReplicaPhase, fails: bool
) -> None:
    pod = with_door("pull-waits", {"waiting": {"reason": reason}})
    pod["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "PodInitializing"}}
    observed = seen(pod, ticket=ticket, after=timedelta(seconds=after_s))
    assert observed.phase is phase
    assert (observed.failure is not None) == fails
    if observed.failure is not None:
        assert Reason(observed.failure.code) in NOT_ITS_FAULT


@pytest.mark.parametrize(
    ("name", "phase", "exit_code", "failure"),
    [
        ("running", RUNNING, None, None),
        ("stopped", EXITED, 0, None),
        ("killed", EXITED, 137, None),
        ("exited", EXITED, 3, None),
        ("completed", EXITED, 0, None),
        ("out-of-memory", EXITED, 137, None),
        ("command-not-found", CREATED, None, "start_command_not_found"),
        ("command-not-executable", CREATED, None, "start_command_not_found"),
        ("command-is-a-folder", CREATED, None, "start_command_not_found"),
        ("command-of-another-processor", EXITED, 1, None),
        ("disk-full", EXITED, None, "disk_full"),
        ("unschedulable", WAITING, None, None),
        ("pull-fails", PULLING, None, None),
        ("pull-waits", PULLING, None, None),
        ("no-pull-secret", PULLING, None, None),
        ("rejected-by-kubelet", CREATED, None, "engine_error"),
        ("node-does-not-fit", CREATED, None, "engine_error"),
        ("gated", CREATED, None, None),
    ],
)
def test_what_a_kubelet_said(
    name: str, phase: ReplicaPhase, exit_code: int | None, failure: str | None
) -> None:
    observed = seen(RECORDED[name])
    assert observed.phase is phase
    if name != "disk-full":  # which it may have been told, or not
        assert observed.exit_code == exit_code
    assert (observed.failure.code if observed.failure else None) == failure
    assert observed.out_of_memory is (name == "out-of-memory")
    assert (observed.ended_at is not None) is (phase is EXITED)
    assert (observed.started_at is not None) is (
        phase in (RUNNING, EXITED) and name != "disk-full"
    ) or name == "disk-full"
    if failure is not None:
        assert Reason(failure)


def test_every_recording_is_looked_at() -> None:
    looked_at = test_what_a_kubelet_said.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {one[0] for one in looked_at} == RECORDED.keys()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("command-not-found", "'serve-the-model' was not found in the image"),
        ("command-not-executable", "'/etc/not-executable' is not executable"),
        ("command-is-a-folder", "'/etc' is not executable"),
    ],
)
def test_the_sentences_are_dockers(name: str, words: str) -> None:
    failure = seen(RECORDED[name]).failure
    assert failure is not None
    assert words in failure.message


def test_where_a_running_one_is_reached() -> None:
    observed = seen(RECORDED["running"])
    assert observed.host is not None
    assert observed.host.startswith("10.244.")
    assert (observed.host_port, observed.node) == (8000, "node-1")


def changed(name: str, **status: Any) -> dict[str, Any]:
    pod = copy.deepcopy(RECORDED[name])
    pod["status"] |= status
    return pod


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (
            {"reason": "Evicted", "message": "The node was low on resource: memory. …"},
            "node_lost",
            "short of memory",
        ),
        (
            {"reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."},
            "node_lost",
            "short of disk space",
        ),
        (
            {"reason": "Evicted", "message": "The node had condition: [PIDPressure]. "},
            "node_lost",
            "short of processes",
        ),
        (
            {
                "reason": "Evicted",
                "message": "Pod ephemeral local storage usage exceeds the total limit of containers 8Mi. ",
            },
            "disk_full",
            "more to its disk",
        ),
        (
            {"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."},
            "node_lost",
            "shut down",
        ),
        (
            {
                "conditions": [
                    {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
                ]
            },
            "node_lost",
            "needed its place",
        ),
        (
            {
                "conditions": [
                    {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
                ]
            },
            "node_lost",
            "left the cluster",
        ),
    ],
)
def test_what_the_cluster_did_is_not_the_containers_fault(
    status: dict[str, Any], code: str, words: str
) -> None:
    observed = seen(changed("exited", phase="Failed", **status))
    assert observed.phase is EXITED
    assert observed.failure is not None
    assert (observed.failure.code, words in observed.failure.message) == (code, True)
    assert (Reason(code) in NOT_ITS_FAULT) is (code == "node_lost")
    assert "exceeds" not in observed.failure.message, "no word of the cluster's is repeated"


def test_a_second_start_is_an_end() -> None:
    pod = copy.deepcopy(RECORDED["running"])
    pod["status"]["containerStatuses"][0]["restartCount"] = 1
    observed = seen(pod)
    assert (observed.phase, observed.failure is not None and observed.failure.code) == (EXITED, "node_lost")


def test_what_a_node_said_before_it_fell_silent_is_old() -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    silent = NodeSeen("node-1", "uid", "arm64", False, since, True, (), None)
    assert seen(RECORDED["running"], node=silent).unreachable_since == since
    assert seen(RECORDED["exited"], node=silent).unreachable_since is None, "its end is known"
    assert seen(RECORDED["running"]).unreachable_since is None


def test_a_pull_whose_ticket_ended_is_begun_again() -> None:
    for name in ("pull-fails", "pull-waits", "no-pull-secret"):
        assert seen(RECORDED[name], ticket=TicketState()).phase is CREATED
        assert seen(RECORDED[name], ticket=TICKET).phase is PULLING


def test_a_pull_that_the_proxy_refused_has_its_reason() -> None:
    refused = Failure("image_too_large", "It is too large.")
    observed = seen(RECORDED["pull-waits"], ticket=TicketState(True, refused))
    assert observed.failure == refused


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("failed to extract layer: write /x: no space left on device", "disk_full"),
        (
            "failed to pull: no matching manifest for linux/arm64 in the manifest list",
            "image_architecture_mismatch",
        ),
        ("failed to extract layer sha256:0: archive/tar: invalid tar header", "image_not_found"),
        ("dial tcp 10.77.0.1:7421: connect: connection refused", None),
    ],
)
def test_what_a_node_says_of_a_pull(words: str, code: str | None) -> None:
    pod = copy.deepcopy(RECORDED["pull-fails"])
    pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"] = words
    failure = seen(pod).failure
    assert (failure.code if failure else None) == code


def test_a_pull_does_not_last_for_ever() -> None:
    assert seen(RECORDED["pull-waits"], after=timedelta(minutes=59)).failure is None
    failure = seen(RECORDED["pull-waits"], after=timedelta(minutes=61)).failure
    assert failure is not None
    assert failure.code == "pull_timeout"


def test_what_a_kubelet_cannot_make_is_said_once_it_lasts() -> None:
    pod = copy.deepcopy(RECORDED["pull-waits"])
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "rep-x" not found'}
    pod["status"]["containerStatuses"][0]["state"]["waiting"] = waiting
    assert seen(pod, after=timedelta(seconds=30)).failure is None
    failure = seen(pod, after=timedelta(seconds=90)).failure
    assert failure is not None
    assert failure.code == "engine_error"
    assert "secret" not in failure.message


@pytest.mark.parametrize(
    "name", ["running", "exited", "command-not-found", "disk-full", "rejected-by-kubelet"]
)
def test_whose_image_is_not_needed_any_more(name: str) -> None:
    assert has_begun(RECORDED[name])


@pytest.mark.parametrize("name", ["gated", "unschedulable", "pull-fails", "pull-waits"])
def test_whose_image_is(name: str) -> None:
    assert not has_begun(RECORDED[name])


def test_what_is_worth_a_look_has_another_fingerprint() -> None:
    prints = {name: fingerprint(pod)[1:] for name, pod in RECORDED.items()}
    different = ("running", "exited", "gated", "unschedulable", "pull-fails", "pull-waits", "disk-full")
    assert len({prints[name] for name in different}) == len(different)
    again = copy.deepcopy(RECORDED["running"])
    again["metadata"]["resourceVersion"] = "7"
    again["status"]["conditions"][0]["lastProbeTime"] = "2026-01-01T00:00:00Z"
    assert fingerprint(again) == fingerprint(RECORDED["running"])
