"""What the API takes and answers. Generated from the API's description by `python -m moorage.entrypoints.description.write`."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class Activity(TypedDict):
    id: str
    at: str
    actor: str
    kind: str
    reason: str | None
    message: str | None
    details: dict[str, Any]


class Alive(TypedDict):
    status: NotRequired[Literal["ok"]]

AmountChange = TypedDict("AmountChange", {
    "from": "int",
    "to": "int",
})


class Amounts(TypedDict):
    cpu_millis: int
    memory_bytes: int
    gpus: int


class ApiKey(TypedDict):
    id: str
    project_id: str
    name: str
    scope: Literal["inference", "manage"]
    hint: str
    status: Literal["active", "disabled", "expired", "revoked"]
    message: str | None
    created_by: str | None
    created_at: str
    expires_at: str | None
    disabled_at: str | None
    revoked_at: str | None
    replaces: str | None
    requests_per_minute: int | None
    last_used_at: str | None
    last_used_from: str | None


class ApiKeyCreate(TypedDict):
    name: NotRequired[str]
    scope: NotRequired[Literal["inference", "manage"]]
    expires_at: NotRequired[str | None]
    requests_per_minute: NotRequired[int | None]


class ApiKeyCreated(TypedDict):
    id: str
    project_id: str
    name: str
    scope: Literal["inference", "manage"]
    hint: str
    status: Literal["active", "disabled", "expired", "revoked"]
    message: str | None
    created_by: str | None
    created_at: str
    expires_at: str | None
    disabled_at: str | None
    revoked_at: str | None
    replaces: str | None
    requests_per_minute: int | None
    last_used_at: str | None
    last_used_from: str | None
    key: str


class ApiKeyPatch(TypedDict):
    name: NotRequired[str]
    disabled: NotRequired[bool]
    expires_at: NotRequired[str | None]
    requests_per_minute: NotRequired[int | None]


class ApiKeyRotate(TypedDict):
    overlap_s: NotRequired[int]

ApiPath: TypeAlias = Literal["/api/v1", "/v1"]


class ApplyRequest(TypedDict):
    strategy: NotRequired[Strategy]
    share: NotRequired[int | None]
    promote_after_s: NotRequired[int | None]


class AttemptFinding(TypedDict):
    address: str
    port: int
    outcome: EnginesDiagnosisOutcome


class AuditRecord(TypedDict):
    id: str
    at: str
    actor: str
    actor_email: str | None
    actor_name: str | None
    action: str
    target: str
    details: dict[str, Any]


class AutoTopUp(TypedDict):
    state: Literal["off", "on", "waiting", "paused", "capped", "no_card", "suspended"]
    message: str
    threshold_microusd: NotRequired[int | None]
    amount_microusd: NotRequired[int | None]
    monthly_cap_microusd: NotRequired[int | None]
    charged_this_month_microusd: NotRequired[int]
    tries_again_at: NotRequired[str | None]


class AutoTopUpChange(TypedDict):
    threshold_microusd: int
    amount_microusd: int
    monthly_cap_microusd: int


class Autoscaling(TypedDict):
    policy: ScalingPolicy | None
    replicas: ScalingState
    items: list[AutoscalingDecision]
    next_cursor: str | None


class AutoscalingDecision(TypedDict):
    at: str
    replicas_before: int
    replicas: int
    wanted: int
    limited_by: str | None
    reason: str
    inputs: dict[str, Any]


class AutoscalingResources(TypedDict):
    mode: Literal["autoscaling"]
    instance_type: str
    min_replicas: int
    max_replicas: int
    target_concurrency: NotRequired[int]
    scale_down_delay_s: NotRequired[int]


class BalanceHistory(TypedDict):
    first: str
    last: str
    items: list[DayBalance]


class Ban(TypedDict):
    reason: NotRequired[str | None]


class Billing(TypedDict):
    balance_microusd: int
    available_microusd: int
    held_microusd: int
    burn_per_hour_microusd: int
    burn_maximum_per_hour_microusd: int
    runs_out_at: str | None
    forecast: str
    suspended: bool
    initial_credit: str | None
    payment_methods: list[Literal["card", "bank_transfer_local", "bank_transfer_international"]]
    payment_contact: str


class BillingDetails(TypedDict):
    name: str
    address: str
    tax_id: str


class BillingDetailsPatch(TypedDict):
    name: NotRequired[str]
    address: NotRequired[str]
    tax_id: NotRequired[str]


class BillingDocument(TypedDict):
    kind: Literal["invoice", "receipt", "statement"]
    number: str | None
    dated: str
    issued_at: str | None
    seller: BillingDetails
    buyer: BillingDetails
    lines: list[DocumentLine]
    total_microusd: int
    note: str


class Cache(TypedDict):
    id: str
    project_id: str
    container_id: str
    container_name: str
    node: str
    size_bytes: int
    compiled_bytes: int
    limit_bytes: int | None
    in_use: bool
    created_at: str
    used_at: str
    measured_at: str | None
    deleting: bool


class CacheSettings(TypedDict):
    size_gib: int


class CanaryRequest(TypedDict):
    share: int
    promote_after_s: NotRequired[int | None]


class Capsule(TypedDict):
    reason: str | None
    message: str | None
    exit_code: int | None
    slot: int
    generation: int
    image: str
    image_digest: str | None
    node: str
    gpu_device_ids: list[str]
    gpus: list[dict[str, str | int | None]]
    created_at: str
    started_at: str | None
    ready_at: str | None
    ended_at: str | None
    probes: list[ProbeRun]
    last_lines: list[LastLine]
    replica_id: str
    container_id: str
    written_at: str


class CardPage(TypedDict):
    checkout_url: str

ChangeRead = TypedDict("ChangeRead", {
    "field": "str",
    "from": "int | str | None",
    "to": "int | str | None",
})


class CodeSent(TypedDict):
    message: str


class Container(TypedDict):
    id: str
    project_id: str
    name: str
    state: ContainerState
    state_since: str
    reason: str | None
    message: str | None
    fix: FixRead | None
    endpoint_url: str
    replicas: ReplicaCounts
    progress: dict[str, Any] | None
    generation: int
    created_at: str
    category: str | None
    image: str
    image_digest: str | None
    registry: RegistryRead
    resources: GeneralResources | AutoscalingResources
    start_command: str | None
    port: int | None
    health_check: HealthCheck
    limits: EndpointLimits
    env: dict[str, None]
    plain_env: dict[str, str]
    api_path: ApiPath
    infrastructure: str
    accept_exposure: bool
    sleep_after_s: int | None
    asleep: bool
    asleep_since: str | None
    woken_at: str | None
    cache: CacheSettings | None
    price_per_hour_microusd: int
    least_price_per_hour_microusd: int
    draft: DraftSummary | None
    version: int
    rollout: RolloutRead | None


class ContainerCreate(TypedDict):
    name: str
    category: NotRequired[str | None]
    image: str
    registry: NotRequired[RegistryWrite]
    resources: GeneralResources | AutoscalingResources
    start_command: NotRequired[str | None]
    port: NotRequired[int | None]
    health_check: NotRequired[HealthCheck]
    limits: NotRequired[EndpointLimits]
    env: NotRequired[dict[str, str]]
    plain_env: NotRequired[dict[str, str]]
    api_path: NotRequired[ApiPath]
    infrastructure: NotRequired[Literal["operator", "community", "any"]]
    accept_exposure: NotRequired[bool]
    sleep_after_s: NotRequired[int | None]
    cache: NotRequired[CacheSettings | None]


class ContainerLogs(TypedDict):
    container_id: str
    project_id: str | None
    name: str | None
    bytes: int
    lines: int
    dropped_lines: int
    since: str


class ContainerPatch(TypedDict):
    category: NotRequired[str | None]
    image: NotRequired[str]
    registry: NotRequired[RegistryWrite]
    resources: NotRequired[GeneralResources | AutoscalingResources]
    start_command: NotRequired[str | None]
    port: NotRequired[int | None]
    health_check: NotRequired[HealthCheck]
    limits: NotRequired[EndpointLimits]
    env: NotRequired[dict[str, str | None]]
    plain_env: NotRequired[dict[str, str | None]]
    api_path: NotRequired[ApiPath]
    infrastructure: NotRequired[Literal["operator", "community", "any"]]
    accept_exposure: NotRequired[bool]
    sleep_after_s: NotRequired[int | None]
    cache: NotRequired[CacheSettings | None]
    name: NotRequired[str]

ContainerState: TypeAlias = Literal["PENDING", "PULLING", "STARTING", "RUNNING", "STOPPING", "STOPPED", "FAILED", "DELETING"]


class Cost(TypedDict):
    from_time: str
    to_time: str
    hours: int
    spent_microusd: int
    idle_hours: int
    idle_microusd: int
    requests: int
    per_request_microusd: int | None
    keys: list[KeyCost]


class Credit(TypedDict):
    id: str
    at: str
    organization_id: str
    amount_microusd: int
    reason: str


class CreditCreate(TypedDict):
    organization_id: str
    amount_microusd: int
    reason: str


class DayBalance(TypedDict):
    day: str
    balance_microusd: int


class DaySpend(TypedDict):
    day: str
    amount_microusd: int


class Decision(TypedDict):
    answer: NotRequired[str | None]


class DeletionObstacle(TypedDict):
    code: Literal["suspended", "containers", "machines", "earnings", "payout_requested", "owed", "payment_under_way", "saved_card"]
    message: str


class Delivery(TypedDict):
    id: str
    event: str
    payload: dict[str, Any]
    created_at: str
    delivered_at: str | None
    next_try_at: str | None
    tries: int
    status: int | None
    error: str | None


class DeviceAnswer(TypedDict):
    status: Literal["pending", "approved"]
    signed_in: NotRequired[SignedIn | None]


class DeviceDecision(TypedDict):
    approve: bool


class DeviceStart(TypedDict):
    client_name: NotRequired[str]


class DeviceStarted(TypedDict):
    device_code: str
    user_code: str
    verification_url: str
    interval_s: int
    expires_in_s: int


class DeviceToken(TypedDict):
    device_code: str


class DeviceWaiting(TypedDict):
    user_code: str
    client_name: str


class Diagnosis(TypedDict):
    state: Literal["never_asked", "asked", "done", "failed"]
    asked_at: NotRequired[str | None]
    asked_by: NotRequired[str | None]
    finished_at: NotRequired[str | None]
    replica_id: NotRequired[str | None]
    node: NotRequired[str | None]
    message: NotRequired[str | None]
    findings: NotRequired[Findings | None]


class DocumentLine(TypedDict):
    description: str
    hours: int | None
    price_per_hour_microusd: int | None
    amount_microusd: int


class DoubtRead(TypedDict):
    node: str
    since: str
    missing: int
    expected: int
    gone_at: str | None


class Draft(TypedDict):
    saved_at: str | None
    saved_by: str | None
    applying: bool
    failure: TrialFailure | None
    changes: list[ChangeRead]
    price_per_hour_microusd: AmountChange
    least_cost_per_hour_microusd: AmountChange
    rolling: RollingNeeds
    replace_cost_microusd: int


class DraftSummary(TypedDict):
    saved_at: str | None
    saved_by: str | None
    applying: bool
    failure: TrialFailure | None


class EarningEntry(TypedDict):
    id: str
    at: str
    kind: Literal["earning", "earning_reversed", "earning_restored", "payout"]
    amount_microusd: int
    description: str
    machine_id: str | None
    machine_name: str | None


class Earnings(TypedDict):
    held_microusd: int
    payable_microusd: int
    requested_microusd: int
    paid_microusd: int
    owed_microusd: int
    next_payable_at: str | None
    share_percent: int
    least_payout_microusd: int
    entries: list[EarningEntry]
    next_cursor: NotRequired[str | None]


class EarningsVoid(TypedDict):
    reason: str


class EmailStart(TypedDict):
    email: str


class EmailVerify(TypedDict):
    email: str
    code: str

Ending: TypeAlias = Literal["completed", "client_left", "client_timeout", "container_closed_connection", "container_timeout", "container_unreachable", "queue_timeout", "refused", "cut_off", "gateway_failed"]


class EndpointLimits(TypedDict):
    max_body_bytes: NotRequired[int]
    request_timeout_s: NotRequired[int]
    idle_timeout_s: NotRequired[int]
    max_concurrency: NotRequired[int]
    retry_unanswered: NotRequired[bool]


class Facts(TypedDict):
    architecture: str
    kernel: str
    system: str
    cpus: int
    memory_bytes: int
    disk_free_bytes: int
    gpus: NotRequired[list[str]]
    gpu_uuids: NotRequired[list[str]]
    docker: NotRequired[str | None]
    runtime: NotRequired[Literal["runsc"] | None]


class Findings(TypedDict):
    resolvers: list[str]
    upstream_resolvers: list[str]
    names: list[NameFinding]
    outbound: list[AttemptFinding]
    forbidden: list[AttemptFinding]
    listening: list[SocketFinding]
    egress: str


class FitRead(TypedDict):
    instance_type: str
    gpu_model: str | None
    gpu_count: int
    price_per_hour_microusd: int
    infrastructure: str
    fits: bool
    reason: str | None
    obstacle: str | None
    memory: MemoryRead | None
    total_bytes: int | None
    usable_bytes: int | None
    free_bytes: int | None
    longest_context_tokens: int | None
    available: bool
    free: int
    capacity: int
    settings: ServerSettingsRead | None
    start: StartRead | None

FixRead = TypedDict("FixRead", {
    "field": "str",
    "from": "int | str",
    "to": "int | str",
})


class Found(TypedDict):
    kind: Literal["organization", "user", "container", "machine", "request"]
    id: str
    name: str
    organization_id: str | None
    organization_name: str | None


class GatewayStatus(TypedDict):
    id: str
    seen_at: str
    alive: bool
    servers: int


class GeneralResources(TypedDict):
    mode: NotRequired[Literal["general"]]
    instance_type: str


class GpuDevice(TypedDict):
    device_id: str
    model: str
    memory_bytes: int | None
    unusable_because: NotRequired[str | None]

GpuHandover: TypeAlias = Literal["runtime", "cdi", "direct", "none"]


class GpuMetrics(TypedDict):
    device_id: str
    series: dict[str, list[float | None]]


class GpuRead(TypedDict):
    device_id: str
    model: str
    memory_bytes: int | None
    in_use: bool
    unusable_because: str | None


class Health(TypedDict):
    state: State
    parts: list[PartRead]


class HealthCheck(TypedDict):
    path: NotRequired[str | None]
    timeout_s: NotRequired[int]


class HostFinding(TypedDict):
    code: str
    message: str
    command: str
    broken: bool


class HostFindingRead(TypedDict):
    code: str
    message: str
    command: str
    broken: bool


class HubRead(TypedDict):
    id: str
    address: str
    public_key: str
    endpoint: str


class Identities(TypedDict):
    items: list[Identity]


class Identity(TypedDict):
    title: str
    email: str
    linked_at: str


class InstallationStatus(TypedDict):
    version: str
    reconcilers: list[ReconcilerStatus]
    gateways: list[GatewayStatus]
    nodes: list[NodeCapacity]
    containers: dict[str, int]


class InstanceTypePatch(TypedDict):
    price_per_hour_microusd: NotRequired[int | None]
    enabled: NotRequired[bool | None]


class InstanceTypeProposal(TypedDict):
    name: str
    gpu_model: str
    gpu_count: int
    vcpu_millis: int
    memory_bytes: int
    disk_bytes: int
    price_per_hour_microusd: int | None
    infrastructure: str
    because: str


class InstanceTypeRead(TypedDict):
    name: str
    gpu_model: str | None
    gpu_count: int
    gpu_memory_bytes: int | None
    vcpu_millis: int
    memory_bytes: int
    disk_bytes: int
    price_per_hour_microusd: int
    infrastructure: str
    enabled: bool
    available: bool
    free: int
    capacity: int
    unavailable_reason: str | None
    sibling: str | None


class InstanceTypeWrite(TypedDict):
    name: str
    gpu_model: NotRequired[str | None]
    gpu_count: NotRequired[int]
    vcpu_millis: int
    memory_bytes: int
    disk_bytes: NotRequired[int]
    price_per_hour_microusd: int
    infrastructure: NotRequired[Literal["operator", "community"]]
    enabled: NotRequired[bool]

Intake: TypeAlias = Literal["open", "cordoned", "draining"]


class Invitation(TypedDict):
    id: str
    email: str
    role: Literal["admin", "user"]
    project_id: str | None
    invited_by: str
    state: Literal["pending", "expired"]
    created_at: str
    expires_at: str


class InvitationAccepted(TypedDict):
    organization_id: str
    project_id: str | None


class InvitationCreate(TypedDict):
    email: str
    role: NotRequired[Literal["admin", "user"]]
    project_id: NotRequired[str | None]


class InvitationForMe(TypedDict):
    organization_name: str
    project_name: str | None
    role: Literal["admin", "user"]
    invited_by: str
    expires_at: str


class InvoiceList(TypedDict):
    items: list[InvoiceSummary]


class InvoiceSummary(TypedDict):
    month: str
    state: Literal["open", "issued"]
    number: str | None
    issued_at: str | None
    total_microusd: int


class Join(TypedDict):
    token: str
    hostname: str
    public_key: str
    credential: str
    secret: str
    facts: Facts


class KeyCost(TypedDict):
    key_id: str | None
    name: str | None
    hint: str | None
    requests: int
    cost_microusd: int


class LastLine(TypedDict):
    time: str
    stream: LineStream
    text: str


class LedgerEntry(TypedDict):
    id: str
    at: str
    kind: str
    amount_microusd: int
    description: str
    details: dict[str, Any]
    project_name: str | None
    container_name: str | None
    balance_after_microusd: int | None


class LentMachine(TypedDict):
    gpus: list[str]
    tier: Tier
    reliability: float


class LentMachineWish(TypedDict):
    infrastructure: NotRequired[Literal["community"]]
    name: NotRequired[str | None]


class LimitChange(TypedDict):
    limit_microusd: int | None

LineStream: TypeAlias = Literal["stdout", "stderr", "moorage"]


class LinkVerify(TypedDict):
    token: str


class LogHistogram(TypedDict):
    step_s: int
    times: list[str]
    series: dict[str, list[int]]


class LogLine(TypedDict):
    time: str
    container_id: str
    instance_id: str
    stream: LineStream
    sequence: int
    text: str


class MachineAdded(TypedDict):
    id: str
    token: str
    command: str
    expires_at: str


class MachineDay(TypedDict):
    day: str
    there_s: int
    away_s: int
    lost_s: int


class MachineEarnings(TypedDict):
    machine_id: str
    name: str | None
    served_s: int
    earned_microusd: int


class MachineRead(TypedDict):
    id: str
    name: str | None
    infrastructure: str
    state: MachineState
    state_since: str
    returns_as: MachineState | None
    message: str | None
    stopped_by: Speaker | None
    paused_until: str | None
    empty_by: str | None
    owner_organization_id: str | None
    tier: Tier | None
    reliability: float | None
    days: list[MachineDay] | None
    proven_at: str | None
    proof_failure: str | None
    proof_due_at: str | None
    runtime: str | None
    gpu_handover: str
    address: str | None
    gpus: list[str]
    facts: dict[str, Any]
    replicas: int
    created_at: str
    joins_until: str | None
    joined_at: str | None
    seen_at: str | None

MachineState: TypeAlias = Literal["joining", "active", "paused", "draining", "lost", "removed", "verifying", "probation", "banned"]


class MachineWish(TypedDict):
    infrastructure: NotRequired[Literal["operator"]]
    name: NotRequired[str | None]


class MailRead(TypedDict):
    id: str
    to: str
    subject: str
    text: str
    created_at: str


class Me(TypedDict):
    user: NotRequired[User | None]
    project_id: NotRequired[str | None]
    csrf_token: NotRequired[str | None]
    community_machines: NotRequired[bool]


class Member(TypedDict):
    user_id: str
    email: str
    role: Literal["admin", "user"]
    project_ids: list[str] | None
    joined_at: str


class MemberPatch(TypedDict):
    role: NotRequired[Literal["admin", "user"] | None]
    project_ids: NotRequired[list[str] | None]
    revoke_keys: NotRequired[bool]


class MemberRemoved(TypedDict):
    user_id: str
    revoked_key_ids: list[str]


class Membership(TypedDict):
    id: str
    name: str
    state: MachineState
    message: str | None
    installation_id: str
    address: str
    port: int
    door_port: int
    replica_ports: list[Any]
    infrastructure: Literal["operator", "community"]
    allow_runc: bool
    hubs: list[HubRead]


class MemoryRead(TypedDict):
    weights_bytes: int
    context_bytes: int
    server_bytes: int
    total_bytes: int


class Metrics(TypedDict):
    step_s: int
    times: list[str]
    series: dict[str, list[float | None]]
    replicas: list[ReplicaMetrics]


class ModelDeploy(TypedDict):
    model: str
    template: NotRequired[str | None]
    context_tokens: NotRequired[int | None]
    requests_at_once: NotRequired[int | None]
    file: NotRequired[str | None]
    hub_token: NotRequired[str | None]
    infrastructure: NotRequired[Literal["operator", "community", "any"]]
    name: NotRequired[str | None]
    category: NotRequired[str | None]
    resources: NotRequired[GeneralResources | AutoscalingResources | None]
    env: NotRequired[dict[str, str]]
    sleep_after_s: NotRequired[int | None]
    accept_exposure: NotRequired[bool]
    cache: NotRequired[CacheSettings | None]


class ModelPlanRead(TypedDict):
    ok: bool
    reason: NotRequired[str | None]
    message: str
    model: NotRequired[ModelRead | None]
    template: NotRequired[TemplateSummary | None]
    other_templates: NotRequired[list[TemplateSummary]]
    context_tokens: NotRequired[int | None]
    longest_context_tokens: NotRequired[int | None]
    requests_at_once: NotRequired[int | None]
    context_bytes_per_request: NotRequired[int | None]
    memory: NotRequired[MemoryRead | None]
    instance_types: NotRequired[list[FitRead]]
    instance_type: NotRequired[str | None]
    settings: NotRequired[ServerSettingsRead | None]
    cache: NotRequired[CacheSettings | None]


class ModelRead(TypedDict):
    id: str
    repository: str
    revision: str
    commit: str | None
    kind: str
    format: str
    architecture: str | None
    precision: str
    parameters: int | None
    active_parameters: int | None
    counted_by: str
    license: str | None
    gated: bool
    private: bool
    files: int
    download_bytes: int
    gguf_files: list[str]


class ModelWish(TypedDict):
    model: str
    template: NotRequired[str | None]
    context_tokens: NotRequired[int | None]
    requests_at_once: NotRequired[int | None]
    file: NotRequired[str | None]
    hub_token: NotRequired[str | None]
    infrastructure: NotRequired[Literal["operator", "community", "any"]]


class Moment(TypedDict):
    at: str
    teller: Teller
    what: str


class MonthEarnings(TypedDict):
    month: str
    served_s: int
    earned_microusd: int
    items: list[MachineEarnings]


class NameFinding(TypedDict):
    name: str
    addresses: list[str]
    failure: str | None


class NewKey(TypedDict):
    public_key: str


class NewWebhook(TypedDict):
    id: str
    url: str
    events: list[str]
    format: Literal["event", "chat"]
    enabled: bool
    disabled_reason: str | None
    created_by: str
    created_at: str
    secret: str


class NodeCapacity(TypedDict):
    name: str
    infrastructure: str
    architecture: str
    cpu_millis: int
    memory_bytes: int
    gpus: list[GpuDevice]
    gpu_driver: NotRequired[str | None]
    cuda_version: NotRequired[str | None]
    engine_identity: NotRequired[str | None]
    closed_because: NotRequired[str | None]
    weaknesses: NotRequired[list[str]]
    gpu_handover: NotRequired[str]
    gpu_handover_reason: NotRequired[str | None]
    findings: NotRequired[list[HostFinding]]
    schedulable: NotRequired[bool]
    engine: NotRequired[str]
    ready: NotRequired[bool]
    unready_since: NotRequired[str | None]
    cordoned: NotRequired[bool]
    draining: NotRequired[bool]
    owner: NotRequired[str | None]
    on_probation: NotRequired[bool]


class NodeIntake(TypedDict):
    intake: Intake


class NodeRead(TypedDict):
    name: str
    engine: str
    state: Literal["ready", "silent", "cordoned", "draining"]
    intake: Intake
    replicas: int
    seen_s_ago: float
    infrastructure: str
    architecture: str
    gpu_driver: str | None
    cuda_version: str | None
    gpus: list[GpuRead]
    gpu_handover: GpuHandover
    message: str | None
    findings: list[HostFindingRead]
    total: Amounts
    promised: Amounts
    free: Amounts
    cpu_overcommit: float


class Notification(TypedDict):
    id: str
    at: str
    event: str
    title: str
    text: str | None
    project_id: str | None
    container_id: str | None
    unread: bool


class NotificationsRead(TypedDict):
    until: str


class OperatorContainer(TypedDict):
    id: str
    name: str
    project_id: str
    project_name: str
    state: ContainerState
    state_since: str
    reason: str | None
    asleep: bool
    instance_type: str
    replicas: ReplicaCounts
    price_per_hour_microusd: int
    created_at: str


class OperatorPayout(TypedDict):
    id: str
    organization_id: str
    amount_microusd: int
    state: Literal["requested", "confirmed", "refused"]
    account: str
    created_at: str
    decided_at: str | None
    reference: str | None
    reason: str | None
    organization_name: str
    holder: str | None
    account_number: str | None
    bank: str | None
    covered_microusd: int | None
    frozen_until: str | None


class OperatorReplicaLimitRequest(TypedDict):
    id: str
    project_id: str
    container_id: str | None
    replicas: int
    note: str | None
    state: Literal["pending", "approved", "refused", "withdrawn"]
    requested_by: str
    created_at: str
    decided_at: str | None
    answer: str | None
    organization_id: str
    decided_by: str | None
    current_limit: int


class Organization(TypedDict):
    id: str
    name: str
    role: Literal["admin", "user"]
    created_at: str
    suspended_at: str | None


class OrganizationDeletion(TypedDict):
    obstacles: list[DeletionObstacle]
    given_up_microusd: int
    paid_credit_microusd: int
    given_credit_microusd: int
    earned_microusd: int
    called_off_transfers: list[str]


class OrganizationDetail(TypedDict):
    id: str
    name: str
    created_at: str
    suspended_at: str | None
    deleted_at: str | None
    balance_microusd: int
    held_microusd: int
    burn_per_hour_microusd: int
    runs_out_at: str | None
    forecast: str
    paid_in_microusd: int
    spent_this_month_microusd: int
    spend: list[DaySpend]


class OrganizationMember(TypedDict):
    user_id: str
    email: str
    role: Literal["admin", "user"]
    joined_at: str


class OrganizationName(TypedDict):
    name: str


class OrganizationSummary(TypedDict):
    id: str
    name: str
    created_at: str
    suspended_at: str | None
    deleted_at: str | None
    member_count: int
    project_count: int


class PageActivity(TypedDict):
    items: list[Activity]
    next_cursor: NotRequired[str | None]


class PageApiKey(TypedDict):
    items: list[ApiKey]
    next_cursor: NotRequired[str | None]


class PageAuditRecord(TypedDict):
    items: list[AuditRecord]
    next_cursor: NotRequired[str | None]


class PageCache(TypedDict):
    items: list[Cache]
    next_cursor: NotRequired[str | None]


class PageCapsule(TypedDict):
    items: list[Capsule]
    next_cursor: NotRequired[str | None]


class PageContainer(TypedDict):
    items: list[Container]
    next_cursor: NotRequired[str | None]


class PageCredit(TypedDict):
    items: list[Credit]
    next_cursor: NotRequired[str | None]


class PageDelivery(TypedDict):
    items: list[Delivery]
    next_cursor: NotRequired[str | None]


class PageInstanceTypeProposal(TypedDict):
    items: list[InstanceTypeProposal]
    next_cursor: NotRequired[str | None]


class PageInstanceTypeRead(TypedDict):
    items: list[InstanceTypeRead]
    next_cursor: NotRequired[str | None]


class PageInvitation(TypedDict):
    items: list[Invitation]
    next_cursor: NotRequired[str | None]


class PageLedgerEntry(TypedDict):
    items: list[LedgerEntry]
    next_cursor: NotRequired[str | None]


class PageLogLine(TypedDict):
    items: list[LogLine]
    next_cursor: NotRequired[str | None]


class PageMachineRead(TypedDict):
    items: list[MachineRead]
    next_cursor: NotRequired[str | None]


class PageMailRead(TypedDict):
    items: list[MailRead]
    next_cursor: NotRequired[str | None]


class PageMember(TypedDict):
    items: list[Member]
    next_cursor: NotRequired[str | None]


class PageNodeRead(TypedDict):
    items: list[NodeRead]
    next_cursor: NotRequired[str | None]


class PageNotification(TypedDict):
    items: list[Notification]
    next_cursor: NotRequired[str | None]


class PageOperatorContainer(TypedDict):
    items: list[OperatorContainer]
    next_cursor: NotRequired[str | None]


class PageOperatorPayout(TypedDict):
    items: list[OperatorPayout]
    next_cursor: NotRequired[str | None]


class PageOperatorReplicaLimitRequest(TypedDict):
    items: list[OperatorReplicaLimitRequest]
    next_cursor: NotRequired[str | None]


class PageOrganizationMember(TypedDict):
    items: list[OrganizationMember]
    next_cursor: NotRequired[str | None]


class PageOrganizationSummary(TypedDict):
    items: list[OrganizationSummary]
    next_cursor: NotRequired[str | None]


class PageOrganization(TypedDict):
    items: list[Organization]
    next_cursor: NotRequired[str | None]


class PagePayout(TypedDict):
    items: list[Payout]
    next_cursor: NotRequired[str | None]


class PageProject(TypedDict):
    items: list[Project]
    next_cursor: NotRequired[str | None]


class PageReceiptSummary(TypedDict):
    items: list[ReceiptSummary]
    next_cursor: NotRequired[str | None]


class PageReplicaLimitRequest(TypedDict):
    items: list[ReplicaLimitRequest]
    next_cursor: NotRequired[str | None]


class PageReplica(TypedDict):
    items: list[Replica]
    next_cursor: NotRequired[str | None]


class PageRequestSummary(TypedDict):
    items: list[RequestSummary]
    next_cursor: NotRequired[str | None]


class PageSleep(TypedDict):
    items: list[Sleep]
    next_cursor: NotRequired[str | None]


class PageTemplateRead(TypedDict):
    items: list[TemplateRead]
    next_cursor: NotRequired[str | None]


class PageTopUp(TypedDict):
    items: list[TopUp]
    next_cursor: NotRequired[str | None]


class PageUserSummary(TypedDict):
    items: list[UserSummary]
    next_cursor: NotRequired[str | None]


class PageVersion(TypedDict):
    items: list[Version]
    next_cursor: NotRequired[str | None]


class PageWebhook(TypedDict):
    items: list[Webhook]
    next_cursor: NotRequired[str | None]


class PartRead(TypedDict):
    name: str
    state: State
    message: str
    since: str | None
    what_to_do: str | None


class Pause(TypedDict):
    until: NotRequired[str | None]


class Payout(TypedDict):
    id: str
    organization_id: str
    amount_microusd: int
    state: Literal["requested", "confirmed", "refused"]
    account: str
    created_at: str
    decided_at: str | None
    reference: str | None
    reason: str | None


class PayoutAccount(TypedDict):
    account: str | None
    changed_at: str | None
    frozen_until: str | None


class PayoutAccountWrite(TypedDict):
    holder: str
    account: str
    bank: NotRequired[str]


class PayoutConfirm(TypedDict):
    reference: str
    sent: NotRequired[bool]


class PayoutRefuse(TypedDict):
    reason: str


class Phase(TypedDict):
    name: str
    duration_ms: int
    what: str


class PreflightRequest(TypedDict):
    image: str
    registry: NotRequired[RegistryWrite]
    port: NotRequired[int | None]


class PreflightResult(TypedDict):
    ok: bool
    reason: NotRequired[str | None]
    message: str
    image: str
    digest: NotRequired[str | None]
    platforms: NotRequired[list[str]]
    size_bytes: NotRequired[int | None]
    exposed_ports: NotRequired[list[int]]
    port: NotRequired[int | None]
    entrypoint: NotRequired[list[str] | None]
    warnings: NotRequired[list[str]]
    proposal: NotRequired[SettingsProposal | None]


class ProbeRun(TypedDict):
    by: str
    outcome: str
    status: int | None
    first_at: str
    last_at: str
    count: int


class Project(TypedDict):
    id: str
    organization_id: str
    name: str
    created_at: str


class ProjectName(TypedDict):
    name: str


class ProposalResult(TypedDict):
    proposal: SettingsProposal | None


class ProviderRead(TypedDict):
    name: str
    title: str
    login_url: str


class Providers(TypedDict):
    items: list[ProviderRead]
    mails_codes: bool


class Readiness(TypedDict):
    status: Literal["ready", "not_ready"]


class ReceiptSummary(TypedDict):
    id: str
    at: str
    number: str | None
    description: str
    total_microusd: int


class ReconcilerStatus(TypedDict):
    name: str
    holder: str
    last_run_at: str
    last_success_at: str | None
    last_error: str | None
    consecutive_failures: int
    objects_failing: int
    age_s: float

RegistryProvider: TypeAlias = Literal["docker-hub", "github", "gitlab", "quay", "google", "aws", "azure", "nvidia", "other", "local"]


class RegistryRead(TypedDict):
    provider: RegistryProvider
    username: str | None
    has_password: bool


class RegistryWrite(TypedDict):
    provider: NotRequired[RegistryProvider]
    username: NotRequired[str | None]
    password: NotRequired[str | None]


class Replay(TypedDict):
    since: str
    until: str
    policy: ScalingPolicy
    startup_s: float | None
    pattern: Literal["hour", "day", "workday", "week"] | None
    as_it_was: ReplayFigures
    replayed: ReplayFigures
    decisions: list[ReplayedDecision]


class ReplayFigures(TypedDict):
    replica_hours: float
    hours_bought: int
    cost_microusd: int
    over_target_share: float
    changes: int


class ReplayRequest(TypedDict):
    min_replicas: NotRequired[int | None]
    max_replicas: NotRequired[int | None]
    target_concurrency: NotRequired[int | None]
    scale_down_delay_s: NotRequired[int | None]
    since: str
    forecast: NotRequired[bool]


class ReplayedDecision(TypedDict):
    at: str
    replicas: int
    wanted: int
    limited_by: str | None
    reason: str


class Replica(TypedDict):
    id: str
    slot: int
    generation: int
    version: int
    state: str
    node: str
    community: NotRequired[LentMachine | None]
    created_at: str
    started_at: str | None
    ready_at: str | None
    ended_at: str | None
    exit_code: int | None
    reason: str | None
    message: str | None


class ReplicaCounts(TypedDict):
    desired: int
    ready: int


class ReplicaLimitRequest(TypedDict):
    id: str
    project_id: str
    container_id: str | None
    replicas: int
    note: str | None
    state: Literal["pending", "approved", "refused", "withdrawn"]
    requested_by: str
    created_at: str
    decided_at: str | None
    answer: str | None


class ReplicaLimitRequestWrite(TypedDict):
    replicas: int
    note: NotRequired[str | None]


class ReplicaMetrics(TypedDict):
    replica_id: str
    slot: int
    series: dict[str, list[float | None]]
    gpus: list[GpuMetrics]


class Request(TypedDict):
    request_id: str
    project_id: str
    container_id: str | None
    key_id: str
    replica_id: str | None
    started_at: str
    queue_ms: int | None
    connect_ms: int | None
    first_byte_ms: int | None
    total_ms: int
    status: int | None
    request_bytes: int
    response_bytes: int
    ended: Ending
    retries: NotRequired[int | None]
    method: NotRequired[str | None]
    path: NotRequired[str | None]
    gateway_id: str
    container: RequestContainer | None
    key: RequestKey
    replica: RequestReplica | None
    explanation: list[str]
    held_ms: int | None
    held_comments: int
    phases: list[Phase]
    wake: RequestWake | None
    moments: list[Moment]
    lines: RequestLines | None
    cost: RequestCost | None
    kept_days: int


class RequestContainer(TypedDict):
    id: str
    name: str
    deleted: bool


class RequestCost(TypedDict):
    price_microusd: int
    replicas: int
    bought_at: str
    expires_at: str
    bought_by_wake: bool
    requests: int
    share_microusd: int


class RequestKey(TypedDict):
    id: str
    name: str | None
    hint: str | None
    scope: str | None


class RequestLines(TypedDict):
    instance_id: str
    from_time: str
    to_time: str


class RequestReplica(TypedDict):
    id: str
    version: int | None
    node: str | None
    instance_type: str | None
    gpu_model: str | None
    gpu_count: int | None


class RequestSummary(TypedDict):
    request_id: str
    started_at: str
    first_byte_ms: int | None
    total_ms: int
    held_ms: int | None
    status: int | None
    ended: Ending
    method: str | None
    path: str | None
    replica_id: str | None
    key_id: str
    key_name: str | None


class RequestWake(TypedDict):
    asleep_at: str
    woken_at: str | None


class RestartRequest(TypedDict):
    avoid_current_nodes: NotRequired[bool]


class Revenue(TypedDict):
    first: str
    last: str
    items: list[RevenueDay]


class RevenueDay(TypedDict):
    day: str
    usage_microusd: int
    hours: int
    card_microusd: int
    bank_transfer_microusd: int
    granted_microusd: int
    refunded_microusd: int


class RollbackRequest(TypedDict):
    version: int


class RollingNeeds(TypedDict):
    beside_at_least: int
    beside_at_most: int
    room_for: int
    cost_microusd: int
    available_microusd: int
    watch_s: int


class RolloutRead(TypedDict):
    strategy: str
    version: int
    from_version: int
    begun_at: str
    beside: bool
    watch_s: float
    share: NotRequired[int | None]
    promote_after_s: NotRequired[float | None]
    serving_since: NotRequired[str | None]
    error_bound_percent: NotRequired[float | None]
    ends_at: NotRequired[str | None]


class SavedCard(TypedDict):
    brand: NotRequired[str | None]
    last4: NotRequired[str | None]
    expires_month: NotRequired[int | None]
    expires_year: NotRequired[int | None]


class Savings(TypedDict):
    since_midnight_microusd: int
    total_microusd: int
    asleep_s: float
    sleeps: int


class ScaleRequest(TypedDict):
    min_replicas: NotRequired[int | None]
    max_replicas: NotRequired[int | None]
    target_concurrency: NotRequired[int | None]
    scale_down_delay_s: NotRequired[int | None]


class ScalingPolicy(TypedDict):
    min_replicas: int
    max_replicas: int
    target_concurrency: int
    scale_down_delay_s: int


class ScalingState(TypedDict):
    desired: int
    ready: int
    coming: int
    startup_s: float | None


class SearchResult(TypedDict):
    items: list[Found]


class ServerSettingsRead(TypedDict):
    image: str
    provider: RegistryProvider
    start_command: str
    port: int
    health_path: str
    health_timeout_s: int
    api_path: ApiPath
    env: dict[str, str]


class Session(TypedDict):
    id: str
    client: str
    current: bool
    created_at: str
    last_used_at: str
    expires_at: str


class SessionList(TypedDict):
    items: list[Session]


class SettingsPatch(TypedDict):
    category: NotRequired[str | None]
    image: NotRequired[str]
    registry: NotRequired[RegistryWrite]
    resources: NotRequired[GeneralResources | AutoscalingResources]
    start_command: NotRequired[str | None]
    port: NotRequired[int | None]
    health_check: NotRequired[HealthCheck]
    limits: NotRequired[EndpointLimits]
    env: NotRequired[dict[str, str | None]]
    plain_env: NotRequired[dict[str, str | None]]
    api_path: NotRequired[ApiPath]
    infrastructure: NotRequired[Literal["operator", "community", "any"]]
    accept_exposure: NotRequired[bool]
    sleep_after_s: NotRequired[int | None]
    cache: NotRequired[CacheSettings | None]


class SettingsProposal(TypedDict):
    server: str
    api_path: ApiPath
    port: int
    health_path: str
    message: str


class Setup(TypedDict):
    steps: list[StepRead]


class SignedIn(TypedDict):
    user: User
    session_token: str
    csrf_token: str


class Sleep(TypedDict):
    asleep_at: str
    woken_at: str | None
    woken_by: str | None
    served_at: str | None
    saved_microusd: int


class SocketFinding(TypedDict):
    address: str
    port: int

Speaker: TypeAlias = Literal["moorage", "operator", "machine", "owner"]


class SpendingLimit(TypedDict):
    scope_id: str
    name: str
    limit_microusd: int | None
    spent_microusd: int
    held_microusd: int
    left_microusd: int | None


class SpendingLimits(TypedDict):
    month: str
    resets_on: str
    organization: SpendingLimit
    projects: list[SpendingLimit]


class StartRead(TypedDict):
    image_bytes_per_s: int | None
    download_s: int | None
    load_s: int | None
    again_s: int | None
    own: bool

State: TypeAlias = Literal["ok", "unknown", "warning", "failing"]


class StatementList(TypedDict):
    items: list[StatementSummary]


class StatementSummary(TypedDict):
    month: str
    state: Literal["open", "issued"]
    number: str | None
    total_microusd: int


class StepRead(TypedDict):
    name: str
    state: StepState
    message: str
    consequence: str | None
    command: str | None
    settings: list[str]

StepState: TypeAlias = Literal["missing", "unknown", "done"]


class StoredLogs(TypedDict):
    stored_bytes: int
    bytes_per_container: int
    retention_days: int
    containers: list[ContainerLogs]

Strategy: TypeAlias = Literal["replace", "rolling", "canary"]


class Suspension(TypedDict):
    reason: str


class SuspensionState(TypedDict):
    id: str
    suspended_at: str | None

Teller: TypeAlias = Literal["gateway", "controller"]


class TemplateRead(TypedDict):
    name: str
    title: str
    summary: str
    kinds: list[str]
    formats: list[str]
    precisions: list[str]
    runs_without_gpu: bool
    images: list[str]
    port: int
    health_path: str
    api_path: ApiPath
    example: str
    memory_bytes: int
    instance_type: str | None
    price_per_hour_microusd: int | None


class TemplateSummary(TypedDict):
    name: str
    title: str
    summary: str

Tier: TypeAlias = Literal["probation", "standard", "trusted"]


class TopUp(TypedDict):
    id: str
    organization_id: str
    method: Literal["card", "bank_transfer"]
    state: Literal["pending", "confirmed", "expired", "failed"]
    amount_microusd: int
    received_microusd: int | None
    transfer: NotRequired[Literal["local", "international"] | None]
    reference: NotRequired[str | None]
    instructions: NotRequired[str | None]
    checkout_url: NotRequired[str | None]
    automatic: NotRequired[bool]
    created_at: str
    decided_at: str | None


class TopUpCreate(TypedDict):
    method: Literal["card", "bank_transfer"]
    amount_microusd: int
    transfer: NotRequired[Literal["local", "international"]]


class TransferConfirm(TypedDict):
    received_microusd: int


class TrialFailure(TypedDict):
    reason: str
    message: str
    fix: FixRead | None
    at: str


class TunnelRead(TypedDict):
    state: TunnelState
    message: str

TunnelState: TypeAlias = Literal["not_needed", "opening", "open", "failing"]


class UsageItem(TypedDict):
    day: str
    project_id: str
    project_name: str | None
    container_id: str
    container_name: str | None
    instance_type: str
    hours: int
    amount_microusd: int


class UsageList(TypedDict):
    first: str
    last: str
    total_microusd: int
    items: list[UsageItem]


class User(TypedDict):
    id: str
    email: str
    is_operator: bool


class UserSummary(TypedDict):
    id: str
    email: str
    is_operator: bool
    created_at: str
    organization_ids: list[str]


class Version(TypedDict):
    version: int
    created_at: str
    created_by: str
    image: str
    digest: str | None
    changes: list[ChangeRead]
    strategy: Strategy | None
    outcome: ContainersStatesOutcome | None
    reason: str | None
    served_s: float
    can_roll_back: bool
    answers: NotRequired[int | None]
    errors: NotRequired[int | None]
    response_p50_ms: NotRequired[float | None]
    response_p95_ms: NotRequired[float | None]
    replicas_ready: NotRequired[int | None]


class Webhook(TypedDict):
    id: str
    url: str
    events: list[str]
    format: Literal["event", "chat"]
    enabled: bool
    disabled_reason: str | None
    created_by: str
    created_at: str


class WebhookCreate(TypedDict):
    url: str
    events: NotRequired[list[str]]
    format: NotRequired[Literal["event", "chat"]]


class WebhookPatch(TypedDict):
    url: NotRequired[str | None]
    events: NotRequired[list[str] | None]
    enabled: NotRequired[bool | None]

ContainersStatesOutcome: TypeAlias = Literal["serving", "replaced", "failed", "rolled_back"]

EnginesDiagnosisOutcome: TypeAlias = Literal["connected", "refused", "timed_out", "unreachable"]


class Problem(TypedDict):
    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str | None
    missing_microusd: NotRequired[int]
    errors: NotRequired[list[ProblemField]]


class ProblemField(TypedDict):
    field: str
    message: str
