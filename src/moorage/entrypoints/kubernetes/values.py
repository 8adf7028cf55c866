"""What an operator may say about an installation in a cluster: one list, of which the chart's `values.yaml` and its schema are made,
and by which `moor kubernetes manifests` checks what it is given. Pure.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from moorage.kit.errors import SettingsError

Kind = Literal["text", "number", "texts", "map"]
_NAME = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
_NAME_OR_NOTHING = r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?$"
_PLAIN = r"^[^\"\\\x00-\x1f{}]*$"
"""Text that stands between quotes as it is."""
_NETWORK = r"^[0-9a-fA-F.:]{2,45}/[0-9]{1,3}$"


@dataclass(frozen=True)
class Value:
    path: str
    default: Any
    about: str
    kind: Kind = "text"
    pattern: str = _PLAIN
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 65535
    required: bool = False
    """Nothing can be made up for it."""


VALUES = (
    Value("image.repository", "moorage", "Where Moorage's image is (`make image` builds it)."),
    Value(
        "image.tag", "", "The image's tag. Default: the chart's version.", pattern=r"^[A-Za-z0-9_.-]{0,128}$"
    ),
    Value(
        "image.pullPolicy", "IfNotPresent", "When nodes pull it.", choices=("Always", "IfNotPresent", "Never")
    ),
    Value("image.pullSecrets", [], "Names of Secrets with the registry's password.", "texts", _NAME),
    Value(
        "installationId",
        "",
        "The installation's id in namespaces, labels and policies. Default: derived from the release's name "
        "and namespace. A restored database has its own id, which `moor bootstrap` prints.",
        pattern=r"^(ins_[a-z0-9]{8,40})?$",
    ),
    Value(
        "database.existingSecret",
        "moorage-database",
        "A Secret with `dsn`: postgresql://user:password@host/database?sslmode=verify-full. Postgres 15 or newer, direct connections.",
        pattern=_NAME,
    ),
    Value("database.waitSeconds", 120, "How long roles wait for its tables.", "number", most=3600),
    Value(
        "keys.existingSecret",
        "moorage-keys",
        "A Secret with `secret-keys` and `operator-key`, as `moor new-keys` makes them. Nothing can be read without the first: keep a copy.",
        pattern=_NAME,
    ),
    Value("operatorEmail", "operator@localhost", "The first operator's e-mail address, to sign in with."),
    Value(
        "publicUrl", "", "How people reach the console and the API: https://cloud.example.com", required=True
    ),
    Value("gatewayUrl", "", "How clients reach endpoints: https://inference.example.com", required=True),
    Value("api.replicas", 2, "Copies of the API.", "number", least=1, most=50),
    Value("controller.replicas", 2, "Copies of the controller; one leads.", "number", least=1, most=5),
    Value("gateway.replicas", 2, "Copies of the gateway; all serve.", "number", least=1, most=50),
    Value(
        "gateway.serviceType",
        "LoadBalancer",
        "Of the Service that clients reach.",
        choices=("LoadBalancer", "NodePort", "ClusterIP"),
    ),
    Value("gateway.apiPort", 80, "Of that Service, for the console and the API.", "number", least=1),
    Value("gateway.endpointPort", 8081, "Of that Service, for containers' endpoints.", "number", least=1),
    Value(
        "gateway.apiNodePort",
        0,
        "The node port for apiPort, on every node. 0: the cluster chooses.",
        "number",
    ),
    Value("gateway.endpointNodePort", 0, "The node port for endpointPort. 0: the cluster chooses.", "number"),
    Value(
        "gateway.tlsSecret",
        "",
        "A Secret with `tls.pem`: certificate and key, one after the other. With it both ports speak TLS.",
        pattern=_NAME_OR_NOTHING,
    ),
    Value("gateway.serviceAnnotations", {}, "For the load balancer of your cloud.", "map"),
    Value(
        "pulls.nodePort",
        30500,
        "The node port for pulling replicas' images: nodes use 127.0.0.1 and this port, plain HTTP, which "
        "container runtimes accept from that address. Only nodes need it; close it to everybody else in "
        "your cloud's firewall.",
        "number",
        least=30000,
        most=32767,
    ),
    Value(
        "pulls.address",
        "",
        "`host:port` to use instead if nodes do not reach node ports at 127.0.0.1. Configure their runtime to use plain HTTP there.",
        pattern=r"^([0-9A-Za-z.-]{1,253}:[0-9]{1,5})?$",
    ),
    Value(
        "localRegistry",
        "",
        "Your own registry with `local/…` images: registry.example.com/own. It must have Moorage's image as "
        "`moorage`, which tests the isolation of nodes and is the door beside each replica.",
        pattern=r"^([0-9A-Za-z.:-]{1,253}(/[a-z0-9._/-]{1,200})?)?$",
    ),
    Value(
        "trust.existingSecret",
        "",
        "A Secret with `ca.crt`: authorities to trust instead of the usual ones, if your own authority "
        "signs your registry or mail server. Add the usual ones to the file if you need them too.",
        pattern=_NAME_OR_NOTHING,
    ),
    Value(
        "isolation",
        "required",
        "`waived`: containers start although Moorage has not tested that the cluster keeps them apart. Sign-up is then closed.",
        choices=("required", "waived"),
    ),
    Value("runtimeClass", "", "Of replicas, such as gvisor.", pattern=_NAME_OR_NOTHING),
    Value("clusterDomain", "cluster.local", "Of the cluster's DNS.", pattern=_NAME),
    Value(
        "podNetworks",
        ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"],
        "The networks of the gateways' Pods. The API trusts what they say about clients.",
        "texts",
        _NETWORK,
    ),
    Value(
        "settings",
        {},
        "Any other setting, as in moorage.toml: {smtp_host: mail.example.com, sign_up: closed}. Lists are JSON text.",
        "map",
        r"^[a-z][a-z0-9_]*$",
    ),
    Value(
        "settingsSecret",
        "",
        "A Secret with more settings that are secret: MOORAGE_SMTP_PASSWORD, MOORAGE_STRIPE_SECRET_KEY.",
        pattern=_NAME_OR_NOTHING,
    ),
    Value("nodeSelector", {}, "Node selector for Moorage's own Pods.", "map"),
    Value("resources.api.memory", "512Mi", "Of each API.", pattern=r"^[0-9]+[MG]i$"),
    Value("resources.controller.memory", "768Mi", "Of each controller.", pattern=r"^[0-9]+[MG]i$"),
    Value("resources.gateway.memory", "768Mi", "Of each gateway.", pattern=r"^[0-9]+[MG]i$"),
    Value(
        "resources.requestCpu",
        "250m",
        "What each of them requests. Default: a quarter of a core.",
        pattern=r"^[0-9]+m?$",
    ),
)
BY_PATH = {value.path: value for value in VALUES}


def defaults() -> dict[str, Any]:
    """By path."""
    return {value.path: value.default for value in VALUES}


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values by path, with defaults for what was not given. Raises `SettingsError` that names what is wrong."""
    found = defaults() | _flat(given, "")
    for path, value in found.items():
        if (wrong := _wrong(BY_PATH[path], value)) is not None:
            raise SettingsError(f"{path} {wrong}.")
    return found


