"""What a cluster must have before Moorage uses it, as the operator applies it: rights, and policies that hold Moorage itself to its
own profile. Pure; `moor kubernetes manifests` and the chart print these.

The controller's rights for the whole cluster are to look at Pods and Nodes and to make namespaces; everything else it may do only
in namespaces that it made, through a RoleBinding that it makes there. It can read no Secret anywhere. Whatever it may do by
its rights is further bounded by three admission policies, which an API server enforces and no code of ours can leave out.
"""

from typing import Any

from moorage.engines.kubernetes.door_body import COMMAND, FOLDER
from moorage.engines.kubernetes.names import (
    DOOR,
    GATE,
    LABEL_INSTALLATION,
    LABEL_REPLICA,
    LOOK,
    MAIN,
    PRIORITY_CLASS,
    REPLICA_ACCOUNT,
    TENANT_ROLE,
    namespace_prefix,
)
from moorage.engines.kubernetes.namespace_body import ServiceAccount
from moorage.kit.ids import InstallationId

CONTROLLER_ROLE = "moorage-controller"
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io/v1"
_PODS_POLICY = "moorage-replicas"
_NAMESPACES_POLICY = "moorage-namespaces"
_BINDINGS_POLICY = "moorage-role-bindings"
_LOOK_RULE = (
    f"c.name.startsWith('{LOOK}-') && c.command == ['cat', '/proc/net/tcp', '/proc/net/tcp6'] && "
    "!has(c.targetContainerName) && !has(c.volumeMounts) && !has(c.envFrom) && "
    "c.image.matches('@sha256:[0-9a-f]{64}$') && c.securityContext.runAsNonRoot == true && "
    "c.securityContext.allowPrivilegeEscalation == false && c.securityContext.capabilities.drop == ['ALL'] && "
    "!has(c.securityContext.capabilities.add) && "
    "(!has(c.securityContext.privileged) || c.securityContext.privileged == false)"
)
"""What `pod_body.look_body` makes, and nothing else."""
_DOOR_RULE = (
    f"c.name == '{DOOR}' && has(c.restartPolicy) && c.restartPolicy == 'Always' && c.command == {list(COMMAND)!r} && !has(c.args) && "
    "!has(c.envFrom) && c.env.all(e, e.name == 'POD_IP' && has(e.valueFrom) && has(e.valueFrom.fieldRef)) && "
    f"c.volumeMounts.all(m, m.name == '{DOOR}' && m.mountPath == '{FOLDER}' && m.readOnly == true) && "
    "c.image.matches('@sha256:[0-9a-f]{64}$') && c.securityContext.runAsNonRoot == true && "
    "c.securityContext.readOnlyRootFilesystem == true && c.securityContext.allowPrivilegeEscalation == false && "
    "c.securityContext.capabilities.drop == ['ALL'] && !has(c.securityContext.capabilities.add) && "
    "c.securityContext.privileged == false && !has(c.securityContext.procMount) && "
    "!has(c.securityContext.seccompProfile) && !has(c.securityContext.appArmorProfile) && "
    "c.ports.all(p, !has(p.hostPort) || p.hostPort == 0) && !has(c.volumeDevices) && !has(c.lifecycle) && "
    "!has(c.livenessProbe) && !has(c.readinessProbe) && !has(c.startupProbe) && 'memory' in c.resources.limits"
)
"""What `door_body.door_container` makes, and nothing else."""


def cluster_objects(
    installation_id: InstallationId, controller: ServiceAccount, pull_address: str | None
) -> list[dict[str, Any]]:
    """All of them, in the order in which they are applied. `pull_address`: the one registry of replicas' images."""
    return [
        priority_class(),
        controller_role(),
        tenant_role(),
        controller_binding(controller),
        *_policy(_PODS_POLICY, _of_replicas(installation_id), _replica_rules(pull_address)),
        *_policy(
            _NAMESPACES_POLICY, _of_controller(controller, "namespaces"), _namespace_rules(installation_id)
        ),
        *_policy(
            _BINDINGS_POLICY,
            _of_controller(controller, "rolebindings", _RBAC),
            _binding_rules(installation_id, controller),
        ),
    ]


def priority_class() -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PRIORITY_CLASS},
        "value": 0,
        # A tenant's replica drives nothing else away.
        "preemptionPolicy": "Never",
        "globalDefault": False,
        "description": "Replicas of Moorage's containers.",
    }


def controller_role() -> dict[str, Any]:
    """Over the whole cluster."""
    return _role(
        CONTROLLER_ROLE,
        [
            _rule("", ["namespaces"], ["get", "list", "create", "patch", "delete"]),
            # To get one tells no more than to list them, and works before there is a namespace.
            _rule("", ["pods"], ["get", "list", "watch"]),
            _rule("", ["nodes"], ["list", "watch"]),
            _rule("", ["nodes/metrics"], ["get"]),
            _rule(_RBAC, ["rolebindings"], ["create"]),
            {**_rule(_RBAC, ["clusterroles"], ["bind"]), "resourceNames": [TENANT_ROLE]},
        ],
    )


