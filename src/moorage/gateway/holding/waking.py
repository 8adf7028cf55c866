"""What the holder asks of Postgres: that a container wakes, and why one does not."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.exc import NoResultFound

from moorage.containers.activity import SYSTEM
from moorage.containers.models import ContainerRow
from moorage.containers.sleep.service import wake
from moorage.containers.states import ContainerState, DesiredState
from moorage.gateway.holding.messages import Refusal
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.errors import (
    ConflictError,
    ForbiddenError,
    InsufficientCreditError,
    TooManyRequestsError,
)
from moorage.kit.settings import Settings

NOT_RUNNING = Refusal(
    503,
    "container_not_running",
    "The container is not running, or none of its replicas is ready.",
    retry_after_s=5,
)
GONE = Refusal(404, "not_found", "Invalid container ID or endpoint path", "not_found_error")


@dataclass(frozen=True)
class Waker:
    database: Database
    settings: Settings
    clock: Clock

    async def wake(self, container_id: str, key_id: str | None) -> Refusal | None:
        """None: it wakes, or is awake. Raises when Postgres does not say."""
        try:
            async with self.database.transaction() as session:
                await wake(
                    session,
                    container_id,
                    key_id or SYSTEM,
                    by_request=True,
                    settings=self.settings,
                    clock=self.clock,
                )
        except InsufficientCreditError as exc:
            return Refusal(402, exc.code, f"The container is asleep. {exc.message}", "insufficient_quota")
        except TooManyRequestsError as exc:
            return Refusal(503, exc.code, exc.message, retry_after_s=exc.retry_after_s)
        except ForbiddenError as exc:
            return Refusal(403, exc.code, exc.message, "permission_error")
        except ConflictError as exc:
            return Refusal(503, exc.code, exc.message, retry_after_s=5)
        except NoResultFound:
            return GONE
        return None

    async def why_not(self, container_id: str) -> Refusal:
        """Of one that nobody is held for any more, and that does not serve."""
        row = ContainerRow
        query = select(row.state, row.desired_state, row.reason, row.message).where(
            row.id == container_id, row.deleted_at.is_(None)
        )
        async with self.database.reading() as session:
            found = (await session.execute(query)).one_or_none()
        if found is None:
            return GONE
        if found.desired_state != DesiredState.RUNNING or not found.reason:
            return NOT_RUNNING
        failed = found.state == ContainerState.FAILED
        beginning = "The container failed to wake." if failed else "The container does not serve yet."
        return Refusal(503, found.reason, f"{beginning} {found.message or ''}".strip(), retry_after_s=5)
