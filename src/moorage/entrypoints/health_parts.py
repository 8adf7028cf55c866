"""What the operator is told of each part: how it is, since when, and what to do about it. From facts alone."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from moorage.catalog.handover_words import handover_sentence
from moorage.containers.caches.repository import CachesOfMachine
from moorage.containers.operator.endpoints import SILENT_AFTER_S
from moorage.containers.reconciler.doubt_repository import Doubt
from moorage.containers.repository import GatewayStatus
from moorage.engines.base import MachineKey, NodeCapacity
from moorage.kit.log_files import LogFiles
from moorage.kit.settings import Settings
from moorage.machines.states import Tunnel, TunnelState
from moorage.reconcile.status import ReconcilerStatus
from moorage.telemetry.operator_repository import Queue

SILENT_AFTER = timedelta(seconds=15)
"""A reconciler's word comes every 2 s."""
MACHINE_SILENT_AFTER = timedelta(seconds=SILENT_AFTER_S)
QUEUE_LATE_AFTER = timedelta(minutes=10)
DISK_LOW, DISK_FULL = 0.15, 0.05
CERTIFICATE_SOON = timedelta(days=21)
BACKUP_OLD_AFTER = timedelta(days=2)


class State(StrEnum):
    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    FAILING = "failing"


@dataclass(frozen=True)
class Part:
    name: str
    state: State
    message: str
    since: datetime | None = None
    """When it was last as it should be, or since when it is as it is; None where that is not known."""
    what_to_do: str | None = None


@dataclass(frozen=True)
class Disk:
    path: str
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Certificate:
    name: str
    """The setting."""
    path: str
    not_after: datetime | None
    """None: it cannot be read."""
    not_before: datetime | None = None
    trouble: str | None = None
    """Why the authority that should renew it did not, at the last try."""
    is_first: bool = False
    """One to begin with, which nobody trusts."""

    def ends_soon(self, now: datetime) -> bool:
        """Three weeks before; of one that lasts a day or a month, when most of its time is over."""
        if self.not_after is None:
            return True
        lasts = self.not_after - self.not_before if self.not_before is not None else timedelta.max
        return self.not_after - now < min(CERTIFICATE_SOON, lasts / 4)


def worst(parts: Iterable[Part]) -> State:
    """What is not known does not count against the whole."""
    states = {part.state for part in parts}
    return next((state for state in (State.FAILING, State.WARNING) if state in states), State.OK)


HISTORY_TABLES = ("activities", "audit_records", "containers", "replicas")


def history_part(rows: Mapping[str, int], settings: Settings) -> Part:
    """What is kept for a time only, and how much of it there is."""
    counted = ", ".join(f"{rows.get(table, 0):,} {table.replace('_', ' ')}" for table in HISTORY_TABLES)
    kept = f"ended replicas {settings.replica_retention_days} days, history {settings.history_retention_days} days"
    return Part("history", State.OK, f"About {counted}; kept: {kept}.")


def image_parts(images: Mapping[MachineKey, tuple[int, int]], kept_s: int) -> list[Part]:
    return [
        Part(
            f"images {machine.node}",
            State.OK,
            f"{count} pulled, {size_bytes / 2**30:.1f} GiB; an unused one goes after {kept_s / 3600:g} h.",
        )
        for machine, (count, size_bytes) in images.items()
    ]


def cache_parts(caches: Sequence[CachesOfMachine], kept_s: int) -> list[Part]:
    return [
        Part(
            f"caches {one.node}",
            State.OK,
            f"{one.count} of containers, {one.size_bytes / 2**30:.1f} GiB; an unused one goes after {kept_s / 86400:g} days.",
        )
        for one in caches
    ]


def reconciler_parts(
    expected: Sequence[str], statuses: Sequence[ReconcilerStatus], now: datetime
) -> list[Part]:
    by_name = {status.name: status for status in statuses}
    return [_reconciler(name, by_name.get(name), now) for name in sorted({*expected, *by_name})]


def _reconciler(name: str, status: ReconcilerStatus | None, now: datetime) -> Part:
    title = f"reconciler {name}"
    restart = "Check the controller's log. `moor up` restarts a controller that ended."
    if status is None:
        return Part(title, State.FAILING, "Has never run.", None, restart)
    if now - status.last_run_at > SILENT_AFTER:
        return Part(title, State.FAILING, "Does not run.", status.last_run_at, restart)
    if status.last_error is not None:
        fix = (
            "A person must decide which side is right. First compare the account with its transactions."
            if name == "ledger"
            else "It tries again by itself. The controller's log has the full error."
        )
        return Part(title, State.FAILING, status.last_error, status.last_success_at, fix)
    if status.objects_failing:
        message = f"Runs; the last pass failed for {status.objects_failing} object(s)."
        fix = "It tries them again by itself. The controller's log names them (`reconcile_failed`)."
        return Part(title, State.WARNING, message, status.last_run_at, fix)
    return Part(title, State.OK, f"Runs at {status.holder}.", status.last_run_at)


