"""The installation's settings: `MOORAGE_*` variables, then `moorage.toml`, then the defaults below.

`MOORAGE_CONFIG` names the file; without it `./moorage.toml` and `$MOORAGE_HOME/moorage.toml` are tried.
Every setting is here, with its default and its reason; nothing else reads the environment.
"""

import ipaddress
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from moorage.kit.errors import SettingsError

_ACCOUNT = r"^[a-z0-9][a-z0-9-]{0,62}/[a-z0-9][a-z0-9.-]{0,252}$"


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="MOORAGE_", extra="forbid", frozen=True)
    toml_file: ClassVar[Path | None] = None

    home: Path = Field(default_factory=lambda: default_home())
    """The folder for everything that Moorage keeps: database, keys, sockets, logs of its parts."""

    installation_id: str | None = Field(default=None, pattern=r"^ins_[a-z0-9]{8,40}$")
    """The id of a new installation, if others must know it beforehand, as a cluster's policies do. Default: a random
    one."""
    pod_uid: str | None = Field(default=None, pattern=r"^[0-9a-f-]{36}$")
    """The UID of the Pod that this process runs in. A gateway's id follows from it, so that a controller knows when it is gone."""
    health_listen: str | None = None
    """`host:port` where a controller, or a gateway alone in a container, answers `/livez` and `/readyz`, for whatever
    restarts it."""

    api_listen: str = "127.0.0.1:8080"
    """Where the console and the management API are served."""
    api_role_listen: str | None = None
    """`host:port` where the role `api` listens for gateways on other hosts, in addition to its socket. It speaks
    plain HTTP, so use a network that only they can reach."""
    api_role_gateways: tuple[str, ...] = ()
    """Addresses or networks of those gateways, e.g. `["10.0.0.0/8"]`. Moorage trusts what they say about a request's
    source."""
    api_upstreams: tuple[str, ...] = ()
    """For the role `gateway`: `host:port` of each API that it forwards to, or one name with the addresses of all of
    them. Default: the socket of the one on this machine."""
    gateway_nameserver: str | None = None
    """`address:port` of the DNS server that the gateway asks for such names. Default: those of /etc/resolv.conf."""
    gateway_listen: str = "127.0.0.1:8081"
    """Where containers' endpoints are served."""
    public_url: str | None = None
    """How people reach the API, e.g. `https://cloud.example.com`. Default: `http://` + api_listen."""
    gateway_url: str | None = None
    """How clients reach the endpoints. Default: `http://` + gateway_listen."""
    api_certificate: Path | None = None
    """PEM file with certificate and key for api_listen; with it, that address speaks TLS."""
    gateway_certificate: Path | None = None
    """PEM file with certificate and key for gateway_listen. With apps_domain: for `*.{apps_domain}` too."""
    acme_email: str | None = Field(default=None, pattern=r"^[^@\s]{1,64}@[^@\s]{1,190}$")
    """Your e-mail address. With it, Moorage gets and renews certificates for the names in public_url and gateway_url
    from an ACME authority such as Let's Encrypt. You thereby accept the authority's terms. Certificates named above
    remain yours to renew."""
    acme_listen: str = "0.0.0.0:80"
    """Where that authority checks that the names are yours. It always asks port 80. Other requests there are
    redirected to HTTPS."""
    acme_directory: str = Field(
        default="https://acme-v02.api.letsencrypt.org/directory", pattern=r"^https://"
    )
    """The authority's ACME directory."""
    acme_root: Path | None = None
    """PEM file with the root certificate of your own authority, if this machine does not know it."""
    apps_domain: str | None = Field(
        default=None, pattern=r"^[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63}){0,8}(:[0-9]{1,5})?$"
    )
    """Gives each container its own endpoint, `https://{id}.{apps_domain}`. A port here is only part of the URL."""

    database_dsn: SecretStr | None = None
    """`postgresql://user:password@host/database` of your own server (15 or newer). Replaces the embedded one."""
    database_wait_s: int = Field(default=0, ge=0, le=3600)
    """How long a starting role waits for the database and for tables of its version, which a job may still be
    creating."""
    keys: Literal["made", "mounted"] = "made"
    """`made`: the first start creates the sealing keys and the operator's key in this machine's data folder.
    `mounted`: several copies share them; they must be there, or nothing starts."""
    secret_keys_path: Path | None = None
    """The file with the keys that seal secrets: lines of a 4-byte id and a 32-byte key, both in hex. Default:
    `{home}/secret-keys`."""
    secret_keys: SecretStr | None = None
    """secret_keys_path as text instead of a file."""
    operator_key_path: Path | None = None
    """The file with the operator's key. Default: `{home}/operator-key`."""
    operator_key: SecretStr | None = None
    """operator_key_path as text instead of a file."""
    database_pool_size: int = Field(default=10, ge=2, le=100)
    """Size of the pool of database connections that each process of the API and the controller keeps."""
    database_share_percent: int = Field(default=25, ge=1, le=100)
    """Share of the API's database connections for one person with all their keys, or for one unknown address. Beyond
    it, requests wait."""
    api_share_percent: int = Field(default=10, ge=1, le=100)
    """Share of the API thread's time for one person with all their keys, or for one unknown address, while others
    also ask. Beyond it, requests wait."""
    jobs_at_once: int = Field(default=2, ge=1, le=64)
    """Processes of the API for long computations: replays of the autoscaler, PDF files. One person gets one at a
    time."""
    body_timeout_s: float = Field(default=30.0, ge=0.1, le=600.0)
    """How long a client of the API may take to send a request's body."""

    docker_host: str | None = None
    """`unix:///path` of the Docker engine to use. Default: the system's, else one that Moorage starts itself."""
    container_runtime: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    """The engine's runtime for containers, e.g. `runsc` for gVisor, which must be set up in the engine. Default: the
    engine's own. With a runtime that has its own network stack, like gVisor, a verdict cannot say where a server
    listens instead."""
    gpu_handover: Literal["auto", "runtime", "cdi", "direct"] = "auto"
    """How GPUs get into containers: by NVIDIA's runtime, by CDI, or directly, as device nodes and the driver's files.
    Default: the first of these that works on the machine; `moor nodes` says which and why."""
    install_engine: bool = True
    """Whether `moor up` may install Debian's `docker.io` if it finds no engine."""
    isolation: Literal["required", "waived"] = "required"
    """`required`: nothing new starts on a machine that cannot keep containers apart (no iptables, not root, Docker
    Desktop). `waived`: containers start anyway, for a machine that only its owner uses; sign-up is then closed."""
    replica_ports: str = "20000-29999"
    """Host ports for replicas. They must lie outside the kernel's ephemeral range (usually from 32768)."""
    cpu_overcommit: float = Field(default=16.0, ge=1.0, le=64.0)
    """vCPUs promised per core of the machine. Inference containers rarely all compute at once."""
    kubernetes: str | None = None
    """The cluster to run containers in: `in-cluster` with the account of the controller's Pod, or the path of a
    kubeconfig. Without it Moorage does not use Kubernetes. If docker_host names an engine, Moorage uses that machine
    as well."""
    kubernetes_account: str | None = Field(default=None, pattern=_ACCOUNT)
    """`namespace/name` of the controller's service account, which gives itself its rights in each namespace that it
    creates. Without this setting, it needs its rights for the whole cluster."""
    kubernetes_callers: tuple[str, ...] = ()
    """Namespaces whose Pods may connect to replicas: those of the gateways and the controller."""
    kubernetes_caller_networks: tuple[str, ...] = ()
    """Networks of gateways outside the cluster, e.g. `["192.0.2.0/28"]`. They may connect to replicas."""
    kubernetes_closed_networks: tuple[str, ...] = ()
    """More networks that replicas may not reach, in addition to those that are not public: those of Pods and
    Services, if they are public."""
    kubernetes_pull_listen: str | None = Field(
        default=None, pattern=r"^[0-9A-Za-z.:\[\]-]{1,253}:[0-9]{1,5}$"
    )
    """`host:port` where the pull proxy listens for the cluster's nodes."""
    kubernetes_pull_address: str | None = Field(
        default=None, pattern=r"^[0-9A-Za-z.\[\]:-]{1,253}:[0-9]{1,5}$"
    )
    """`host:port` at which the nodes' container runtime reaches the pull proxy; image names begin with it. It speaks
    plain HTTP, which runtimes accept from `127.0.0.1` (a node port) and from registries in their configuration."""
    kubernetes_pull_peer: str | None = Field(default=None, pattern=r"^[0-9A-Za-z.\[\]:-]{1,253}:[0-9]{1,5}$")
    """`host:port` where other controllers reach this one's pull proxy. Nodes ask any controller, and the leading one
    has the image."""
    kubernetes_local_registry: str | None = Field(
        default=None, pattern=r"^[0-9A-Za-z.:\[\]-]{1,253}(/[a-z0-9._/-]{1,200})?$"
    )
    """The registry with a cluster's `local/…` images, e.g. `registry.example.com/own`. Without it there are none."""
    kubernetes_looker_image: str | None = Field(
        default=None, pattern=r"^local/[a-z0-9._/-]{1,200}(:[A-Za-z0-9_.-]{1,128})?$"
    )
    """A `local/…` image with `sh`, `cat` and `nc` in it. On each node it tests that Pods cannot reach what is not
    public; without it nothing starts in the cluster, unless isolation is waived. It also runs beside a replica that
    does not become ready, to see where its server listens instead."""
    kubernetes_door_image: str | None = Field(
        default=None, pattern=r"^local/[a-z0-9._/-]{1,200}(:[A-Za-z0-9_.-]{1,128})?$"
    )
    """A `local/…` image with `haproxy`, built with Lua; Moorage's own image has it. It runs beside each replica and
    proves on every connection whose Pod it is, because a cluster may give an ended Pod's address to the next one at
    once. Without it nothing starts in the cluster, unless isolation is waived."""
    kubernetes_runtime_class: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")
    """The RuntimeClass of replicas, e.g. `gvisor`."""
    kubernetes_host_users: bool | None = None
    """`false`: uid 0 inside a replica is an unprivileged user on its node. The nodes must support user namespaces."""
    pull_timeout_s: int = Field(default=3600, ge=10, le=86400)
    """How long pulling an image may take. After that the container fails with `pull_timeout`."""
    max_image_bytes: int = Field(default=100 * 2**30, ge=2**20)
    """Total size of an image's layers, both compressed and unpacked, because users' images fill this disk."""
    pulls_per_organization: int = Field(default=3, ge=1, le=100)
    """Images that one machine pulls for one organization at the same time. The organization's other images wait."""
    failed_starts_per_hour: int = Field(default=6, ge=1, le=1000)
    """Failed starts of one replica within an hour, after which the next start has to wait. Failed starts cost
    nothing."""
    starts_per_minute: int = Field(default=6, ge=1)
    """Starts and restarts of one container within a minute, including applied fixes and drafts. After that the next
    has to wait. A stop never waits."""
    unpaid_starts_microusd_per_day: int = Field(default=20_000_000, ge=1)
    """Failed starts that an organization may have in a day (UTC), at the price that they would have cost; starts that
    never become ready are free. The default is five hours of an H100 that loads and fails, or half a year of the
    smallest machine. After that, starts wait for the next day."""
    tunnel_endpoint: str | None = Field(default=None, pattern=r"^[A-Za-z0-9.:\[\]-]{1,253}:[0-9]{1,5}$")
    """`host:port` (UDP) that machines dial to join. Default: the host of public_url with tunnel_port."""
    tunnel_port: int = Field(default=51820, ge=1, le=65535)
    """UDP port of the tunnel here. It opens when the first machine is added."""
    tunnel_network: str = "198.19.0.0/16"
    """Addresses inside the tunnel, /16 to /23. None of the machines' own networks may contain them."""
    community_machines: bool = False
    """Whether organizations may lend machines to this installation (`moor machines add --community`). Strangers'
    machines then run containers of tenants who agreed to that."""
    allow_runc: bool = False
    """Whether a lent machine may run GPU containers without a sandbox if its sandbox cannot hand GPUs over. Its owner
    is told before it joins, because a tenant who breaks out of a container is on that machine."""
    machines_per_organization: int = Field(default=100, ge=1)
    """Machines that an organization may lend, including those with an open join command. It may remove as many within
    a week."""
    largest_machine_cores: int = Field(default=1024, ge=1, le=65536)
    """The most cores that Moorage believes a joined machine to have, whatever it claims."""
    largest_machine_memory_gib: int = Field(default=8192, ge=1, le=1_048_576)
    """The most memory that Moorage believes a joined machine to have, whatever it claims."""
    drain_timeout_s: int = Field(default=30, ge=0, le=3600)
    """How long requests in flight may take to finish when a replica stops."""
    stop_grace_s: int = Field(default=10, ge=1, le=300)
    """Time between asking a replica's process to end and killing it."""
    update_watch_s: int = Field(default=180, ge=0, le=3600)
    """How long a version applied with `rolling` serves beside the previous one, which stays ready to go back to."""
    update_error_percent: float = Field(default=1.0, ge=0, le=100)
    """Percent of its answers in that time that may be errors, in addition to the previous version's. With more, it
    goes back by itself."""
    hold_requests_per_container: int = Field(default=128, ge=1, le=10_000)
    """Requests to one sleeping container that a gateway holds until it has woken. More are refused."""
    hold_requests: int = Field(default=2048, ge=1, le=100_000)
    """Requests to all sleeping containers together that a gateway holds. An organization gets as many as it leaves
    free, so at most half of them."""
    hold_bytes: int = Field(default=134_217_728, ge=1_048_576)
    """Total bytes of the bodies of held requests, in the same shares. Beyond it, bodies wait at their clients."""
    hold_timeout_s: int = Field(default=600, ge=1, le=3600)
    """The longest time that a request is held. After that it is refused."""
    canary_slower_percent: float = Field(default=50.0, ge=0, le=1000)
    """Moorage drops a canary when its slowest 5 % of answers take this much longer than the other version's."""
    canary_least_answers: int = Field(default=100, ge=1, le=1_000_000)
    """Answers of a canary before its response times are judged or a rule promotes it."""
    canary_longest_s: int = Field(default=86_400, ge=60, le=30 * 86_400)
    """Moorage drops a canary that nobody has decided about for this long, because somebody has probably forgotten it
    and pays for its replicas."""
    moves_at_once: int = Field(default=2, ge=1, le=100)
    """Replicas that move from a draining machine to others at the same time."""
    missing_replicas_wait_s: int = Field(default=900, ge=0, le=900)
    """When most replicas of a machine are missing at once, how long they may take to come back before they are
    replaced."""

    doctor_name: str = Field(
        default="huggingface.co", pattern=r"^[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63}){0,8}$"
    )
    """The name that `moor doctor` resolves from inside a replica."""
    doctor_target: str = "1.1.1.1:443"
    """The public address and port that it connects to. It is not a name, so that it tests only the way out."""

    allowed_registries: tuple[str, ...] = ()
    """Registries (`host` or `host:port`) at private addresses that users may use."""
    model_hub: str = Field(
        default="https://huggingface.co",
        pattern=r"^$|^https?://[A-Za-z0-9.:\[\]-]{1,253}(/[A-Za-z0-9._/-]{0,200})?$",
    )
    """Where models are looked up by their id, and where their servers fetch them (`HF_ENDPOINT`): Hugging Face or any
    mirror with its API, over HTTPS, also at a private address. Plain HTTP is only for one on this machine. Empty: no
    hub."""
    allowed_webhook_hosts: tuple[str, ...] = ()
    """Receivers of webhooks (`host:port`) at private addresses that users may use."""

    key_requests_per_s: int = Field(default=1000, ge=1, le=100_000)
    """Requests per second that one API key may send to all gateways together, measured over 10 s. Beyond it, 429."""
    organization_requests_per_s: int = Field(default=3000, ge=1, le=100_000)
    """Requests per second that all API keys of an organization together may send, measured over 10 s. Beyond it,
    429."""
    request_records_per_s: int = Field(default=20, ge=0, le=10_000)
    """Records of single requests that one gateway keeps of one container. Failed requests are always kept, and all
    are counted."""
    gateway_connections_per_source: int = Field(default=2000, ge=0, le=100_000)
    """Connections to endpoints that one client address may hold. 0: no limit, for use behind a load balancer, from
    whose address all connections come. The total follows from the limit of open files (`ulimit -Hn`)."""
    api_connections: int = Field(default=2000, ge=10, le=100_000)
    """Connections to the console and the API at a time, at most a quarter of all connections. They are counted
    separately, so that endpoints never wait for them."""
    api_connections_per_source: int = Field(default=500, ge=0, le=100_000)
    """Connections out of api_connections that one client address may hold. 0: no limit."""
    api_requests_per_s_per_source: int = Field(default=100, ge=1, le=100_000)
    """Requests per second of one client address to the console and the API, measured over 10 s. Beyond it, 429.
    Without limit_by_source: no limit."""
    api_requests_at_once_per_source: int = Field(default=50, ge=1, le=100_000)
    """Open requests of one client address to the console and the API, and as many open streams and downloads."""
    gateway_slots: int = Field(default=64, ge=1, le=20000)
    """Containers that the gateway has room for before it enlarges its pool by a hitless reload."""

    billing_hour_s: float = Field(default=3600.0, ge=2.0, le=3600.0)
    """How long a paid hour lasts. Shorter ones are for trials and cost the same."""
    owners_share_percent: int = Field(default=70, ge=0, le=100)
    """Percent of an hour's price that the owner of the community machine that served in it gets."""
    card_earnings_held_days: int = Field(default=120, ge=0, le=3650)
    """How long owners wait for earnings that were paid by card. Until then a bank may take the payment back."""
    transfer_earnings_held_days: int = Field(default=7, ge=0, le=3650)
    """How long owners wait for earnings that were paid by bank transfer."""
    least_payout_microusd: int = Field(default=25_000_000, ge=10_000)
    """The smallest payout. A smaller transfer is not worth its fee."""
    payout_freeze_days: int = Field(default=7, ge=0, le=365)
    """How long nothing is sent after the account for earnings was changed, so that the admins can notice the
    change."""
    stripe_secret_key: SecretStr | None = None
    """The key of the card payment provider. Without it and stripe_webhook_secret, the card option says that it is not
    set up."""
    stripe_webhook_secret: SecretStr | None = None
    """The secret that signs the events that the provider sends to `/api/v1/webhooks/stripe`. Have it send
    `checkout.session.completed`, `charge.refunded`, `charge.dispute.*`, `payment_intent.succeeded` and
    `payment_method.*`."""
    stripe_api_base: str = "https://api.stripe.com"
    """The address of the card payment provider's API."""
    bank_details_local: str | None = Field(default=None, max_length=2000)
    """The account for transfers within the country, as shown to people. Without it, nobody can announce such
    transfers."""
    bank_details_international: str | None = Field(default=None, max_length=2000)
    """The account for international wires."""
    seller_name: str = Field(default="Moorage", max_length=200)
    """Who issues invoices and receipts, as they name it."""
    seller_address: str | None = Field(default=None, max_length=500)
    """The address on invoices and receipts."""
    seller_tax_id: str | None = Field(default=None, max_length=64)
    """The tax number on invoices and receipts."""
    invoice_note: str | None = Field(default=None, max_length=500)
    """A note at the end of invoices and receipts, such as what the law requires about taxes."""

    operator_email: str = "operator@localhost"
    """The first operator's address. The installation sends its mails for the operator there."""
    smtp_host: str | None = None
    """The mail server. Without one, the operator reads all mails in the outbox (`GET /api/v1/operator/outbox`)."""
    smtp_port: int = Field(default=587, ge=1, le=65535)
    """The port of the mail server."""
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    """`starttls`: begin in plain text and switch to TLS. `tls`: TLS from the first byte. `none`: plain text, for a server on this machine."""
    smtp_username: str | None = None
    """The user name at the mail server, if it needs one."""
    smtp_password: SecretStr | None = None
    """The password of that user."""
    mail_from: str | None = None
    """The sender's address. Default: the operator's."""
    support_contact: str = "the operator of this installation"
    """Whom people should ask when something fails, as error pages show it, e.g. an e-mail address."""
    sign_up: Literal["open", "closed"] = "open"
    """`open`: anybody who can read mail at an address may sign up. `closed`: only invited people may."""
    sign_up_domains: tuple[str, ...] = ()
    """Domains of e-mail addresses that may sign up, e.g. `["example.com"]`. Others need an invitation. Empty: any."""
    initial_credit: Literal["everybody", "card", "approval"] = "everybody"
    """What a new organization needs for its initial credit: nothing, a card that nobody has got it for before, or the
    operator's approval. A change applies to later sign-ups."""

    limit_by_source: bool = True
    """Whether strangers are limited by their source (an IPv4 address or an IPv6 /64). Switch it off behind a proxy
    that hides its clients' addresses, because one stranger's wrong codes would count for everybody. The limits by
    e-mail address and by person stay."""
    sign_in_codes_per_source: int = Field(default=60, ge=1)
    """Sign-in codes that one source may ask for within an hour, for all addresses together."""
    wrong_codes_per_source: int = Field(default=30, ge=1)
    """Wrong codes that one source may enter within an hour, for all addresses together."""
    device_codes_per_source: int = Field(default=20, ge=1)
    """Command lines of one source that may wait for approval in a browser."""

    google_client_id: str | None = None
    """With its secret: people can sign in with Google. Register `{public_url}/api/v1/auth/google/callback` there."""
    google_client_secret: SecretStr | None = None
    """The secret of google_client_id."""
    google_issuer: str = "https://accounts.google.com"
    """The provider behind *Sign in with Google*: any OpenID Connect provider will do."""
    github_client_id: str | None = None
    """With its secret: people can sign in with GitHub. Register `{public_url}/api/v1/auth/github/callback` there."""
    github_client_secret: SecretStr | None = None
    """The secret of github_client_id."""
    github_url: str = "https://github.com"
    """Where people sign in; for GitHub Enterprise, `https://your-host`."""
    github_api_url: str = "https://api.github.com"
    """For GitHub Enterprise, `https://your-host/api/v3`."""

    organizations_per_person: int = Field(default=10, ge=1)
    """Organizations that a person may be an admin of when they create another."""
    projects_per_organization: int = Field(default=30, ge=1)
    """Projects that an organization may have."""
    containers_per_project: int = Field(default=200, ge=1)
    """Containers that a project may have."""
    api_keys_per_project: int = Field(default=100, ge=1)
    """Working API keys that a project may have. Every gateway holds all of them."""
    webhooks_per_organization: int = Field(default=20, ge=1)
    """Webhooks that an organization may have."""
    invitations_per_day: int = Field(default=50, ge=1)
    """Invitations that one person, and one organization, may send, because the mails go to people who did not ask for
    them."""
    changes_per_day: int = Field(default=20_000, ge=1)
    """Requests of one person, with all their keys, that change something. They may come all at once. Nearly every one
    leaves a record that is kept for a long time."""
    streams_per_person: int = Field(default=12, ge=1)
    """Live streams of logs that one person may have open at one API process, and as many of changes. Streams of their
    keys count."""
    downloads_per_person: int = Field(default=3, ge=1)
    """Log and CSV files that one person may download at a time."""

    log_retention_days: int = Field(default=7, ge=1, le=365)
    """How long log lines of containers are kept, counted from when they were written."""
    log_bytes_per_container: int = Field(default=2**30, ge=2**20)
    """Bytes of log lines kept of one container, counted roughly as they are on disk. Beyond it the oldest lines are
    removed."""

    unused_images_kept_s: int = Field(default=6 * 3600, ge=60)
    """How long a pulled image stays on the machine after nothing runs it."""
    largest_cache_gib: int = Field(default=1024, ge=1, le=4096)
    """The largest cache that a container may have on each of its machines, for weights and compiled kernels."""
    unused_caches_kept_s: int = Field(default=14 * 86400, ge=60)
    """How long a container's cache stays on a machine after its last replica there. Shorter if the disk is almost
    full."""
    replica_retention_days: int = Field(default=30, ge=2, le=3650)
    """How long ended replicas stay listed, and how long Moorage remembers how long starts took."""
    history_retention_days: int = Field(default=400, ge=31, le=3650)
    """How long activities, audit records, revoked keys, closed invitations and the records of deleted containers
    stay. It is more than a year, so that a year's usage names its containers. The ledger and issued documents stay
    for good."""

    backup_recipient: str | None = Field(default=None, pattern=r"^age1[a-z0-9]{58}$")
    """The public half of the recovery key. Only the other half can read what `moor backup` without a file writes.
    `moor install` creates both."""
    backup_folder: Path | None = None
    """Where those backups are written. Default: `{home}/backups`. A mounted folder of another machine outlives this
    one."""
    backup_kept_days: int = Field(default=14, ge=1, le=3650)
    """How long those backups are kept. The newest three stay, however old they are."""

    otlp_endpoint: str | None = Field(default=None, pattern=r"^https?://")
    """The address of an OpenTelemetry receiver, e.g. `http://127.0.0.1:4318`. It gets traces of API requests,
    reconcilers' passes and engine calls."""

    log_file_bytes: int = Field(default=16 * 2**20, ge=2**16)
    """Size of each file in `{home}/log`, the logs of Moorage's own parts. A full file is kept once, as `.1`, and a
    new one begins."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The log level of Moorage's own parts."""
    log_format: Literal["json", "console"] = "console"
    """`json` for programs that read logs, `console` for people."""

    @field_validator("api_listen", "gateway_listen", "acme_listen")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        host, separator, port = value.rpartition(":")
        if not separator or not host or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise ValueError("must be host:port, e.g. 127.0.0.1:8080")
        return value

    @field_validator("api_role_listen", "gateway_nameserver", "health_listen")
    @classmethod
    def _is_an_address_if_given(cls, value: str | None) -> str | None:
        return value if value is None else cls._is_an_address(value)

    @field_validator("api_upstreams")
    @classmethod
    def _are_addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(cls._is_an_address(one) for one in value)

    @field_validator("api_role_gateways")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            try:
                ipaddress.ip_network(one)
            except ValueError as exc:
                raise ValueError(
                    f'must be addresses or networks, e.g. ["10.0.0.0/8"]; {one} is neither'
                ) from exc
        return value

    @field_validator("sign_up_domains")
    @classmethod
    def _are_domains(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        domains = tuple(one.strip().lower() for one in value)
        if not all(re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,187}[a-z0-9])?", one) for one in domains):
            raise ValueError('must be domains, without "@", e.g. ["example.com"]')
        return domains

    @field_validator("doctor_target")
    @classmethod
    def _is_an_address_and_a_port(cls, value: str) -> str:
        address, _, port = value.rpartition(":")
        try:
            ipaddress.IPv4Address(address)
        except ValueError:
            address = ""
        if not address or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise ValueError("must be an IPv4 address and a port, e.g. 1.1.1.1:443")
        return value

    @field_validator("tunnel_network")
    @classmethod
    def _is_a_private_network(cls, value: str) -> str:
        try:
            network = ipaddress.IPv4Network(value)
        except ValueError:
            network = None
        if network is None or not 16 <= network.prefixlen <= 23 or network.is_global:
            raise ValueError("must be an IPv4 network that is not public, /16 to /23, e.g. 198.19.0.0/16")
        return value

    @field_validator("replica_ports")
    @classmethod
    def _is_a_port_range(cls, value: str) -> str:
        first, separator, last = value.partition("-")
        if (
            not separator
            or not (first.isdigit() and last.isdigit())
            or not 1024 <= int(first) < int(last) <= 65535
        ):
            raise ValueError("must be first-last within 1024-65535, e.g. 20000-29999")
        return value

    @model_validator(mode="after")
    def _addresses_differ(self) -> "Settings":
        if self.api_listen == self.gateway_listen:
            raise ValueError("api_listen and gateway_listen must be different addresses")
        return self

    @model_validator(mode="after")
    def _names_can_be_certified(self) -> "Settings":
        if self.acme_email is None:
            return self
        if not self.certified_names:
            raise ValueError(
                "acme_email needs a name: set public_url or gateway_url to an https:// address with one, or leave acme_email out"
            )
        for name in self.certified_names:
            if len(name) > 253 or not re.fullmatch(r"([a-z0-9-]{1,63}\.)+[a-z][a-z0-9-]{1,62}", name):
                raise ValueError(f"{name} is not a name that an authority certifies; leave acme_email out")
        if self.apps_domain is not None and self.gateway_certificate is None:
            raise ValueError(
                f"Moorage cannot get a certificate for *.{self.apps_domain} by itself; name one in gateway_certificate"
            )
        if self.keys == "mounted":
            raise ValueError(
                "acme_email works on one machine only; give each of several copies its certificates"
            )
        if self.acme_listen in (self.api_listen, self.gateway_listen):
            raise ValueError("acme_listen must be an address of its own")
        return self

    @model_validator(mode="after")
    def _copies_share_a_database(self) -> "Settings":
        if self.keys == "mounted" and self.database_dsn is None:
            raise ValueError('keys = "mounted" is for copies that share a database; set database_dsn')
        return self

    @property
    def certified_names(self) -> tuple[str, ...]:
        """Those that ACME gives a certificate for."""
        if self.acme_email is None:
            return ()
        urls = ((self.public_url, self.api_certificate), (self.gateway_url, self.gateway_certificate))
        names = [urlsplit(str(url)).hostname for url, given in urls if given is None and _is_https(url)]
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def acme_dir(self) -> Path:
        return self.home / "acme"

    @property
    def acme_certificate(self) -> Path:
        return self.acme_dir / "certificate.pem"

    @property
    def served_api_certificate(self) -> Path | None:
        """With certificate and key, for api_listen: the operator's, or one that ACME gave."""
        by_itself = self.acme_email is not None and _is_https(self.public_url)
        return self.api_certificate or (self.acme_certificate if by_itself else None)

    @property
    def served_gateway_certificate(self) -> Path | None:
        by_itself = self.acme_email is not None and _is_https(self.gateway_url)
        return self.gateway_certificate or (self.acme_certificate if by_itself else None)

    @property
    def run_dir(self) -> Path:
        """Sockets, pid and lock files."""
        return self.home / "run"

    @property
    def log_dir(self) -> Path:
        return self.home / "log"

    @property
    def key_file(self) -> Path:
        return self.secret_keys_path or self.home / "secret-keys"

    @property
    def operator_key_file(self) -> Path:
        return self.operator_key_path or self.home / "operator-key"

    @property
    def backups_dir(self) -> Path:
        return self.backup_folder or self.home / "backups"

    @property
    def api_base_url(self) -> str:
        return (self.public_url or _url(self.api_listen, self.served_api_certificate)).rstrip("/")

    @property
    def local_api_url(self) -> str:
        """How this machine itself reaches the API, whatever people call it."""
        host, _, port = self.api_listen.rpartition(":")
        reached = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104 - compared, not bound
        return _url(f"{reached}:{port}", self.served_api_certificate)

    @property
    def gateway_base_url(self) -> str:
        return (self.gateway_url or _url(self.gateway_listen, self.served_gateway_certificate)).rstrip("/")

    def endpoint_url(self, container_id: str) -> str:
        if self.apps_domain is None:
            return f"{self.gateway_base_url}/c/{container_id}"
        # A host name has no underscores.
        return f"https://{container_id.replace('_', '-')}.{self.apps_domain}"

    @property
    def replica_port_range(self) -> tuple[int, int]:
        first, _, last = self.replica_ports.partition("-")
        return int(first), int(last)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, cls.toml_file)


