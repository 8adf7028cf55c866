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
    """Everything that Moorage keeps: database, keys, sockets, logs of its parts."""

    installation_id: str | None = Field(default=None, pattern=r"^ins_[a-z0-9]{8,40}$")
    """The id of a new installation, where others name it before it is there, as a cluster's policies do. By default a random one."""
    pod_uid: str | None = Field(default=None, pattern=r"^[0-9a-f-]{36}$")
    """The UID of the Pod that this process runs in. A gateway's id follows from it, so that a controller knows when it is gone."""
    health_listen: str | None = None
    """`host:port` where a controller, or a gateway that is alone in a container, answers `/livez` and `/readyz`, for whoever
    starts it again."""

    api_listen: str = "127.0.0.1:8080"
    """Where the console and the management API are served."""
    api_role_listen: str | None = None
    """`host:port` where the role `api` itself listens, beside its socket, for gateways on other hosts. Plain HTTP, for a network
    that only they can use."""
    api_role_gateways: tuple[str, ...] = ()
    """Addresses or networks of those gateways, e.g. `["10.0.0.0/8"]`: what they say about where a request came from is believed."""
    api_upstreams: tuple[str, ...] = ()
    """For the role `gateway`: `host:port` of each API that it leads to, or of one name that has the addresses of all of them.
    Default: the socket of the one on this machine."""
    gateway_nameserver: str | None = None
    """`address:port` of the server that the gateway asks for such names. Default: those of /etc/resolv.conf."""
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
    """Yours. With it an authority that speaks ACME, such as Let's Encrypt, certifies the names in public_url and gateway_url, whose
    certificates are had and renewed without you; its terms count as accepted. Certificates that are named above stay yours to renew."""
    acme_listen: str = "0.0.0.0:80"
    """Where that authority looks whether the names are yours: it always asks port 80. Whatever else comes there is led to HTTPS."""
    acme_directory: str = Field(
        default="https://acme-v02.api.letsencrypt.org/directory", pattern=r"^https://"
    )
    """Of the authority."""
    acme_root: Path | None = None
    """PEM file with the root of an authority of your own, where this machine does not know it."""
    apps_domain: str | None = Field(
        default=None, pattern=r"^[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63}){0,8}(:[0-9]{1,5})?$"
    )
    """Containers get endpoints of their own, `https://{id}.{apps_domain}`; a port is part of the URL only."""

    database_dsn: SecretStr | None = None
    """`postgresql://user:password@host/database` of a server of your own (15 or newer); replaces the embedded one."""
    database_wait_s: int = Field(default=0, ge=0, le=3600)
    """How long a role that starts waits for the database and for tables of its version, which a job may just be making."""
    keys: Literal["made", "mounted"] = "made"
    """`made`: what is sealed with, and the operator's key, are made at the first start, in the data folder of this machine. `mounted`:
    several copies share them; they must be there, or nothing starts."""
    secret_keys_path: Path | None = None
    """The file of the keys that secrets are sealed with, by default `{home}/secret-keys`: lines of a 4-byte id and a 32-byte
    key, both in hex."""
    secret_keys: SecretStr | None = None
    """secret_keys_path as text instead of a file."""
    operator_key_path: Path | None = None
    """The file of the operator's key, by default `{home}/operator-key`."""
    operator_key: SecretStr | None = None
    """operator_key_path as text instead of a file."""
    database_pool_size: int = Field(default=10, ge=2, le=100)
    """Size of the pool of connections to the database that a process of the API or the controller keeps."""
    database_share_percent: int = Field(default=25, ge=1, le=100)
    """Of the API's connections to the database, for one person with all their keys, or an unknown address; beyond it,
    requests wait."""
    api_share_percent: int = Field(default=10, ge=1, le=100)
    """Of the time of the API's thread, for one person with all their keys, or an unknown address, while others ask too;
    beyond it, requests wait."""
    jobs_at_once: int = Field(default=2, ge=1, le=64)
    """Processes of the API for what takes long to compute: replays of the autoscaler, PDF files. One for a person."""
    body_timeout_s: float = Field(default=30.0, ge=0.1, le=600.0)
    """How long a client of the API may take to send a request's body."""

    docker_host: str | None = None
    """`unix:///path` of the Docker engine to use. Default: the system's, else one that Moorage starts itself."""
    container_runtime: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    """The engine's runtime for containers, e.g. `runsc` for gVisor's, which must be set up there; by default the
    engine's own. With a network stack of its own, as gVisor's, a verdict cannot say where a server listens instead."""
    gpu_handover: Literal["auto", "runtime", "cdi", "direct"] = "auto"
    """How GPUs get into containers: by NVIDIA's runtime, by CDI, or directly, as device nodes and the driver's files.
    By default the first of these that works on the machine; `moor nodes` says which, and why."""
    install_engine: bool = True
    """Whether `moor up` may install Debian's `docker.io` where no engine is found."""
    isolation: Literal["required", "waived"] = "required"
    """`required`: where a machine cannot keep containers apart (no iptables, not root, Docker Desktop), nothing new
    starts. `waived`: it does, for a machine that only its owner uses; sign-up is closed then."""
    replica_ports: str = "20000-29999"
    """Host ports for replicas; must lie outside the kernel's ephemeral range (usually from 32768)."""
    cpu_overcommit: float = Field(default=16.0, ge=1.0, le=64.0)
    """vCPUs promised per core of the machine: inference containers rarely compute all at once."""
    kubernetes: str | None = None
    """A cluster that containers run in: `in-cluster` with the account of the controller's Pod, or the path of a kubeconfig.
    Without it nothing of Kubernetes is used. Docker's machine is used beside it where docker_host names one."""
    kubernetes_account: str | None = Field(default=None, pattern=_ACCOUNT)
    """`namespace/name` of the service account that the controller has there: it gives itself its rights in each namespace
    that it makes. Without it, its rights must be for the whole cluster."""
    kubernetes_callers: tuple[str, ...] = ()
    """Namespaces whose Pods may connect to replicas: the gateways' and the controller's."""
    kubernetes_caller_networks: tuple[str, ...] = ()
    """Networks that may connect to replicas: of gateways outside the cluster, e.g. `["192.0.2.0/28"]`."""
    kubernetes_closed_networks: tuple[str, ...] = ()
    """Networks that replicas may not reach besides those that are not public: of Pods and Services, where those are."""
    kubernetes_pull_listen: str | None = Field(
        default=None, pattern=r"^[0-9A-Za-z.:\[\]-]{1,253}:[0-9]{1,5}$"
    )
    """`host:port` where the pull proxy listens for the cluster's nodes."""
    kubernetes_pull_address: str | None = Field(
        default=None, pattern=r"^[0-9A-Za-z.\[\]:-]{1,253}:[0-9]{1,5}$"
    )
    """`host:port` by which the nodes' container runtime reaches the pull proxy; images are named by it. Plain HTTP, which runtimes accept
    of `127.0.0.1` (a node port) and of registries that they are told of."""
    kubernetes_pull_peer: str | None = Field(default=None, pattern=r"^[0-9A-Za-z.\[\]:-]{1,253}:[0-9]{1,5}$")
    """`host:port` where other controllers reach the pull proxy of this one: nodes ask any of them, and the one that leads has
    the image."""
    kubernetes_local_registry: str | None = Field(
        default=None, pattern=r"^[0-9A-Za-z.:\[\]-]{1,253}(/[a-z0-9._/-]{1,200})?$"
    )
    """Where `local/…` images are for a cluster, e.g. `registry.example.com/own`. Without it there are none."""
    kubernetes_looker_image: str | None = Field(
        default=None, pattern=r"^local/[a-z0-9._/-]{1,200}(:[A-Za-z0-9_.-]{1,128})?$"
    )
    """A `local/…` image with `sh`, `cat` and `nc` in it. It tries on each node whether Pods are kept from what is not public:
    without it nothing starts in the cluster, unless isolation is waived. And it is put beside a replica that does not become
    ready, to see where its server listens instead."""
    kubernetes_door_image: str | None = Field(
        default=None, pattern=r"^local/[a-z0-9._/-]{1,200}(:[A-Za-z0-9_.-]{1,128})?$"
    )
    """A `local/…` image with `haproxy` in it, built with Lua; Moorage's own has it. It runs beside each replica and proves on every connection whose
    Pod it is, because a cluster gives the address of a Pod that ended to the next one at once. Without it nothing starts in the
    cluster, unless isolation is waived."""
    kubernetes_runtime_class: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")
    """The RuntimeClass of replicas, e.g. `gvisor`."""
    kubernetes_host_users: bool | None = None
    """`false`: uid 0 inside a replica is nobody on its node; the nodes must support user namespaces."""
    pull_timeout_s: int = Field(default=3600, ge=10, le=86400)
    """How long pulling an image may take; then the container fails with `pull_timeout`."""
    max_image_bytes: int = Field(default=100 * 2**30, ge=2**20)
    """Size of an image's layers together, both as they travel and unpacked: whoever names an image fills this disk."""
    pulls_per_organization: int = Field(default=3, ge=1, le=100)
    """Images that are pulled onto one machine for one organization at the same time; others of it wait for their turn."""
    failed_starts_per_hour: int = Field(default=6, ge=1, le=1000)
    """Starts that fail cost nothing; after so many of one replica within an hour the next has to wait."""
    starts_per_minute: int = Field(default=6, ge=1)
    """Starts and restarts of one container that somebody asks for within a minute, fixes and drafts that are applied included;
    then the next has to wait. A stop never does."""
    unpaid_starts_microusd_per_day: int = Field(default=20_000_000, ge=1)
    """What never became ready costs nothing. So much of it, at its price, is an organization's for a day (in UTC): five
    hours of an H100 that loads and fails, or half a year of the smallest machine. Then starts wait for the next day."""
    tunnel_endpoint: str | None = Field(default=None, pattern=r"^[A-Za-z0-9.:\[\]-]{1,253}:[0-9]{1,5}$")
    """`host:port` (UDP) where machines that join dial this one. Default: the host of public_url, with tunnel_port."""
    tunnel_port: int = Field(default=51820, ge=1, le=65535)
    """UDP port of the tunnel here. It is opened when the first machine is added."""
    tunnel_network: str = "198.19.0.0/16"
    """Addresses inside the tunnel, /16 to /23; they may occur in no network of these machines."""
    community_machines: bool = False
    """Whether organizations may lend machines to this installation (`moor machines add --community`): strangers run what
    tenants who agreed to it deploy."""
    allow_runc: bool = False
    """Whether a lent machine may run GPU containers without a sandbox, where its sandbox cannot hand GPUs over. Its owner is
    told before it joins: a tenant who breaks out of a container is on that machine."""
    machines_per_organization: int = Field(default=100, ge=1)
    """That it lends, or may by a command that was printed. And as many it may remove within a week."""
    largest_machine_cores: int = Field(default=1024, ge=1, le=65536)
    """So many cores are believed of a machine that joined, whatever it says of itself."""
    largest_machine_memory_gib: int = Field(default=8192, ge=1, le=1_048_576)
    """So much memory is believed of a machine that joined, whatever it says of itself."""
    drain_timeout_s: int = Field(default=30, ge=0, le=3600)
    """How long requests in flight may take to finish when a replica goes."""
    stop_grace_s: int = Field(default=10, ge=1, le=300)
    """Between the request to end and the kill of a replica's process."""
    update_watch_s: int = Field(default=180, ge=0, le=3600)
    """How long a version that was applied with `rolling` serves beside the one before it, which is there to go back to."""
    update_error_percent: float = Field(default=1.0, ge=0, le=100)
    """Percent of its answers in that time. With more errors, beyond what the version before has, it goes back by itself."""
    hold_requests_per_container: int = Field(default=128, ge=1, le=10_000)
    """Requests to a container that sleeps that one gateway holds at a time, until it has woken; more are refused."""
    hold_requests: int = Field(default=2048, ge=1, le=100_000)
    """Requests to sleeping containers that one gateway holds, of all containers together. An organization gets as many as it leaves free, so half of them at most."""
    hold_bytes: int = Field(default=134_217_728, ge=1_048_576)
    """Bytes of the bodies of held requests together, in the same shares. Beyond it, bodies wait at their clients."""
    hold_timeout_s: int = Field(default=600, ge=1, le=3600)
    """How long a request is held at most; then it is refused."""
    canary_slower_percent: float = Field(default=50.0, ge=0, le=1000)
    """A canary is dropped when its slow answers, the slowest 5 %, take so much longer than those of the version beside it."""
    canary_least_answers: int = Field(default=100, ge=1, le=1_000_000)
    """Answers of a canary before its response times are judged or a rule promotes it."""
    canary_longest_s: int = Field(default=86_400, ge=60, le=30 * 86_400)
    """Undecided for so long, a canary is dropped: somebody forgot it, and pays for its replicas."""
    moves_at_once: int = Field(default=2, ge=1, le=100)
    """Replicas of a machine that is to be empty that move to others at the same time."""
    missing_replicas_wait_s: int = Field(default=900, ge=0, le=900)
    """When most replicas of a machine are missing at once, so long may they come back before they are replaced."""

    doctor_name: str = Field(
        default="huggingface.co", pattern=r"^[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63}){0,8}$"
    )
    """The name that `moor doctor` resolves from inside a replica."""
    doctor_target: str = "1.1.1.1:443"
    """The public address and port that it connects to; no name, so that it tells of the way out alone."""

    allowed_registries: tuple[str, ...] = ()
    """Registries (`host` or `host:port`) that may be used although they are at a private address."""
    model_hub: str = Field(
        default="https://huggingface.co",
        pattern=r"^$|^https?://[A-Za-z0-9.:\[\]-]{1,253}(/[A-Za-z0-9._/-]{0,200})?$",
    )
    """Where models are looked up by their id, and where their servers fetch them (`HF_ENDPOINT`): Hugging Face or any mirror with its
    API, over HTTPS, also at a private address. Plain HTTP is for one on this machine. Empty: none is asked."""
    allowed_webhook_hosts: tuple[str, ...] = ()
    """Receivers of webhooks (`host:port`) that may be used although they are at a private address."""

    key_requests_per_s: int = Field(default=1000, ge=1, le=100_000)
    """Requests that one API key may send, to all gateways together, over 10 s; beyond, 429."""
    organization_requests_per_s: int = Field(default=3000, ge=1, le=100_000)
    """Requests that all API keys of an organization together may send, over 10 s; beyond, 429."""
    request_records_per_s: int = Field(default=20, ge=0, le=10_000)
    """Records of single requests kept of one container at one gateway. Failed requests are always kept, and all are counted."""
    gateway_connections_per_source: int = Field(default=2000, ge=0, le=100_000)
    """Connections to endpoints that one client's address may hold. 0: no limit, as behind a load balancer, whose address
    all of them come from. How many there are in all follows the limit of open files (`ulimit -Hn`)."""
    api_connections: int = Field(default=2000, ge=10, le=100_000)
    """Connections to the console and the API at a time: their own, at most a quarter of all, so that endpoints never
    wait for them."""
    api_connections_per_source: int = Field(default=500, ge=0, le=100_000)
    """Of api_connections, what one client's address may hold. 0: no limit."""
    api_requests_per_s_per_source: int = Field(default=100, ge=1, le=100_000)
    """Requests to the console and the API, of one client's address, over 10 s; beyond, 429. Without limit_by_source: no limit."""
    api_requests_at_once_per_source: int = Field(default=50, ge=1, le=100_000)
    """Requests of one client's address to the console and the API that are open at a time; of streams and downloads as many again."""
    gateway_slots: int = Field(default=64, ge=1, le=20000)
    """Containers the gateway has room for before it grows its pool by a hitless reload."""

    billing_hour_s: float = Field(default=3600.0, ge=2.0, le=3600.0)
    """How long a paid hour lasts. Shorter ones are for trying out; they cost the same."""
    owners_share_percent: int = Field(default=70, ge=0, le=100)
    """Of an hour's price, for the owner of the community machine that served in it."""
    card_earnings_held_days: int = Field(default=120, ge=0, le=3650)
    """How long owners wait for what was paid by card: until then a bank may take the payment back."""
    transfer_earnings_held_days: int = Field(default=7, ge=0, le=3650)
    """How long they wait for what was paid by bank transfer."""
    least_payout_microusd: int = Field(default=25_000_000, ge=10_000)
    """A transfer of less is not worth its fee."""
    payout_freeze_days: int = Field(default=7, ge=0, le=365)
    """After the account that earnings are sent to was changed, nothing is sent for so long: its admins may not know of it yet."""
    stripe_secret_key: SecretStr | None = None
    """The key of the card payments' provider. Without it and stripe_webhook_secret, the card option says that it is not set up."""
    stripe_webhook_secret: SecretStr | None = None
    """Signs the events that the provider sends to `/api/v1/webhooks/stripe`. Have it send `checkout.session.completed`,
    `charge.refunded`, `charge.dispute.*`, `payment_intent.succeeded` and `payment_method.*`."""
    stripe_api_base: str = "https://api.stripe.com"
    """Where the card payments' provider answers."""
    bank_details_local: str | None = Field(default=None, max_length=2000)
    """The account for transfers within the country, as people are shown it. Without it, none can be announced."""
    bank_details_international: str | None = Field(default=None, max_length=2000)
    """The account for international wires."""
    seller_name: str = Field(default="Moorage", max_length=200)
    """Who issues invoices and receipts, as they name it."""
    seller_address: str | None = Field(default=None, max_length=500)
    """The address on invoices and receipts."""
    seller_tax_id: str | None = Field(default=None, max_length=64)
    """The tax number on invoices and receipts."""
    invoice_note: str | None = Field(default=None, max_length=500)
    """A note at the end of invoices and receipts, such as what the law wants to be said about taxes."""

    operator_email: str = "operator@localhost"
    """Who the first operator is. What the installation has to say to its operator is mailed there."""
    smtp_host: str | None = None
    """The mail server. Without one, the operator reads all mails in the outbox (`GET /api/v1/operator/outbox`)."""
    smtp_port: int = Field(default=587, ge=1, le=65535)
    """The port of the mail server."""
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    """`starttls`: begin in plain text and switch to TLS. `tls`: TLS from the first byte. `none`: plain text, for a server on this machine."""
    smtp_username: str | None = None
    """The account at the mail server, if it wants one."""
    smtp_password: SecretStr | None = None
    """The password of that account."""
    mail_from: str | None = None
    """The sender's address; the operator's by default."""
    support_contact: str = "the operator of this installation"
    """Whom people should ask when something fails, as error pages say it, e.g. an e-mail address."""
    sign_up: Literal["open", "closed"] = "open"
    """`open`: whoever can read mail at an address may sign up. `closed`: only those who were invited."""
    sign_up_domains: tuple[str, ...] = ()
    """Domains of e-mail addresses that may sign up, e.g. `["example.com"]`; others need an invitation. Empty: any."""
    initial_credit: Literal["everybody", "card", "approval"] = "everybody"
    """What a new organization needs for its credit to begin with: nothing, a card that nobody got it for before, or the
    operator's approval. It holds for those who sign up from then on."""

    limit_by_source: bool = True
    """Whether strangers are limited by where they come from (an IPv4 address, an IPv6 /64). Switch it off where a proxy
    in front of Moorage hides its clients' addresses: there, one stranger's wrong codes would count for everybody. The
    limits by e-mail address stay, and those by person."""
    sign_in_codes_per_source: int = Field(default=60, ge=1)
    """Sign-in codes asked for from one source within an hour, for all addresses together."""
    wrong_codes_per_source: int = Field(default=30, ge=1)
    """Wrong codes entered from one source within an hour, for all addresses together."""
    device_codes_per_source: int = Field(default=20, ge=1)
    """Command lines of one source that wait to be approved in a browser."""

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
    """Organizations of which one person is an admin, when they make another."""
    projects_per_organization: int = Field(default=30, ge=1)
    """Projects that an organization may have."""
    containers_per_project: int = Field(default=200, ge=1)
    """Containers that a project may have."""
    api_keys_per_project: int = Field(default=100, ge=1)
    """API keys that a project may have, of those that work; every gateway holds all of them."""
    webhooks_per_organization: int = Field(default=20, ge=1)
    """Webhooks that an organization may have."""
    invitations_per_day: int = Field(default=50, ge=1)
    """Invitations by one person, and into one organization: the mails go to people who did not ask for them."""
    changes_per_day: int = Field(default=20_000, ge=1)
    """Requests of one person, with all their keys, that change something; all at once if they like. Nearly each leaves a
    record that is kept for long."""
    streams_per_person: int = Field(default=12, ge=1)
    """Live streams of logs, and as many of changes, at one API process: many more tabs than anybody looks at. Those of their keys
    count."""
    downloads_per_person: int = Field(default=3, ge=1)
    """Log and CSV files that one person may download at a time."""

    log_retention_days: int = Field(default=7, ge=1, le=365)
    """How long log lines of containers are kept, counted from when they were written."""
    log_bytes_per_container: int = Field(default=2**30, ge=2**20)
    """Bytes of log lines that are kept of one container, counted about as they lie on disk; beyond it the oldest lines go."""

    unused_images_kept_s: int = Field(default=6 * 3600, ge=60)
    """How long an image that was pulled stays on the machine after nothing runs it any more."""
    largest_cache_gib: int = Field(default=1024, ge=1, le=4096)
    """The largest cache that a container may have on each of its machines, for weights and compiled kernels."""
    unused_caches_kept_s: int = Field(default=14 * 86400, ge=60)
    """How long a container's cache stays on a machine after its last replica there; less where the disk is almost full."""
    replica_retention_days: int = Field(default=30, ge=2, le=3650)
    """How long a replica that is gone is still listed, and what starts took is remembered."""
    history_retention_days: int = Field(default=400, ge=31, le=3650)
    """How long activities, audit records, revoked keys, closed invitations and what is left of deleted containers stay.
    More than a year, so that a year's usage names its containers. The ledger and issued documents stay for good."""

    backup_recipient: str | None = Field(default=None, pattern=r"^age1[a-z0-9]{58}$")
    """The public half of the recovery key: what `moor backup` without a file writes can be read with the other half alone.
    `moor install` makes both."""
    backup_folder: Path | None = None
    """Where those backups are written, by default `{home}/backups`. A folder of another machine, mounted here, outlives this one."""
    backup_kept_days: int = Field(default=14, ge=1, le=3650)
    """How long they are kept. The newest three stay, however old they are."""

    otlp_endpoint: str | None = Field(default=None, pattern=r"^https?://")
    """The address of an OpenTelemetry receiver, e.g. `http://127.0.0.1:4318`: gets traces of API requests, passes of reconcilers and
    calls of the engine."""

    log_file_bytes: int = Field(default=16 * 2**20, ge=2**16)
    """Size of each file in `{home}/log`, the logs of Moorage's own parts. A full one is kept once, as `.1`, and begun anew."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What Moorage's own parts write into their logs."""
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
                    f'must be addresses or networks, e.g. ["10.0.0.0/8"], and {one} is none'
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
                "acme_email is for names: set public_url or gateway_url to an https:// address with one, or leave it out"
            )
        for name in self.certified_names:
            if len(name) > 253 or not re.fullmatch(r"([a-z0-9-]{1,63}\.)+[a-z][a-z0-9-]{1,62}", name):
                raise ValueError(f"{name} is no name that an authority certifies; leave acme_email out")
        if self.apps_domain is not None and self.gateway_certificate is None:
            raise ValueError(
                f"a certificate for *.{self.apps_domain} cannot be had by itself: name one in gateway_certificate"
            )
        if self.keys == "mounted":
            raise ValueError(
                "acme_email is for one machine: several copies need certificates that are given to each"
            )
        if self.acme_listen in (self.api_listen, self.gateway_listen):
            raise ValueError("acme_listen must be an address of its own")
        return self

    @model_validator(mode="after")
    def _copies_share_a_database(self) -> "Settings":
        if self.keys == "mounted" and self.database_dsn is None:
            raise ValueError('keys = "mounted" is for copies that share a database: set database_dsn')
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
