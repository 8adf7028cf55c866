"""What the controller's account may do in a real cluster, and what an API server refuses it, whatever it asks."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from moorage.engines.kubernetes.account import account_from
from moorage.engines.kubernetes.connection import MERGE_PATCH, ApiError, ApiServer
from moorage.engines.kubernetes.names import PodKey
from moorage.engines.kubernetes.pod_body import ClusterOptions, look_body, pod_body
from moorage.kit.clock import system_clock
from tests.engine.contract import spec_of, start
from tests.kubernetes.cluster_world import RealWorld

pytestmark = pytest.mark.cluster

DIGEST = f"@sha256:{'0' * 64}"


async def refused(api: ApiServer, method: str, path: str, body: Any = None, **more: Any) -> str:
    with pytest.raises(ApiError) as caught:
        await api.call("try", method, path, body=body, **more)
    assert caught.value.status == 403, caught.value
    return caught.value.said


async def test_what_it_may_not_do(real: RealWorld) -> None:
    started = await start(real, await spec_of(real, "serves"))
    key = PodKey.parse(started.engine_id)
    assert key is not None
    own, pod = f"/api/v1/namespaces/{key.namespace}", f"/api/v1/namespaces/{key.namespace}/pods/{key.name}"
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    api = ApiServer(account_from(real.kubeconfig), system_clock)
    binding = {
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "moorage-controller", "namespace": "moorage"}],
    }
    tenant = {**binding, "roleRef": {**binding["roleRef"], "name": "moorage-tenant"}}  # type: ignore[dict-item]
    other = copy.deepcopy(tenant)
    other["subjects"] = [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]
    namespace = {"metadata": {"name": "elsewhere"}}
    try:
        for method, path, body in (
            ("GET", f"{own}/secrets", None),
            ("GET", f"{own}/secrets/{key.name}", None),
            ("GET", "/api/v1/secrets", None),
            ("GET", "/api/v1/namespaces/kube-system/secrets", None),
            ("GET", f"{pod}/exec?command=sh&container=main", None),
            ("POST", f"{pod}/exec?command=sh&container=main", None),
            ("POST", f"{pod}/attach?container=main", None),
            ("POST", f"{pod}/portforward", None),
            ("POST", f"{pod}/eviction", {"metadata": {"name": key.name}}),
            ("GET", "/api/v1/nodes/node-1/proxy/pods", None),
            ("PATCH", "/api/v1/nodes/node-1", {"spec": {"unschedulable": True}}),
            ("DELETE", "/api/v1/nodes/node-1", None),
            ("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "x"}}),
            ("POST", "/api/v1/namespaces/kube-system/secrets", {"metadata": {"name": "x"}}),
            ("POST", "/api/v1/namespaces", namespace),
            ("DELETE", "/api/v1/namespaces/default", None),
            ("POST", f"{rbac}/clusterrolebindings", binding),
            ("POST", f"{rbac}/namespaces/{key.namespace}/rolebindings", binding),
            ("POST", f"{rbac}/namespaces/kube-system/rolebindings", tenant),
            ("POST", f"{rbac}/namespaces/{key.namespace}/rolebindings", other),
            ("POST", f"{rbac}/clusterroles", {"metadata": {"name": "x"}, "rules": []}),
            ("POST", f"{own}/services", {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}}),
            ("POST", f"{own}/serviceaccounts/moorage-replica/token", {"spec": {}}),
            (
                "DELETE",
                f"/apis/networking.k8s.io/v1/namespaces/{key.namespace}/networkpolicies/moorage",
                None,
            ),
            ("POST", f"{own}/configmaps", {"metadata": {"name": "x"}}),
        ):
            content = {"content_type": MERGE_PATCH} if method == "PATCH" else {}
            await refused(api, method, path, body, **content)
        for look in (
            {"name": "debug", "image": f"{real.pull_address}/x{DIGEST}", "command": ["sh"]},
            {**look_body(1, f"{real.pull_address}/x{DIGEST}"), "command": ["sh"]},
            {**look_body(1, f"{real.pull_address}/x{DIGEST}"), "targetContainerName": "main"},
            look_body(1, f"docker.io/library/x{DIGEST}"),
        ):
            body = {"spec": {"ephemeralContainers": [look]}}
            said = await refused(api, "PATCH", f"{pod}/ephemeralcontainers", body, content_type=MERGE_PATCH)
            assert "moorage-replicas" in said
    finally:
        await api.close()


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "hostNetwork": lambda pod: pod["spec"].update(hostNetwork=True),
    "hostPID": lambda pod: pod["spec"].update(hostPID=True),
    "hostIPC": lambda pod: pod["spec"].update(hostIPC=True),
    "host path": lambda pod: pod["spec"]["volumes"].append({"name": "h", "hostPath": {"path": "/"}}),
    "another's secret": lambda pod: pod["spec"]["volumes"].append(
        {"name": "s", "secret": {"secretName": "x"}}
    ),
    "token": lambda pod: pod["spec"].update(automountServiceAccountToken=True),
    "projected token": lambda pod: pod["spec"]["volumes"].append(
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
    ),
    "another account": lambda pod: pod["spec"].update(serviceAccountName="default"),
    "restarts": lambda pod: pod["spec"].update(restartPolicy="Always"),
    "privileged": lambda pod: main(pod)["securityContext"].update(
        privileged=True, allowPrivilegeEscalation=True
    ),
    "escalation": lambda pod: main(pod)["securityContext"].update(allowPrivilegeEscalation=True),
    "capability": lambda pod: main(pod)["securityContext"]["capabilities"].update(add=["NET_RAW"]),
    "kept capabilities": lambda pod: main(pod)["securityContext"]["capabilities"].update(drop=[]),
    "no seccomp": lambda pod: pod["spec"].update(securityContext={}),
    "unconfined": lambda pod: main(pod)["securityContext"].update(seccompProfile={"type": "Unconfined"}),
    "sysctl": lambda pod: pod["spec"]["securityContext"].update(
        sysctls=[{"name": "net.ipv4.ping_group_range", "value": "0 1"}]
    ),
    "host port": lambda pod: main(pod)["ports"][0].update(hostPort=8000),
    "no limit": lambda pod: main(pod)["resources"]["limits"].pop("memory"),
    "image by tag": lambda pod: main(pod).update(image=main(pod)["image"].replace(DIGEST, ":latest")),
    "image of another registry": lambda pod: main(pod).update(image=f"docker.io/library/x{DIGEST}"),
    "cached image": lambda pod: main(pod).update(imagePullPolicy="IfNotPresent"),
    "another container": lambda pod: pod["spec"]["containers"].append({**main(pod), "name": "second"}),
    "an init container": lambda pod: pod["spec"].update(initContainers=[{**main(pod), "name": "first"}]),
    "another beside the door": lambda pod: pod["spec"]["initContainers"].append(
        {**door(pod), "name": "second"}
    ),
    "a door that does something else": lambda pod: door(pod).update(command=["sh"]),
    "a door with more rights": lambda pod: door(pod)["securityContext"].update(
        runAsNonRoot=False, runAsUser=0
    ),
    "a door of another registry": lambda pod: door(pod).update(image=f"docker.io/library/x{DIGEST}"),
    "a door that ends": lambda pod: door(pod).pop("restartPolicy"),
    "a replica that sees its door's key": lambda pod: main(pod)["volumeMounts"].append(
        {"name": "door", "mountPath": "/door"}
    ),
    "another's door": lambda pod: pod["spec"]["volumes"][-1]["secret"].update(secretName="rep-x-door"),
    "a hook": lambda pod: main(pod).update(lifecycle={"preStop": {"exec": {"command": ["sh"]}}}),
    "a probe": lambda pod: main(pod).update(livenessProbe={"tcpSocket": {"port": 1}}),
    "no replica": lambda pod: pod["metadata"]["labels"].pop("moorage.io/replica"),
    "a higher priority": lambda pod: pod["spec"].update(priorityClassName="system-node-critical"),
}


def door(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pod["spec"]["initContainers"][0]
    return found


def main(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pod["spec"]["containers"][0]
    return found


async def test_no_pod_leaves_the_profile_whoever_makes_it(real: RealWorld) -> None:
    """Not even the cluster's administrator: the policy is for the namespaces, not for somebody."""
    spec = await spec_of(real, "serves")
    body = pod_body(
        spec,
        installation_id=real.installation_id,
        image=f"{real.pull_address}/moorage-pull/0{DIGEST}",
        architecture="arm64",
        options=ClusterOptions(),
        door_image=f"{real.pull_address}/moorage-pull/1{DIGEST}",
    )
    namespace = body["metadata"]["namespace"]
    path, dry = f"/api/v1/namespaces/{namespace}/pods", {"dryRun": "All"}
    async with real.engine._namespaces.used_by(spec.organization_id, ()):
        await real.engine._namespaces.create(namespace, "try", f"{path}?dryRun=All", body)
        without = {**body, "metadata": {**body["metadata"], "labels": {}}}

        async def policies_are_obeyed() -> bool:
            """An API server that was just told of them takes a moment."""
            try:
                await real.admin.call("try", "POST", path, body=without, query=dry)
            except ApiError:
                return True
            return False

        await real.until(policies_are_obeyed)
        for change in CHANGES.values():
            changed = copy.deepcopy(body)
            change(changed)
            said = await refused(real.admin, "POST", path, changed, query=dry)
            assert "moorage-replicas" in said or "PodSecurity" in said or "riority" in said, said
