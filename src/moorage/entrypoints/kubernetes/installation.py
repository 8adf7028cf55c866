"""Moorage in a cluster, as objects: what the chart holds and `moor kubernetes manifests` prints. Pure.

Rights and policies are those of the engine (`engines/kubernetes/objects.py`), which its tests hold to what it uses.
"""

from typing import Any

from moorage.engines.kubernetes import objects as engine_objects
from moorage.engines.kubernetes.names import namespace_prefix
from moorage.engines.kubernetes.namespace_body import ServiceAccount
from moorage.entrypoints.kubernetes.pods import (
    KEYS,
    environment,
    labels,
    metadata,
    pod_spec,
    probe,
    resources,
    spread,
)
from moorage.entrypoints.kubernetes.tree import Source
from moorage.kit.ids import InstallationId

CONTROLLER_ACCOUNT = "moorage-controller"
API_PORT, ENDPOINT_PORT, CONSOLE_PORT, HEALTH_PORT, PULL_PORT, PULL_PEER_PORT = (
    8000,
    8081,
    8080,
    8090,
    5050,
    5051,
)
_GRACE_S = 60
"""For what is under way when a Pod has to go: longer than `drain_timeout_s`, and its gateway's pause."""
_LEAVES_AFTER_S = 8
"""So long a Pod that is to end goes on as before: until then everybody has heard that it leaves."""
_TLS = "/tls"


def installation_objects(source: Source) -> dict[str, list[Any]]:
    """By the chart's file, in the order in which they are applied."""
    return {
        "accounts": [_account(source, "moorage"), _account(source, CONTROLLER_ACCOUNT)],
        "rights-and-policies": cluster_wide(source),
        "network-policies": network_policies(source),
        "bootstrap": [bootstrap_job(source)],
        "services": services(source),
        "api": [api(source)],
        "controller": [controller(source)],
        "gateway": [gateway(source)],
        "budgets": [_budget(source, one) for one in ("api", "controller", "gateway")],
    }


def cluster_wide(source: Source) -> list[Any]:
    installation_id = InstallationId(source.installation_id)
    controller = ServiceAccount(source.namespace, CONTROLLER_ACCOUNT)
    bodies = engine_objects.cluster_objects(installation_id, controller, source.pull_address)
    # The prefix is a hash of the id, which Helm computes for itself.
    return [_replaced(body, namespace_prefix(installation_id), source.namespace_prefix) for body in bodies]