def gateway_parts(gateways: Sequence[GatewayStatus]) -> list[Part]:
    if not gateways:
        start = "Start one with `moor up`. If the roles run separately, start the gateway role."
        return [Part("gateway", State.FAILING, "No gateway has ever reported.", None, start)]
    fix = (
        "Containers still serve with the routes that HAProxy has. Check that gateway's log and restart its "
        "agent. If it is gone for good, run `moor operator forget-gateway` so that nothing waits for it."
    )
    return [
        Part(f"gateway {one.id}", State.OK, f"Reports; {one.servers} replica(s).", one.seen_at)
        if one.alive
        else Part(f"gateway {one.id}", State.FAILING, "Does not report.", one.seen_at, fix)
        for one in gateways
    ]


def machine_parts(
    seen_s_ago: Mapping[MachineKey, float], now: datetime, lost: Collection[str] = ()
) -> list[Part]:
    """`lost`: the engines of machines that are."""
    if not seen_s_ago:
        start = "Check that the Docker engine runs and that MOORAGE_DOCKER_HOST names its socket."
        return [Part("engine", State.FAILING, "No machine has ever been described.", None, start)]
    parts = []
    for machine, age_s in sorted(seen_s_ago.items()):
        title, age = f"engine {machine.node}", timedelta(seconds=age_s)
        if machine.engine in lost:
            message = "The machine is lost. Its replicas are replaced on other machines that have room."
            fix = (
                "Run on that machine: `moor-node check` and `journalctl -u moorage-tunnel -u moorage-node`. "
                f"If it is gone for good: `moor machines remove {machine.node}`."
            )
            parts.append(Part(title, State.FAILING, message, now - age, fix))
        elif age > MACHINE_SILENT_AFTER:
            fix = (
                "Its replicas keep running, but none can be started or stopped. Check on that machine that "
                "the engine answers (`docker info`)."
            )
            parts.append(Part(title, State.FAILING, "The engine does not answer.", now - age, fix))
        else:
            parts.append(Part(title, State.OK, "The engine answers.", now - age))
    return parts


def tunnel_parts(tunnel: Tunnel) -> list[Part]:
    """The installation's end of it, where there are machines that need one."""
    if tunnel.state is TunnelState.NOT_NEEDED:
        return []
    state = {TunnelState.OPEN: State.OK, TunnelState.OPENING: State.WARNING}.get(tunnel.state, State.FAILING)
    fix = None if state is State.OK else "Until it is open, no machine can join, and Moorage reaches none."
    return [Part("tunnel", state, tunnel.message, None, fix)]


def doubt_parts(doubts: Sequence[Doubt], wait_s: int) -> list[Part]:
    """Only of machines of which most replicas are missing."""
    return [
        Part(
            f"replicas on {one.node}",
            State.FAILING,
            f"{one.missing} of {one.expected} disappeared from the engine at once. They are replaced at "
            f"{one.since + timedelta(seconds=wait_s):%H:%M:%S} UTC.",
            one.since,
            "If they are gone for good (the engine was wiped, or somebody removed them), run "
            f"`moor operator replicas-gone {one.node}`. Otherwise check the engine: `docker ps` should show "
            "them.",
        )
        for one in doubts
    ]


def isolation_parts(nodes: Sequence[NodeCapacity]) -> list[Part]:
    """Whether each machine keeps containers apart, as its engine last found it."""
    fix = (
        "Running replicas continue, but no new one starts there. Install iptables, run Moorage as root, and "
        "find out what reloads the machine's firewall. Moorage checks every 15 s. If only you use the "
        "machine, you can set MOORAGE_ISOLATION=waived."
    )
    parts = []
    for node in nodes:
        title = f"isolation {node.name}"
        if node.clock_is_wrong:
            parts.append(_wrong_clock(node))
        elif node.closed_because is not None:
            message = f"Containers are not kept apart: {node.closed_because}."
            parts.append(Part(title, State.FAILING, message, None, fix))
        elif node.weaknesses:
            message = f"Containers are kept apart, but {'; '.join(node.weaknesses)}."
            parts.append(Part(title, State.WARNING, message, None, "Run Moorage as root on this machine."))
        else:
            parts.append(Part(title, State.OK, "Containers are kept apart."))
    return parts


