"""What all of Moorage's own Pods have in common. Pure.

No user, no right, no file of the image that could be written to; nothing mounted but what the role needs.
"""

from typing import Any

from moorage.entrypoints.kubernetes.tree import Source

USER = 65532
HOME = "/var/lib/moorage"
KEYS = "/keys"
_TRUST = "/trust"
_UNREACHABLE_S = 20
"""After so long without its node, a Pod of ours is made elsewhere; Kubernetes' own default is five minutes."""


def labels(component: str, release: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "moorage",
        "app.kubernetes.io/instance": release,
        "app.kubernetes.io/component": component,
    }


def metadata(source: Source, component: str, **more: Any) -> dict[str, Any]:
    return {
        "name": f"moorage-{component}",
        "namespace": source.namespace,
        "labels": {**labels(component, source.release), "app.kubernetes.io/version": source.version},
        **more,
    }


def environment(source: Source, *more: Any) -> list[Any]:
    return [
        {"name": "MOORAGE_KEYS", "value": "mounted"},
        {"name": "MOORAGE_SECRET_KEYS_PATH", "value": f"{KEYS}/secret-keys"},
        {"name": "MOORAGE_INSTALLATION_ID", "value": source.installation_id},
        {"name": "MOORAGE_PUBLIC_URL", "value": source.value("publicUrl")},
        {"name": "MOORAGE_GATEWAY_URL", "value": source.value("gatewayUrl")},
        {"name": "MOORAGE_OPERATOR_EMAIL", "value": source.value("operatorEmail")},
        {"name": "MOORAGE_ISOLATION", "value": source.value("isolation")},
        {
            "name": "MOORAGE_DATABASE_DSN",
            "valueFrom": {"secretKeyRef": {"name": source.value("database.existingSecret"), "key": "dsn"}},
        },
        source.when("trust.existingSecret", {"name": "SSL_CERT_FILE", "value": f"{_TRUST}/ca.crt"}),
        *more,
        *source.settings(),
    ]


def pod_spec(
    source: Source,
    component: str,
    container: dict[str, Any],
    *,
    account: str | None = None,
    key_files: tuple[str, ...] = ("secret-keys",),
    volumes: tuple[Any, ...] = (),
    mounts: tuple[Any, ...] = (),
    **more: Any,
) -> dict[str, Any]:
    keys: list[Any] = []
    if key_files:
        items = [{"key": name, "path": name} for name in key_files]
        secret = {"secretName": source.value("keys.existingSecret"), "items": items, "defaultMode": 0o440}
        keys.append({"name": "keys", "secret": secret})
    return {
        "automountServiceAccountToken": account is not None,
        "serviceAccountName": account or "moorage",
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "imagePullSecrets": source.when("image.pullSecrets", pull_secrets(source)),
        "nodeSelector": source.value("nodeSelector"),
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{what}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _UNREACHABLE_S,
            }
            for what in ("not-ready", "unreachable")
        ],
        **more,
        "containers": [
            {
                "name": component,
                "image": source.image,
                "imagePullPolicy": source.value("image.pullPolicy"),
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "envFrom": source.when(
                    "settingsSecret", [{"secretRef": {"name": source.value("settingsSecret")}}]
                ),
                **container,
                "volumeMounts": [
                    {"name": "home", "mountPath": HOME},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of its own
                    *([{"name": "keys", "mountPath": KEYS, "readOnly": True}] if key_files else []),
                    source.when(
                        "trust.existingSecret", {"name": "trust", "mountPath": _TRUST, "readOnly": True}
                    ),
                    *mounts,
                ],
            }
        ],
        "volumes": [
            {"name": "home", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
            *keys,
            source.when(
                "trust.existingSecret",
                {"name": "trust", "secret": {"secretName": source.value("trust.existingSecret")}},
            ),
            *volumes,
        ],
    }


def pull_secrets(source: Source) -> Any:
    """Named as the operator named them; Kubernetes wants each as an object."""
    return source.named_objects("image.pullSecrets")


def spread(source: Source, component: str) -> dict[str, Any]:
    """Never two on one node while another has none; across zones where there are some."""
    selector = {"matchLabels": labels(component, source.release)}
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
            }
            for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
        ],
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": selector,
                        },
                    }
                ]
            }
        },
    }


def resources(source: Source, component: str) -> dict[str, Any]:
    memory = source.value(f"resources.{component}.memory")
    return {
        "requests": {"cpu": source.value("resources.requestCpu"), "memory": memory},
        "limits": {"memory": memory},
    }


def probe(path: str, port: int, **more: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": port}, "timeoutSeconds": 5, **more}
