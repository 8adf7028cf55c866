"""Work in processes of its own, and its bounds."""

import asyncio
import os
import time

import pytest
import structlog.testing

from moorage.kit.errors import TooManyRequestsError, UnavailableError
from moorage.kit.jobs.jobs import MOST_WAITING, Jobs, JobTooLongError
from moorage.kit.priority import BEHIND
from moorage.kit.stalls.watchdog import Stalls, StallWatchdog


async def test_a_job_computes_elsewhere_and_gently() -> None:
    jobs = Jobs(1)
    assert await jobs.run("a", os.getpid) != os.getpid()
    assert await jobs.run("a", os.nice, 0) == BEHIND
    assert await jobs.run("a", os.getsid, 0) != os.getsid(0), "its niceness counts against everybody's"
    assert await jobs.run("a", os.getenv, "HOME") is None


async def test_the_loop_goes_on_meanwhile() -> None:
    watchdog = StallWatchdog()
    with watchdog.watching():
        # About half a second of the processor.
        assert await Jobs(1).run("a", sum, range(30_000_000)) > 0
        await asyncio.sleep(0.1)
        assert watchdog.take() == Stalls()


async def test_a_job_ends_with_its_budget() -> None:
    jobs = Jobs(1, budget_s=0.3)
    with pytest.raises(JobTooLongError):
        await jobs.run("a", time.sleep, 60)
    # And its place is free again.
    with pytest.raises(JobTooLongError):
        await jobs.run("a", sum, range(10**12))


async def test_a_job_that_fails_says_so_and_the_log_says_why() -> None:
    with structlog.testing.capture_logs() as logged, pytest.raises(UnavailableError):
        await Jobs(1).run("a", int, "no number")
    assert "no number" in logged[0]["said"]


async def test_one_for_each_owner_and_few_that_wait() -> None:
    jobs = Jobs(2, wait_s=20)
    long = [asyncio.create_task(jobs.run("greedy", time.sleep, 0.2)) for _ in range(MOST_WAITING + 1)]
    await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0.01)
    with pytest.raises(TooManyRequestsError):
        await jobs.run("greedy", abs, -1)
    assert await jobs.run("other", abs, -1) == 1
    assert not long[-1].done()
    await asyncio.gather(*long)