def tenant_role() -> dict[str, Any]:
    """In its own namespaces. Secrets are written and never read: a stolen token reads none by asking."""
    return _role(
        TENANT_ROLE,
        [
            _rule("", ["pods"], ["create", "patch", "delete"]),
            _rule("", ["pods/log"], ["get"]),
            _rule("", ["pods/ephemeralcontainers"], ["patch"]),
            _rule("", ["secrets"], ["create", "delete"]),
            _rule("", ["serviceaccounts"], ["create"]),
            _rule("", ["resourcequotas"], ["create", "patch"]),
            _rule("networking.k8s.io", ["networkpolicies"], ["create", "patch"]),
            _rule("policy", ["poddisruptionbudgets"], ["create", "patch"]),
        ],
    )


def controller_binding(controller: ServiceAccount) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": CONTROLLER_ROLE},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": CONTROLLER_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": controller.name, "namespace": controller.namespace}],
    }


def _role(name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _policy(
    name: str, constraints: dict[str, Any], rules: list[tuple[str, str]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A policy and its binding: what is not as a rule says is refused, with its sentence."""
    matching, conditions = constraints["match"], constraints["conditions"]
    policy = {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            # Where a rule cannot be evaluated, the request is refused.
            "failurePolicy": "Fail",
            "matchConstraints": matching,
            "matchConditions": conditions,
            "validations": [
                {"expression": expression, "message": message, "reason": "Forbidden"}
                for expression, message in rules
            ],
        },
    }
    binding = {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return policy, binding


def _of_replicas(installation_id: InstallationId) -> dict[str, Any]:
    """Every Pod in a namespace of the installation, whoever makes it."""
    selector = {"matchLabels": {LABEL_INSTALLATION: installation_id}}
    return {
        "match": {
            "namespaceSelector": selector,
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["pods", "pods/ephemeralcontainers"],
                }
            ],
        },
        # What a kubelet or the scheduler writes of a Pod is its status, or its node.
        "conditions": [
            {
                "name": "not-the-cluster-itself",
                "expression": "!request.userInfo.username.startsWith('system:node:') && "
                "!request.userInfo.username.startsWith('system:kube-')",
            }
        ],
    }


def _of_controller(controller: ServiceAccount, resource: str, group: str = "") -> dict[str, Any]:
    """What the controller itself does to these."""
    username = f"system:serviceaccount:{controller.namespace}:{controller.name}"
    return {
        "match": {
            "resourceRules": [
                {
                    "apiGroups": [group],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": [resource],
                }
            ]
        },
        "conditions": [
            {"name": "the-controller", "expression": f"request.userInfo.username == '{username}'"}
        ],
    }


def _replica_rules(pull_address: str | None) -> list[tuple[str, str]]:
    """The container profile, as somebody else checks it."""
    spec, every = "object.spec", "object.spec.containers.all(c, {})"
    looks, beside = "object.spec.ephemeralContainers", "object.spec.initContainers"
    its_door = (
        f"(v.name == '{DOOR}' && has(v.secret) && v.secret.secretName == object.metadata.name + '-{DOOR}')"
    )
    no_list = "(!has({0}) || size({0}) == 0)"
    context, confined = "has(c.securityContext)", f"{spec}.securityContext.seccompProfile"
    rules = [
        (
            f"has(object.metadata.labels) && '{LABEL_REPLICA}' in object.metadata.labels",
            "only replicas of Moorage run here",
        ),
        (f"{spec}.restartPolicy == 'Never'", "nobody restarts a replica but Moorage"),
        (
            f"size({spec}.containers) == 1 && {spec}.containers[0].name == '{MAIN}'",
            "a replica is one container",
        ),
        (
            f"{no_list.format(beside)} || (size({beside}) == 1 && {beside}.all(c, {_DOOR_RULE}))",
            "a replica has no other container than its door",
        ),
        (
            every.format(f"!has(c.volumeMounts) || c.volumeMounts.all(m, m.name != '{DOOR}')"),
            "a replica does not see its door's key",
        ),
        (
            f"!has({looks}) || {looks}.all(c, {_LOOK_RULE})",
            "nothing is added to a replica but a look at its sockets",
        ),
        (
            f"has({spec}.automountServiceAccountToken) && {spec}.automountServiceAccountToken == false",
            "a replica gets no token of the cluster",
        ),
        (
            f"{spec}.serviceAccountName == '{REPLICA_ACCOUNT}'",
            "a replica has no account of the cluster",
        ),
        *(
            (f"!has({spec}.{name}) || {spec}.{name} == false", f"a replica has no {name}")
            for name in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")
        ),
        (f"{spec}.priorityClassName == '{PRIORITY_CLASS}'", "a replica drives nothing else away"),
        (f"!has({spec}.hostAliases) || size({spec}.hostAliases) == 0", "a replica names no hosts"),
        (
            f"has({confined}) && {confined}.type == 'RuntimeDefault'",
            "a replica's system calls are filtered",
        ),
        (
            f"!has({spec}.securityContext.sysctls) || size({spec}.securityContext.sysctls) == 0",
            "a replica changes nothing of the kernel",
        ),
        (
            every.format(
                f"{context} && has(c.securityContext.capabilities) && has(c.securityContext.capabilities.drop) && "
                "'ALL' in c.securityContext.capabilities.drop && "
                "(!has(c.securityContext.capabilities.add) || size(c.securityContext.capabilities.add) == 0)"
            ),
            "a replica has no capabilities",
        ),
        (
            every.format(
                f"{context} && has(c.securityContext.allowPrivilegeEscalation) && "
                "c.securityContext.allowPrivilegeEscalation == false && "
                "(!has(c.securityContext.privileged) || c.securityContext.privileged == false)"
            ),
            "a replica gains no privileges",
        ),
        (
            every.format("!has(c.securityContext.seccompProfile) && !has(c.securityContext.appArmorProfile)"),
            "a container does not choose its own confinement",
        ),
        (
            every.format("!has(c.securityContext.procMount) || c.securityContext.procMount == 'Default'"),
            "the kernel's files stay hidden",
        ),
        (
            every.format("!has(c.volumeDevices) || size(c.volumeDevices) == 0"),
            "a replica has no devices",
        ),
        (
            every.format("!has(c.ports) || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0)"),
            "a replica takes no port of its node",
        ),
        (
            every.format(
                "!has(c.lifecycle) && !has(c.livenessProbe) && !has(c.readinessProbe) && !has(c.startupProbe)"
            ),
            "only Moorage judges a replica",
        ),
        (
            f"!has({spec}.volumes) || {spec}.volumes.all(v, has(v.emptyDir) || {its_door})",
            "a replica mounts nothing of its node or of the cluster",
        ),
        (
            every.format(
                "has(c.resources) && has(c.resources.limits) && 'memory' in c.resources.limits && "
                "'cpu' in c.resources.limits && 'ephemeral-storage' in c.resources.limits"
            ),
            "a replica has limits",
        ),
        (every.format("c.imagePullPolicy == 'Always'"), "a replica's image is asked for each time"),
        (
            every.format("c.image.matches('@sha256:[0-9a-f]{64}$')"),
            "a replica's image is named by its digest",
        ),
        (
            f"!has({spec}.schedulingGates) || {spec}.schedulingGates.all(g, g.name == '{GATE}')",
            "a replica waits for nothing but its secrets",
        ),
    ]
    if pull_address is not None:
        rules.append(
            (
                every.format(f"c.image.startsWith('{pull_address}/')"),
                "images come from Moorage's pull proxy alone",
            )
        )
        rules.append(
            (
                f"!has({looks}) || {looks}.all(c, c.image.startsWith('{pull_address}/'))",
                "so does what looks into a replica",
            )
        )
        rules.append(
            (
                f"!has({beside}) || {beside}.all(c, c.image.startsWith('{pull_address}/'))",
                "so does the door of a replica",
            )
        )
    return rules


def _namespace_rules(installation_id: InstallationId) -> list[tuple[str, str]]:
    label = f"object.metadata.labels['{LABEL_INSTALLATION}'] == '{installation_id}'"
    enforced = "object.metadata.labels['pod-security.kubernetes.io/enforce'] in ['baseline', 'restricted']"
    return [
        (
            f"request.name.startsWith('{namespace_prefix(installation_id)}')",
            "Moorage's controller touches its own namespaces alone",
        ),
        (
            f"request.operation == 'DELETE' || (has(object.metadata.labels) && {label} && {enforced})",
            "Moorage's namespaces say whose they are, and enforce Pod Security",
        ),
    ]


def _binding_rules(installation_id: InstallationId, controller: ServiceAccount) -> list[tuple[str, str]]:
    return [
        (
            f"request.namespace.startsWith('{namespace_prefix(installation_id)}')",
            "Moorage's controller gives itself rights in its own namespaces alone",
        ),
        (
            f"request.operation == 'CREATE' && object.roleRef.name == '{TENANT_ROLE}'",
            "Moorage's controller gives itself one role",
        ),
        (
            f"object.subjects.all(s, s.name == '{controller.name}' && s.namespace == '{controller.namespace}')",
            "Moorage's controller gives rights to itself alone",
        ),
    ]