def _wrong_clock(node: NodeCapacity) -> Part:
    message = f"No replica starts there, and its log lines are not stored: {node.closed_because}."
    fix = "Set that machine's clock and keep it synchronized: `timedatectl set-ntp true`."
    return Part(f"clock {node.name}", State.FAILING, message, None, fix)


def host_parts(nodes: Sequence[NodeCapacity]) -> list[Part]:
    """What each machine's doctor found; of a machine with GPUs also that it found nothing."""
    parts = []
    for node in nodes:
        title = f"host {node.name}"
        for finding in node.findings:
            state = State.FAILING if finding.broken else State.WARNING
            parts.append(Part(title, state, finding.message, None, f"On that machine: `{finding.command}`"))
        if node.gpus and not node.findings:
            parts.append(Part(title, State.OK, handover_sentence(node) or "It has no faults."))
    return parts


def queue_part(name: str, queue: Queue, now: datetime, what_to_do: str) -> Part:
    title = f"{name} queue"
    waiting = f"{queue.waiting} waiting"
    if queue.oldest_at is None or now - queue.oldest_at <= QUEUE_LATE_AFTER:
        return Part(title, State.OK, f"{waiting}.")
    last = f"; the last error: {queue.last_error}" if queue.last_error else ""
    return Part(
        title, State.WARNING, f"{waiting}, the oldest for a long time{last}.", queue.oldest_at, what_to_do
    )


def disk_part(disk: Disk) -> Part:
    share = disk.free_bytes / disk.total_bytes if disk.total_bytes else 0.0
    message = f"{disk.free_bytes / 2**30:.1f} GiB ({share:.0%}) free at {disk.path}."
    fix = (
        "Make room: reduce log_retention_days or log_bytes_per_container, remove unused images, or enlarge "
        "the disk. A full disk stops the database."
    )
    if share < DISK_FULL:
        return Part("disk", State.FAILING, message, None, fix)
    if share < DISK_LOW:
        return Part("disk", State.WARNING, message, None, fix)
    return Part("disk", State.OK, message)


def log_files_part(files: LogFiles, max_bytes: int) -> Part:
    """Of Moorage's own parts; what containers print is in the database."""
    limit = f"each grows to {max_bytes / 2**20:.0f} MiB and is then kept once (log_file_bytes)"
    message = f"{files.bytes / 2**20:.1f} MiB in {files.files} file(s); {limit}."
    if files.largest_bytes > 2 * max_bytes:
        fix = (
            "Nothing rotates them. `moor up` and the gateway should; check that they run and can write there."
        )
        return Part("log files", State.WARNING, message, None, fix)
    return Part("log files", State.OK, message)


def certificate_part(certificate: Certificate, now: datetime) -> Part:
    title, fix = (
        f"certificate {certificate.name}",
        f"Renew {certificate.path}. Moorage serves a changed file at once.",
    )
    end = certificate.not_after
    if certificate.trouble is not None:
        fix = "Its names must lead to this machine, and TCP port 80 must be open to everybody. Moorage tries again every quarter of an hour."
        message = f"The authority did not issue a new certificate: {certificate.trouble}"
        is_urgent = certificate.is_first or certificate.ends_soon(now)
        return Part(title, State.FAILING if is_urgent else State.WARNING, message, end, fix)
    if certificate.is_first:
        message = "Moorage has asked the authority for it and waits for the answer. Until then browsers warn."
        return Part(title, State.WARNING, message, None, "Wait a minute.")
    if end is None:
        return Part(title, State.FAILING, f"{certificate.path} cannot be read.", None, fix)
    if end <= now:
        return Part(title, State.FAILING, "Has expired.", end, fix)
    message = f"Valid until {end:%Y-%m-%d}."
    if certificate.ends_soon(now):
        return Part(title, State.WARNING, message, None, fix)
    return Part(title, State.OK, message)


def backup_part(last_at: datetime | None, now: datetime) -> Part:
    fix = "Run `moor backup FILE` every day, and keep `secret-keys` of the data folder in another place."
    if last_at is None:
        return Part("backup", State.UNKNOWN, "`moor backup` has never run here.", None, fix)
    if now - last_at > BACKUP_OLD_AFTER:
        return Part(
            "backup", State.WARNING, f"The last one is {(now - last_at).days} days old.", last_at, fix
        )
    return Part("backup", State.OK, "The last `moor backup` is recent.", last_at)
