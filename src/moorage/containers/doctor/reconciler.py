"""The doctor reconciler.

Purpose: whoever asks gets a look at a container's network from inside one of its replicas.
Invariants: each question is answered once, under the lease; nothing inside the replica is run; no transaction is open
while the engine looks.
When it fails: the diagnosis says so. It is not tried again by itself: whoever asked is still there to ask again.
"""

import ipaddress
from dataclasses import asdict, dataclass

from moorage.containers.activity import SYSTEM, record_activity
from moorage.containers.channels import DOCTOR
from moorage.containers.doctor import repository
from moorage.containers.doctor.schemas import Findings
from moorage.containers.doctor.words import EGRESS, NO_REPLICA, summary
from moorage.engines.diagnosis import Destination, NetworkQuestions
from moorage.engines.engines import Engines
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.kit.settings import Settings
from moorage.outbound.networks import METADATA_SERVICE, PRIVATE
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease

FORBIDDEN = (
    Destination(METADATA_SERVICE, 80),
    *(Destination(str(ipaddress.ip_network(network)[1]), 80) for network in PRIVATE),
)
"""A cloud's metadata service, and one address of each private network."""
_BROKEN = "The network could not be tested. Ask again. If that does not help, the operator's log says why."


@dataclass
class Doctor:
    database: Database
    engines: Engines
    settings: Settings
    name: str = "doctor"
    channels: tuple[str, ...] = (DOCTOR,)

    async def due(self, limit: int) -> Due:
        async with self.database.reading() as session:
            return Due(await repository.list_asked(session, limit), None)

    async def reconcile(self, key: str, lease: Lease) -> None:
        async with self.database.reading() as session:
            container = await repository.container_of(session, key)
            replica = await repository.running_replica(session, key)
        if replica is None or replica.engine_id is None:
            await self._finish(key, lease, NO_REPLICA)
            return
        lease.check()
        try:
            engine = self.engines.of(replica.engine)
            found = await engine.diagnose_network(replica.engine_id, self._questions())
            listening = await engine.listening_sockets(replica.engine_id)
        except EngineError as exc:
            gone = exc.code == "replica_gone"
            await self._finish(key, lease, NO_REPLICA if gone else exc.message, replica.id, replica.node)
            return
        findings = Findings.model_validate(
            {**asdict(found), "listening": [asdict(one) for one in listening], "egress": EGRESS}
        )
        message = summary(found, listening, container.port)
        await self._finish(key, lease, message, replica.id, replica.node, findings)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        await self._finish(key, lease, _BROKEN)

    async def lead(self, lease: Lease) -> None:
        return None

    def _questions(self) -> NetworkQuestions:
        address, _, port = self.settings.doctor_target.rpartition(":")
        return NetworkQuestions(
            names=(self.settings.doctor_name,),
            outbound=(Destination(address, int(port)),),
            forbidden=FORBIDDEN,
        )

    async def _finish(
        self,
        key: str,
        lease: Lease,
        message: str,
        replica_id: str | None = None,
        node: str | None = None,
        findings: Findings | None = None,
    ) -> None:
        found = findings.model_dump(mode="json") if findings is not None else None
        async with self.database.transaction() as session:
            await lease.guard(session)
            finished = await repository.finish(
                session,
                key,
                state="done" if findings is not None else "failed",
                message=message,
                replica_id=replica_id,
                node=node,
                findings=found,
            )
            if finished:
                container = await repository.container_of(session, key)
                record_activity(
                    session,
                    project_id=container.project_id,
                    container_id=key,
                    actor=SYSTEM,
                    kind="container.diagnosed",
                    message=message,
                    details={"replica_id": replica_id, "findings": found},
                )
