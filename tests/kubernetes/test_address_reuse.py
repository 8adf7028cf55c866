"""No request reaches another tenant's Pod because it got the address of one that has gone."""

from pathlib import Path

import pytest

from tests.kubernetes.address_reuse import pods_come_and_go


@pytest.mark.long
async def test_with_doors_nothing_reaches_a_foreign_pod(certificate: Path, tmp_path: Path) -> None:
    outcome = await pods_come_and_go(certificate, tmp_path, pods=24, cut_off_for=8, doors=True)
    assert outcome.reused > 0, "the story is about reused addresses"
    assert outcome.own > 0
    assert outcome.foreign == 0, str(outcome)


@pytest.mark.long
async def test_without_doors_requests_reach_foreign_pods(certificate: Path, tmp_path: Path) -> None:
    """The same story, so that the one above shows something."""
    outcome = await pods_come_and_go(certificate, tmp_path, pods=24, cut_off_for=8, doors=False)
    assert outcome.foreign > 0, str(outcome)


@pytest.mark.proof
@pytest.mark.timeout(1800)
async def test_a_thousand_pods(certificate: Path, tmp_path: Path) -> None:
    outcome = await pods_come_and_go(certificate, tmp_path, pods=1000, cut_off_for=20, doors=True)
    print(outcome)
    assert outcome.pods >= 1000
    assert outcome.reused >= 200, str(outcome)
    assert outcome.own >= 1000, str(outcome)
    assert outcome.foreign == 0, str(outcome)


@pytest.mark.proof
@pytest.mark.timeout(1800)
async def test_a_thousand_pods_without_doors(certificate: Path, tmp_path: Path) -> None:
    outcome = await pods_come_and_go(certificate, tmp_path, pods=1000, cut_off_for=20, doors=False)
    print(outcome)
    assert outcome.foreign > 0, str(outcome)