def _account(source: Source, name: str) -> dict[str, Any]:
    """`moorage` has no right at all, and no token is mounted."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {**metadata(source, "account"), "name": name},
        "automountServiceAccountToken": False,
    }


def bootstrap_job(source: Source) -> dict[str, Any]:
    """Makes or upgrades the tables, and the first records. Before everything else, at each version; safe to repeat."""
    operator_key = {"name": "MOORAGE_OPERATOR_KEY_PATH", "value": f"{KEYS}/operator-key"}
    container = {
        "args": ["bootstrap", "--wait", "300", "--without-dump"],
        "env": environment(source, operator_key),
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
    }
    spec = pod_spec(
        source,
        "bootstrap",
        container,
        key_files=("secret-keys", "operator-key"),
        restartPolicy="OnFailure",
    )
    # It runs before the chart's own accounts are there, and needs none.
    spec["serviceAccountName"] = "default"
    hook = {
        "helm.sh/hook": "pre-install,pre-upgrade",
        "helm.sh/hook-delete-policy": "before-hook-creation",
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(source, "bootstrap", annotations=hook),
        "spec": {
            "backoffLimit": 10,
            "template": {"metadata": {"labels": labels("bootstrap", source.release)}, "spec": spec},
        },
    }


def api(source: Source) -> dict[str, Any]:
    more = [
        {"name": "MOORAGE_API_ROLE_LISTEN", "value": f"0.0.0.0:{API_PORT}"},
        {"name": "MOORAGE_API_ROLE_GATEWAYS", "value": source.json_text("podNetworks")},
    ]
    container = {
        "args": ["serve", "--role", "api"],
        "env": environment(source, _wait(source), *more),
        "ports": [{"name": "http", "containerPort": API_PORT}],
        "readinessProbe": probe("/readyz", API_PORT, periodSeconds=3, failureThreshold=2),
        "livenessProbe": probe("/healthz", API_PORT, periodSeconds=10, failureThreshold=6),
        "startupProbe": probe("/healthz", API_PORT, periodSeconds=2, failureThreshold=90),
        "lifecycle": _leave_slowly(),
        "resources": resources(source, "api"),
    }
    return _deployment(source, "api", pod_spec(source, "api", container, **_in_copies(source, "api")))


def controller(source: Source) -> dict[str, Any]:
    pod_ip = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    more = [
        {"name": "MOORAGE_KUBERNETES", "value": "in-cluster"},
        {"name": "MOORAGE_KUBERNETES_ACCOUNT", "value": f"{source.namespace}/{CONTROLLER_ACCOUNT}"},
        {"name": "MOORAGE_KUBERNETES_CALLERS", "value": f'["{source.namespace}"]'},
        {"name": "MOORAGE_KUBERNETES_PULL_LISTEN", "value": f"0.0.0.0:{PULL_PORT}"},
        {"name": "MOORAGE_KUBERNETES_PULL_ADDRESS", "value": source.pull_address},
        pod_ip,
        {"name": "MOORAGE_KUBERNETES_PULL_PEER", "value": f"$(POD_IP):{PULL_PEER_PORT}"},
        {"name": "MOORAGE_HEALTH_LISTEN", "value": f"0.0.0.0:{HEALTH_PORT}"},
        source.when(
            "localRegistry",
            {"name": "MOORAGE_KUBERNETES_LOCAL_REGISTRY", "value": source.value("localRegistry")},
        ),
        *(
            source.when("localRegistry", {"name": name, "value": f"local/moorage:{source.tag}"})
            for name in ("MOORAGE_KUBERNETES_LOOKER_IMAGE", "MOORAGE_KUBERNETES_DOOR_IMAGE")
        ),
        source.when(
            "runtimeClass",
            {"name": "MOORAGE_KUBERNETES_RUNTIME_CLASS", "value": source.value("runtimeClass")},
        ),
    ]
    container = {
        "args": ["serve", "--role", "controller"],
        "env": environment(source, _wait(source), *more),
        "ports": [
            {"name": "pulls", "containerPort": PULL_PORT},
            {"name": "pull-peer", "containerPort": PULL_PEER_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
        ],
        "readinessProbe": probe("/readyz", HEALTH_PORT, periodSeconds=5, failureThreshold=2),
        "livenessProbe": probe("/livez", HEALTH_PORT, periodSeconds=10, failureThreshold=6),
        "startupProbe": probe("/livez", HEALTH_PORT, periodSeconds=2, failureThreshold=90),
        "resources": resources(source, "controller"),
    }
    spec = pod_spec(
        source, "controller", container, account=CONTROLLER_ACCOUNT, **_in_copies(source, "controller")
    )
    return _deployment(source, "controller", spec)


def gateway(source: Source) -> dict[str, Any]:
    uid = {"name": "MOORAGE_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    apis = f'["moorage-api.{source.namespace}.svc.{{}}:{API_PORT}"]'
    more = [
        {"name": "MOORAGE_API_LISTEN", "value": f"0.0.0.0:{CONSOLE_PORT}"},
        {"name": "MOORAGE_GATEWAY_LISTEN", "value": f"0.0.0.0:{ENDPOINT_PORT}"},
        {"name": "MOORAGE_API_UPSTREAMS", "value": source.filled(apis, "clusterDomain")},
        {"name": "MOORAGE_HEALTH_LISTEN", "value": f"0.0.0.0:{HEALTH_PORT}"},
        uid,
        *(
            source.when(
                "gateway.tlsSecret", {"name": f"MOORAGE_{name}_CERTIFICATE", "value": f"{_TLS}/tls.pem"}
            )
            for name in ("API", "GATEWAY")
        ),
    ]
    container = {
        "args": ["serve", "--role", "gateway", "--in-container"],
        "env": environment(source, *more),
        "ports": [
            {"name": "console", "containerPort": CONSOLE_PORT},
            {"name": "endpoints", "containerPort": ENDPOINT_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
        ],
        "readinessProbe": probe("/readyz", HEALTH_PORT, periodSeconds=2, failureThreshold=2),
        "livenessProbe": probe("/livez", HEALTH_PORT, periodSeconds=10, failureThreshold=6),
        "startupProbe": probe("/livez", HEALTH_PORT, periodSeconds=1, failureThreshold=180),
        "lifecycle": _leave_slowly(),
        "resources": resources(source, "gateway"),
    }
    tls = source.value("gateway.tlsSecret")
    spec = pod_spec(
        source,
        "gateway",
        container,
        # It seals nothing, so it has no keys.
        key_files=(),
        volumes=(
            source.when(
                "gateway.tlsSecret", {"name": "tls", "secret": {"secretName": tls, "defaultMode": 0o440}}
            ),
        ),
        mounts=(source.when("gateway.tlsSecret", {"name": "tls", "mountPath": _TLS, "readOnly": True}),),
        **_in_copies(source, "gateway"),
    )
    return _deployment(source, "gateway", spec)


def services(source: Source) -> list[Any]:
    """Of replicas there are none: gateways know each by its address."""
    return [
        _service(
            source,
            "gateway",
            [
                _public_port(source, "console", "api", CONSOLE_PORT),
                _public_port(source, "endpoints", "endpoint", ENDPOINT_PORT),
            ],
            type=source.value("gateway.serviceType"),
            annotations=source.value("gateway.serviceAnnotations"),
        ),
        # All addresses, and unready ones too: gateways ask each of them whether it is ready.
        _service(
            source,
            "api",
            [_port("http", API_PORT, API_PORT)],
            clusterIP="None",
            publishNotReadyAddresses=True,
        ),
        {
            **_service(
                source,
                "controller",
                [{**_port("pulls", PULL_PORT, PULL_PORT), "nodePort": source.value("pulls.nodePort")}],
                type="NodePort",
            ),
        },
    ]


def network_policies(source: Source) -> list[Any]:
    """Who may connect to Moorage's own Pods. Kubelets always may."""
    gateways = [{"podSelector": {"matchLabels": labels("gateway", source.release)}}]
    controllers = [{"podSelector": {"matchLabels": labels("controller", source.release)}}]
    return [
        _network_policy(source, "api", [{"from": gateways, "ports": _ports(API_PORT)}]),
        _network_policy(
            source,
            "controller",
            [
                # Nodes' container runtimes: their addresses are nobody's to list. A ticket's password is asked for.
                {"ports": _ports(PULL_PORT)},
                {"from": controllers, "ports": _ports(PULL_PEER_PORT)},
            ],
        ),
        _network_policy(source, "gateway", [{"ports": _ports(CONSOLE_PORT, ENDPOINT_PORT)}]),
        _network_policy(source, "bootstrap", []),
    ]