def _flat(given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in given.items():
        path = f"{prefix}{name}"
        if path in BY_PATH:
            flat[path] = value
        elif isinstance(value, Mapping) and any(known.startswith(f"{path}.") for known in BY_PATH):
            flat |= _flat(value, f"{path}.")
        else:
            raise SettingsError(f"There is no value {path}. `moor kubernetes values` prints all of them.")
    return flat


def _wrong(known: Value, value: Any) -> str | None:
    schema = schema_of(known)
    kinds: dict[str, type | tuple[type, ...]] = {"text": str, "texts": list, "map": dict}
    if known.kind == "number":
        if not isinstance(value, int) or isinstance(value, bool) or not known.least <= value <= known.most:
            return f"must be a number from {known.least} to {known.most}"
        return None
    if not isinstance(value, kinds[known.kind]):
        return f"must be of type {schema['type']}"
    texts = [value] if isinstance(value, str) else list(value) if isinstance(value, list | dict) else []
    if known.required and not value:
        return "must be given"
    if known.choices and value not in known.choices:
        return f"must be one of {', '.join(known.choices)}"
    for text in texts:
        if not isinstance(text, str) or not re.match(known.pattern, text):
            return f"has {text!r}, which is not of the form {known.pattern}"
    return None


def schema_of(value: Value) -> dict[str, Any]:
    about = {"description": value.about}
    text = {"type": "string", "pattern": value.pattern}
    match value.kind:
        case "number":
            return {"type": "integer", "minimum": value.least, "maximum": value.most, **about}
        case "texts":
            return {"type": "array", "items": text, **about}
        case "map":
            plain = {"type": ["string", "integer", "boolean"]}
            return {
                "type": "object",
                "propertyNames": {"pattern": value.pattern},
                "additionalProperties": plain,
                **about,
            }
    if value.choices:
        return {"type": "string", "enum": list(value.choices), **about}
    return {**text, **({"minLength": 1} if value.required else {}), **about}
