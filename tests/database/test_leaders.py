"""A stopped leader does nothing: two real controllers, SIGSTOP, SIGCONT, SIGKILL, and restarts of Postgres.

`make prove-leaders ROUNDS=200 SEED=7` plays as many rounds as one likes.
"""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from leaders_engine import Call, StandIn, When
from leaders_rounds import MOMENTS, TAKEOVER_S, Rounds
from leaders_support import cluster
from reconciler_support import NEXT_LIFE_SQL
from sqlalchemy import text

from moorage.engines.base import ReplicaSpec
from moorage.engines.docker.engine import DockerEngine
from moorage.entrypoints.migrate import migrate
from moorage.kit.clock import SystemClock, system_clock
from moorage.kit.database import Database
from moorage.kit.errors import LeaseLostError
from moorage.kit.home import prepare_home
from moorage.kit.ids import ContainerId, InstallationId, OrganizationId, ProjectId, ReplicaId
from moorage.kit.permission import permitted_by
from moorage.kit.postgres import EmbeddedPostgres
from moorage.kit.settings import Settings
from moorage.reconcile.lease import Lease, LeaseKeeper
from tests.folders import folder_for_a_database
from tests.registry.own_network import in_own_network

ROUNDS = int(os.environ.get("ROUNDS", "4"))
SEED = int(os.environ.get("SEED", "1"))


@pytest.fixture
def folder() -> Iterator[Path]:
    made = folder_for_a_database()
    yield made
    shutil.rmtree(made)


@pytest.mark.long
async def test_a_process_stopped_in_a_transaction_is_overtaken_and_writes_nothing(database: Database) -> None:
    command = [sys.executable, str(Path(__file__).with_name("leader_process.py")), database.dsn]
    old = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert old.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await old.stdout.readline() == b"guarded\n"
            old.send_signal(signal.SIGSTOP)
            async with database.transaction() as session:  # What ten seconds of silence would do.
                await session.execute(NEXT_LIFE_SQL)
            began_s = system_clock.monotonic()
            new = await LeaseKeeper(database, "work", "new", system_clock).acquire()
            took_s = system_clock.monotonic() - began_s
            assert new is not None
            old.send_signal(signal.SIGCONT)
            said, _ = await old.communicate(b"\n")
    finally:
        if old.returncode is None:
            old.kill()
            await old.wait()
    assert said.split(b"\n")[:-1] == [b"undone", b"refused", b"not renewed"]
    async with database.reading() as session:
        assert (await session.execute(text("SELECT count(*) FROM gateways"))).scalar_one() == 0
    print(f"\ntaken over {took_s:.1f} s after the lease ran out, from a process stopped in a transaction")


@pytest.mark.proof
@pytest.mark.timeout(ROUNDS * 90 + 120)
def test_rounds_of_stopped_leaders(folder: Path) -> None:
    settings = Settings(home=folder)
    prepare_home(settings)
    server = EmbeddedPostgres(settings, options=("max_connections=100",))

    async def story() -> None:
        await server.start()
        try:
            await migrate(server.dsn)
            async with cluster(server.dsn, folder) as controllers:
                await Rounds(controllers, random.Random(SEED), server).play(ROUNDS)
                print(f"\nseed {SEED}: {await controllers.told()}")
                assert len(controllers.figures.takeovers_s) == ROUNDS
                assert max(controllers.figures.all_leases_s) <= TAKEOVER_S
                if len(MOMENTS) <= ROUNDS:
                    assert len(controllers.figures.happened) > len(set(MOMENTS))
        finally:
            await server.stop()

    in_own_network(story, limit_s=ROUNDS * 90 + 60)


async def test_a_start_that_outlives_its_lease_goes_no_further(short_folder: Path) -> None:
    """It takes several requests. Between two of them the process stands still for a minute, and somebody else decides that the
    replica is to go: it must not be started after all."""

    class Standing(SystemClock):
        stood_still_s = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.stood_still_s

    clock, engine_process = Standing(), StandIn()

    async def stand_still(call: Call, when: When) -> None:
        if (call.what, when) == ("create", "after"):
            clock.stood_still_s = 60.0

    engine_process.on_call = stand_still
    lease = Lease("containers", 1, clock.monotonic() + 10, clock)
    engine = DockerEngine(
        f"unix://{short_folder}/engine.sock",
        InstallationId("ins_test"),
        system_clock,
        isolation_required=False,
    )
    async with engine_process.serving(short_folder / "engine.sock"):
        try:
            with permitted_by(lease.check), pytest.raises(LeaseLostError):
                await engine.start(_spec())
        finally:
            await engine.close()
        assert [call.what for call in engine_process.calls if call.what != "network"] == ["create"]
        assert engine_process.running() == []


def test_a_lease_runs_out_while_the_machine_sleeps() -> None:
    """Shown in a time namespace, where the clock that goes on then is ahead of the one that does not, as after a sleep."""
    program = "import time; from moorage.kit.clock import system_clock; print(system_clock.monotonic() - time.monotonic())"
    command = ["unshare", "--time", "--boottime", "1000", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert float(done.stdout) > 999


def _spec() -> ReplicaSpec:
    return ReplicaSpec(
        replica_id=ReplicaId("rep_test"),
        container_id=ContainerId("con_test"),
        project_id=ProjectId("prj_test"),
        organization_id=OrganizationId("org_test"),
        slot=0,
        generation=1,
        image="sha256:" + "0" * 64,
        command=None,
        environment={},
        port=8000,
        host_port=14000,
        vcpu_millis=100,
        memory_bytes=2**20,
        disk_bytes=2**20,
    )