def _deployment(source: Source, component: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(source, component),
        "spec": {
            "replicas": source.value(f"{component}.replicas"),
            "selector": {"matchLabels": labels(component, source.release)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {"metadata": {"labels": labels(component, source.release)}, "spec": spec},
        },
    }


def _in_copies(source: Source, component: str) -> dict[str, Any]:
    return {"terminationGracePeriodSeconds": _GRACE_S, **spread(source, component)}


def _budget(source: Source, component: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(source, component),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": labels(component, source.release)},
            # One that does not get ready is no reason to keep a node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _service(
    source: Source, component: str, ports: list[Any], *, annotations: Any = None, **more: Any
) -> dict[str, Any]:
    extra = {} if annotations is None else {"annotations": annotations}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(source, component, **extra),
        "spec": {"selector": labels(component, source.release), "ports": ports, **more},
    }


def _network_policy(source: Source, component: str, ingress: list[Any]) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(source, component),
        "spec": {
            "podSelector": {"matchLabels": labels(component, source.release)},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }


def _port(name: str, port: Any, target: int) -> dict[str, Any]:
    return {"name": name, "port": port, "targetPort": target, "protocol": "TCP"}


def _public_port(source: Source, name: str, value: str, target: int) -> dict[str, Any]:
    node_port = source.when(f"gateway.{value}NodePort", source.value(f"gateway.{value}NodePort"))
    return {**_port(name, source.value(f"gateway.{value}Port"), target), "nodePort": node_port}


def _ports(*ports: int) -> list[Any]:
    return [{"port": port, "protocol": "TCP"} for port in ports]


def _wait(source: Source) -> dict[str, Any]:
    return {"name": "MOORAGE_DATABASE_WAIT_S", "value": source.as_text("database.waitSeconds")}


def _leave_slowly() -> dict[str, Any]:
    return {"preStop": {"exec": {"command": ["sleep", str(_LEAVES_AFTER_S)]}}}


def _replaced(node: Any, old: str, new: str) -> Any:
    if isinstance(node, str):
        return node.replace(old, new)
    if isinstance(node, dict):
        return {key: _replaced(one, old, new) for key, one in node.items()}
    return [_replaced(one, old, new) for one in node] if isinstance(node, list) else node
