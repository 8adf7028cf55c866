"""What each series of a container's metrics says. Pure. The handbook's page is printed from here; a test holds it to `series.py`."""

from moorage.telemetry.requests.figures import STATUS_CLASSES

CONTAINER_SERIES: dict[str, str] = {
    "replica_count": "Replicas that are ready.",
    "request_rate": "Requests per second.",
    "in_flight": "Requests that are being answered, on average over the step.",
    "queued": "Requests that wait for a replica, on average over the step.",
    "response_time_p50_ms": "Half of the answers were complete within this time.",
    "response_time_p95_ms": "95 of 100 answers were complete within this time.",
    "response_time_p99_ms": "99 of 100 answers were complete within this time.",
    "first_byte_p50_ms": "Half of the answers began within this time.",
    "first_byte_p95_ms": "95 of 100 answers began within this time.",
    **{
        f"responses_{status}": "Requests that ended without an answer."
        if status == "none"
        else f"Answers with a status of {status}."
        for status in STATUS_CLASSES
    },
}
