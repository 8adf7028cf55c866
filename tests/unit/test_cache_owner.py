"""Whose a cache is: which volume a replica gets on a machine that it shares with others'. tests/engine/test_docker_caches.py tries
it from inside, on a real engine."""

from dataclasses import replace
from typing import Any

import pytest

from moorage.engines.base import CacheSpec, ReplicaSpec
from moorage.engines.docker.create import cache_mount
from moorage.kit.ids import ContainerId, InstallationId, OrganizationId, ProjectId, ReplicaId

INSTALLATION = InstallationId("ins_own")
VICTIM = ReplicaSpec(
    replica_id=ReplicaId("rep_a"),
    container_id=ContainerId("ctr_a"),
    project_id=ProjectId("prj_a"),
    organization_id=OrganizationId("org_a"),
    slot=0,
    generation=1,
    image="sha256:00",
    command=None,
    environment={},
    port=8000,
    host_port=20000,
    vcpu_millis=1000,
    memory_bytes=1,
    disk_bytes=1,
    cache=CacheSpec(2**30),
)
VOLUME = cache_mount(VICTIM, INSTALLATION, "")["Source"]
ANOTHER: dict[str, Any] = {"container_id": ContainerId("ctr_b"), "organization_id": OrganizationId("org_b")}


@pytest.mark.parametrize(
    "changes",
    [
        {"replica_id": ReplicaId("rep_b")},
        {"slot": 1},
        {"generation": 2},
        {"image": "sha256:11"},
        {"environment": {"HF_HOME": "/elsewhere"}},
        {"cache": CacheSpec(2**40)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_its_replicas_and_its_later_starts_have_one(changes: dict[str, Any]) -> None:
    assert cache_mount(replace(VICTIM, **changes), INSTALLATION, "")["Source"] == VOLUME


@pytest.mark.parametrize(
    ("changes", "image_user", "installation"),
    [
        (ANOTHER, "", INSTALLATION),
        (ANOTHER, "0", INSTALLATION),
        (ANOTHER, "ctr_a", INSTALLATION),
        (ANOTHER, "/ctr_a/", INSTALLATION),
        (ANOTHER, "../ctr_a", INSTALLATION),
        (ANOTHER, f"{INSTALLATION}/ctr_a/", INSTALLATION),
        ({**ANOTHER, "replica_id": VICTIM.replica_id}, "", INSTALLATION),
        ({**ANOTHER, "image": VICTIM.image, "slot": 0, "generation": 1}, "", INSTALLATION),
        (
            {**ANOTHER, "environment": {"HF_HUB_CACHE": VOLUME, "MOORAGE_CONTAINER": "ctr_a"}},
            "",
            INSTALLATION,
        ),
        ({**ANOTHER, "project_id": ProjectId("prj_b")}, "", INSTALLATION),
        # Not another container of its own project either, nor of another installation on the same engine.
        ({"container_id": ContainerId("ctr_b")}, "", INSTALLATION),
        ({}, "", InstallationId("ins_other")),
        # Where nothing stays, not even the container's next start has it.
        ({"cache": CacheSpec(2**30, kept=False)}, "", INSTALLATION),
    ],
)
def test_nobody_else_has_it(changes: dict[str, Any], image_user: str, installation: InstallationId) -> None:
    assert cache_mount(replace(VICTIM, **changes), installation, image_user)["Source"] != VOLUME


def test_where_nothing_stays_each_replica_has_its_own() -> None:
    passing = replace(VICTIM, cache=CacheSpec(2**30, kept=False))
    other = replace(passing, replica_id=ReplicaId("rep_b"))
    names = {cache_mount(one, INSTALLATION, "")["Source"] for one in (passing, other, VICTIM)}
    assert len(names) == 3
