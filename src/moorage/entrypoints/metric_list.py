"""Every metric of `/metrics`, by name. The handbook's page is printed from here."""

from moorage.kit.exposition import Metric

BUILD_INFO = Metric("moorage_build_info", "gauge", "The version that runs.", ("version",))
API_REQUESTS = Metric(
    "moorage_api_requests_total",
    "counter",
    "Requests to the management API.",
    ("method", "route", "status"),
)
API_REQUEST_SECONDS = Metric(
    "moorage_api_request_seconds",
    "histogram",
    "Time until an answer of the management API began.",
    ("le",),
)
RECONCILER_AGE = Metric(
    "moorage_reconciler_age_seconds", "gauge", "Time since a reconciler last ran.", ("reconciler",)
)
RECONCILER_FAILURES = Metric(
    "moorage_reconciler_failures",
    "gauge",
    "Consecutive failed rounds of a reconciler.",
    ("reconciler",),
)
RECONCILER_OBJECTS_FAILING = Metric(
    "moorage_reconciler_objects_failing", "gauge", "Objects whose last pass failed.", ("reconciler",)
)
CONTAINERS_ASLEEP = Metric(
    "moorage_containers_asleep",
    "gauge",
    "Containers that sleep, and containers that were woken but do not serve yet.",
    ("is",),
)
LEASE_LEFT = Metric("moorage_lease_left_seconds", "gauge", "Time until a lease ends.", ("lease",))
LOOP_STALLS = Metric(
    "moorage_loop_stalls_total",
    "counter",
    "Number of times that an event loop was blocked for more than 50 ms.",
    ("role", "host"),
)
LOOP_STALL_LONGEST = Metric(
    "moorage_loop_stall_longest_seconds",
    "gauge",
    "Processor time of the longest of them, and where it was.",
    ("role", "host", "where"),
)
WAITING = Metric("moorage_waiting", "gauge", "Work that is due and not done yet.", ("queue",))
CONTAINERS = Metric("moorage_containers", "gauge", "Containers by state.", ("state",))
REPLICAS = Metric("moorage_replicas", "gauge", "Replicas by state.", ("state",))
GATEWAY_ALIVE = Metric("moorage_gateway_alive", "gauge", "Whether a gateway reports.", ("gateway",))
GATEWAY_SERVERS = Metric("moorage_gateway_servers", "gauge", "Replicas at a gateway.", ("gateway",))
GATEWAY_IN_FLIGHT = Metric("moorage_gateway_in_flight", "gauge", "Requests at a gateway.", ("gateway",))
NODE_READY = Metric(
    "moorage_node_ready",
    "gauge",
    "Whether a machine answers. Recorded only where another machine could take its place.",
    ("node",),
)
NODE_CPU = Metric("moorage_node_cpu_millis", "gauge", "What a machine has.", ("node",))
NODE_MEMORY = Metric("moorage_node_memory_bytes", "gauge", "What a machine has.", ("node",))
NODE_GPUS = Metric("moorage_node_gpus", "gauge", "What a machine has.", ("node",))
LOG_BYTES = Metric("moorage_log_bytes", "gauge", "Of the containers whose output takes most.", ("container",))
STORED_BYTES = Metric("moorage_stored_bytes", "gauge", "Size in the database.", ("table",))

METRICS = (
    BUILD_INFO,
    API_REQUESTS,
    API_REQUEST_SECONDS,
    RECONCILER_AGE,
    RECONCILER_FAILURES,
    RECONCILER_OBJECTS_FAILING,
    CONTAINERS_ASLEEP,
    LEASE_LEFT,
    LOOP_STALLS,
    LOOP_STALL_LONGEST,
    WAITING,
    CONTAINERS,
    REPLICAS,
    GATEWAY_ALIVE,
    GATEWAY_SERVERS,
    GATEWAY_IN_FLIGHT,
    NODE_READY,
    NODE_CPU,
    NODE_MEMORY,
    NODE_GPUS,
    LOG_BYTES,
    STORED_BYTES,
)
