"""An installation whose controller and gateway run, as their rows say it: for pictures. Nothing runs there."""

from moorage.entrypoints.reconcilers import RECONCILERS
from tests.browser.world import World


def run_roles(world: World) -> None:
    world.do(
        world.api.execute(
            "INSERT INTO reconciler_status (name, holder, last_run_at, last_success_at, consecutive_failures, "
            "objects_failing) SELECT name, 'node-03', now(), now(), 0, 0 FROM unnest(CAST(:names AS text[])) name",
            names=sorted(RECONCILERS),
        )
    )
    world.do(
        world.api.execute(
            "INSERT INTO gateways (id, started_at, seen_at) VALUES ('gtw_test', now() - interval '40 days', now())"
        )
    )
    world.do(
        world.api.execute(
            "INSERT INTO replica_routes (gateway_id, replica_id, draining, in_flight, changed_at) "
            "SELECT 'gtw_test', id, false, 0, routed_at FROM replicas WHERE state = 'routed'"
        )
    )