def load_settings(config_file: Path | None = None, **overrides: Any) -> Settings:
    """Read the settings; one clear line where they are wrong."""
    config_file = config_file or find_config_file()
    try:
        Settings.toml_file = config_file
        return Settings(**overrides)
    except tomllib.TOMLDecodeError as exc:
        raise SettingsError(f"{config_file} is not valid TOML: {exc}. Fix the file and start again.") from exc
    except ValidationError as exc:
        problems = "; ".join(f"{_name(problem['loc'])}: {problem['msg']}" for problem in exc.errors())
        where = (
            f" (from {config_file} or MOORAGE_* variables)" if config_file else " (from MOORAGE_* variables)"
        )
        raise SettingsError(f"Wrong settings{where}: {problems}.") from exc
    finally:
        Settings.toml_file = None


@contextmanager
def as_a_service_has_them(config_file: Path, home: Path) -> Iterator[None]:
    """Within this, settings are those of that file and folder, whatever MOORAGE_* variables there are where a command was typed."""
    before = {name: value for name, value in os.environ.items() if name.startswith("MOORAGE_")}
    ours = {"MOORAGE_CONFIG": str(config_file), "MOORAGE_HOME": str(home)}
    try:
        _exchange_variables(ours)
        yield
    finally:
        _exchange_variables(before)


def _exchange_variables(wanted: Mapping[str, str]) -> None:
    for name in [name for name in os.environ if name.startswith("MOORAGE_")]:
        del os.environ[name]
    os.environ.update(wanted)


def find_config_file() -> Path | None:
    named = os.environ.get("MOORAGE_CONFIG")
    if named:
        if not Path(named).is_file():
            raise SettingsError(f"MOORAGE_CONFIG names {named}, which is not a file.")
        return Path(named)
    home = Path(os.environ.get("MOORAGE_HOME") or default_home())
    return next((path for path in (Path("moorage.toml"), home / "moorage.toml") if path.is_file()), None)


def default_home() -> Path:
    # As root the data cannot lie below /root: the database's unprivileged user must be able to reach it.
    return Path("/var/lib/moorage") if os.geteuid() == 0 else Path.home() / ".local/share/moorage"


def masked(settings: Settings) -> dict[str, Any]:
    """The effective settings as `moor config` shows them, secrets hidden."""
    return settings.model_dump(mode="json")


def _is_https(url: str | None) -> bool:
    return url is not None and url.startswith("https://")


def _url(listen: str, certificate: Path | None) -> str:
    return f"{'https' if certificate else 'http'}://{listen}"


def _name(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location) or "settings"
