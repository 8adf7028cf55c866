"""Mistakes about what people ask for."""

from typing import Any

from moorage.autoscaling import service as autoscaling_service
from moorage.containers import scaling, service
from moorage.containers.spec import ContainerSettings
from tests.simulation.planted.bug import Bug, Patch


def _deleted_can_be_started(patch: Patch) -> None:
    patch(service, "refuse_deleted", lambda _: None)


def _a_taken_name_is_our_error(patch: Patch) -> None:
    async def flush(session: Any, _: str) -> None:
        await session.flush()

    patch(service, "_flush_with_name", flush)


def _the_draft_wins_over_scaling(patch: Patch) -> None:
    """Of the two sets of settings during a trial only one is scaled."""

    def put_one(row: Any, sent: Any) -> None:
        scaled = scaling.laid_over(ContainerSettings.from_json(row.settings), sent)
        row.settings, row.desired_replicas = scaled.to_json(), scaling._within(scaled, row.desired_replicas)

    patch(autoscaling_service, "put_scaling", put_one)


BUGS = (
    Bug(
        "what is deleted can be started",
        ("deleted stays deleted",),
        _deleted_can_be_started,
        needs=("what was deleted is touched",),
    ),
    Bug(
        "a name that is taken is an error of ours",
        ("no request crashes",),
        _a_taken_name_is_our_error,
        needs=("a name that is taken",),
    ),
    Bug(
        "a draft wins over scaling",
        ("what was asked last wins",),
        _the_draft_wins_over_scaling,
        needs=("scaling meets a draft",),
    ),
)
