"""What Moorage writes into a cluster: for any spec a Pod that keeps to the profile, and says nothing of a secret."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.engines.base import ReplicaSpec
from moorage.engines.doors import new_authority
from moorage.engines.kubernetes.names import PodKey, door_secret_of, name_of, namespace_of, namespace_prefix
from moorage.engines.kubernetes.namespace_body import (
    NamespaceRules,
    ServiceAccount,
    bodies_in,
    fingerprint_of,
    namespace_body,
)
from moorage.engines.kubernetes.objects import cluster_objects
from moorage.engines.kubernetes.pod_body import (
    ClusterOptions,
    door_secret,
    environment_secret,
    pod_body,
    pull_secret,
)
from moorage.kit.ids import ContainerId, InstallationId, OrganizationId, ProjectId, ReplicaId
from moorage.outbound.networks import NOT_PUBLIC
from moorage.outbound.registry.credentials import RegistryCredentials

INSTALLATION = InstallationId("ins_a")
IMAGE = f"127.0.0.1:30421/moorage-pull/0@sha256:{'0' * 64}"
POD = {
    "metadata": {
        "name": "rep-a",
        "namespace": "m-0-org-a",
        "uid": "1-2-3",
        "labels": {"moorage.io/replica": "rep_a"},
    }
}
CANARY = "canary-4711"

specs = st.builds(
    ReplicaSpec,
    replica_id=st.just(ReplicaId("rep_a")),
    container_id=st.just(ContainerId("ctr_a")),
    project_id=st.just(ProjectId("prj_a")),
    organization_id=st.just(OrganizationId("org_a")),
    slot=st.integers(0, 30),
    generation=st.integers(1, 1000),
    image=st.just("registry.example/chat@sha256:00"),
    command=st.none() | st.lists(st.text().map(lambda text: CANARY + text), min_size=1).map(tuple),
    environment=st.dictionaries(
        st.sampled_from(["PORT", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_MOFED", "TOKEN", "PATH"]),
        st.text().map(lambda text: CANARY + text),
    ),
    port=st.integers(1, 65535),
    host_port=st.none(),
    vcpu_millis=st.integers(1, 256_000),
    memory_bytes=st.integers(16 * 1024**2, 4 * 1024**4),
    disk_bytes=st.integers(1024**2, 1024**4),
    gpu_device_ids=st.lists(st.sampled_from(["gpu-0", "gpu-1"]), unique=True).map(tuple),
    gpu_model=st.sampled_from([None, "NVIDIA H100 80GB HBM3"]),
    avoided_nodes=st.lists(st.sampled_from(["node-1", "node-2"]), unique=True).map(tuple),
)
options = st.builds(
    ClusterOptions,
    stop_grace_s=st.integers(1, 300),
    cpu_overcommit=st.floats(1, 64),
    runtime_class=st.sampled_from([None, "gvisor"]),
    host_users=st.sampled_from([None, False]),
)


def body_of(
    spec: ReplicaSpec, chosen: ClusterOptions | None = None, door_image: str | None = None
) -> dict[str, Any]:
    return pod_body(
        spec,
        installation_id=INSTALLATION,
        image=IMAGE,
        architecture="arm64",
        options=chosen or ClusterOptions(),
        door_image=door_image,
    )


@settings(max_examples=20)
@given(specs)
def test_a_door_has_its_key_to_itself(spec: ReplicaSpec) -> None:
    pod = body_of(spec, door_image=IMAGE)["spec"]
    (main,), (door,) = pod["containers"], pod["initContainers"]
    assert (door["name"], door["restartPolicy"]) == ("door", "Always")
    assert [mount["name"] for mount in door["volumeMounts"]] == ["door"]
    assert "door" not in [mount["name"] for mount in main["volumeMounts"]]
    assert pod["volumes"][-1]["secret"]["secretName"] == door_secret_of(spec.replica_id)
    assert door["securityContext"]["runAsNonRoot"]
    assert door["securityContext"]["readOnlyRootFilesystem"]
    assert door["ports"][0]["containerPort"] != spec.port
    assert CANARY not in json.dumps(pod)
    authority = new_authority(INSTALLATION, datetime.now(UTC))
    secret = door_secret(spec, POD, authority, datetime.now(UTC))
    files = {name: base64.b64decode(content).decode() for name, content in secret["data"].items()}
    assert files.keys() == {"door.cfg", "door.pem", "trial.lua"}
    assert f"{spec.port}" in files["door.cfg"]
    assert authority.key not in files["door.pem"]
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "1-2-3"


@settings(max_examples=20)
@given(specs, options)
def test_the_profile_holds_for_any_spec(spec: ReplicaSpec, chosen: ClusterOptions) -> None:
    pod = body_of(spec, chosen)["spec"]
    (main,) = pod["containers"]
    assert "initContainers" not in pod
    assert pod["restartPolicy"] == "Never"
    assert not any(pod[name] for name in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"))
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    assert main["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert (main["securityContext"]["privileged"], main["securityContext"]["allowPrivilegeEscalation"]) == (
        False,
        False,
    )
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert main["imagePullPolicy"] == "Always"
    limits, requests = main["resources"]["limits"], main["resources"]["requests"]
    assert limits["memory"] == requests["memory"] == str(spec.memory_bytes)
    assert limits["ephemeral-storage"] == str(spec.disk_bytes)
    assert int(limits["cpu"][:-1]) >= int(requests["cpu"][:-1]) >= 1
    assert limits.get("nvidia.com/gpu") == (str(len(spec.gpu_device_ids)) if spec.gpu_device_ids else None)
    assert [volume.keys() - {"name"} for volume in pod["volumes"]] == [{"emptyDir"}]
    assert pod["dnsPolicy"] == "None"


@settings(max_examples=20)
@given(specs)
def test_no_value_of_a_users_is_in_the_pod(spec: ReplicaSpec) -> None:
    assert CANARY not in json.dumps(body_of(spec))


@settings(max_examples=20)
@given(specs)
def test_the_process_gets_what_it_was_given(spec: ReplicaSpec) -> None:
    secret = environment_secret(spec, POD)
    values = {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
    command = body_of(spec)["spec"]["containers"][0].get("command")
    names = [word.removeprefix("$(").removesuffix(")") for word in command or ()]
    assert (tuple(values[name] for name in names) or None) == spec.command
    assert values["PORT"] == spec.environment.get("PORT", str(spec.port))
    assert "NVIDIA_MOFED" not in values
    assert values.get("NVIDIA_VISIBLE_DEVICES") == (None if spec.gpu_device_ids else "void")
    assert secret["immutable"] is True
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["kind"]) == ("1-2-3", "Pod")


def spec_with(**changes: Any) -> ReplicaSpec:
    spec = ReplicaSpec(
        replica_id=ReplicaId("rep_a"),
        container_id=ContainerId("ctr_a"),
        project_id=ProjectId("prj_a"),
        organization_id=OrganizationId("org_a"),
        slot=0,
        generation=1,
        image="x",
        command=None,
        environment={},
        port=8000,
        host_port=None,
        vcpu_millis=1000,
        memory_bytes=2**30,
        disk_bytes=2**30,
    )
    return replace(spec, **changes)


def rules_of(spec: ReplicaSpec) -> list[tuple[str, str, list[str]]]:
    affinity = body_of(spec)["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    rules = (*term["matchExpressions"], *term.get("matchFields", ()))
    return [(one["key"], one["operator"], one["values"]) for one in rules]


def test_where_it_may_go() -> None:
    spec = spec_with(
        gpu_device_ids=("gpu-0", "gpu-1"),
        gpu_model="NVIDIA H100 80GB HBM3",
        avoided_nodes=("node-2", "node-1"),
    )
    assert rules_of(spec) == [
        ("moorage.node-restriction.kubernetes.io/infrastructure", "NotIn", ["community"]),
        ("kubernetes.io/arch", "In", ["arm64"]),
        ("nvidia.com/gpu.product", "In", ["NVIDIA-H100-80GB-HBM3"]),
        ("metadata.name", "NotIn", ["node-1"]),
        ("metadata.name", "NotIn", ["node-2"]),
    ]
    tolerated = {one["key"] for one in body_of(spec)["spec"]["tolerations"]}
    assert "nvidia.com/gpu" in tolerated
    without = {one["key"] for one in body_of(spec_with())["spec"]["tolerations"]}
    assert without == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def test_a_name_that_no_node_can_have_is_not_named() -> None:
    """The API server would refuse the Pod for it: machines of other engines may have such names."""
    avoided = ("worker-1.internal", "Under_Score", "-x", "a..b", "x" * 254, "")
    affinity = body_of(spec_with(avoided_nodes=avoided))["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [one["values"] for one in term["matchFields"]] == [["worker-1.internal"]]


def test_a_pull_secret_is_for_the_proxy_alone() -> None:
    body = pull_secret(POD, {"127.0.0.1:30421/moorage-pull/1": RegistryCredentials("ticket", "password")})
    config = json.loads(base64.b64decode(body["data"][".dockerconfigjson"]))
    assert config["auths"].keys() == {"127.0.0.1:30421/moorage-pull/1"}, "each image has its own ticket"
    assert body["type"] == "kubernetes.io/dockerconfigjson"
    assert body["immutable"] is False, "or kubelets would not hear of the next one"


def policy_of(rules: NamespaceRules, nodes: list[str]) -> dict[str, Any]:
    bodies = {body["kind"]: body for body in bodies_in("m-0-org-a", rules, nodes)}
    spec: dict[str, Any] = bodies["NetworkPolicy"]["spec"]
    return spec


def test_nothing_comes_in_and_only_what_is_public_goes_out() -> None:
    spec = policy_of(NamespaceRules(INSTALLATION), ["192.0.2.7", "198.51.99.7", "2001:db8::1"])
    assert (spec["podSelector"], spec["policyTypes"], spec["ingress"]) == ({}, ["Ingress", "Egress"], [])
    ((block,),) = (rule["to"] for rule in spec["egress"])
    excepted = set(block["ipBlock"]["except"])
    assert block["ipBlock"]["cidr"] == "0.0.0.0/0"
    assert excepted >= {"10.0.0.0/8", "169.254.0.0/16", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}
    assert "198.51.99.7/32" in excepted, "a node with a public address is a node"
    assert len(NOT_PUBLIC) <= len(excepted) + 4


def test_who_comes_in() -> None:
    rules = NamespaceRules(INSTALLATION, callers=("moorage",), caller_networks=("192.0.2.0/28",))
    (rule,) = policy_of(rules, [])["ingress"]
    assert rule["from"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "moorage"}}},
        {"ipBlock": {"cidr": "192.0.2.0/28"}},
    ]


def test_the_same_nodes_are_the_same_policy_in_any_order() -> None:
    rules = NamespaceRules(INSTALLATION)
    nodes = ["203.0.112.7", "198.51.99.7", "203.0.112.8"]
    assert fingerprint_of(bodies_in("n", rules, nodes)) == fingerprint_of(bodies_in("n", rules, nodes[::-1]))
    assert fingerprint_of(bodies_in("n", rules, nodes)) != fingerprint_of(bodies_in("n", rules, nodes[:1]))


def test_a_namespace_has_everything_before_its_first_pod() -> None:
    account = ServiceAccount("moorage", "controller")
    kinds = [one["kind"] for one in bodies_in("n", NamespaceRules(INSTALLATION, controller=account), [])]
    assert kinds == ["RoleBinding", "ServiceAccount", "NetworkPolicy", "ResourceQuota", "PodDisruptionBudget"]
    labels = namespace_body(NamespaceRules(INSTALLATION), OrganizationId("org_a"))["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"


def test_names_follow_from_ids() -> None:
    organization = OrganizationId("org_" + "a" * 20)
    namespace = namespace_of(INSTALLATION, organization)
    assert namespace.startswith(namespace_prefix(INSTALLATION))
    assert len(namespace) <= 63
    assert "_" not in namespace + name_of(ReplicaId("rep_a"))
    assert namespace_prefix(InstallationId("ins_b")) != namespace_prefix(INSTALLATION)


@pytest.mark.parametrize("text", ["rep_a", "rep-a", "ns/rep-a", "ns/rep-a/", "/a/b", "a/b/c/d", ""])
def test_a_name_is_no_engine_id(text: str) -> None:
    assert PodKey.parse(text) is None


def test_rights_and_policies() -> None:
    objects = cluster_objects(INSTALLATION, ServiceAccount("moorage", "controller"), "127.0.0.1:30421")
    roles = {one["metadata"]["name"]: one["rules"] for one in objects if one["kind"] == "ClusterRole"}
    for rules in roles.values():
        for rule in rules:
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
            if "secrets" in rule["resources"]:
                assert set(rule["verbs"]) == {"create", "delete"}, "they are never read"
    everywhere = {resource for rule in roles["moorage-controller"] for resource in rule["resources"]}
    assert not everywhere & {"secrets", "pods/exec", "nodes/proxy", "pods/attach"}
    policies = [one for one in objects if one["kind"] == "ValidatingAdmissionPolicy"]
    bindings = [one for one in objects if one["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert len(policies) == len(bindings) == 3
    assert all(one["spec"]["failurePolicy"] == "Fail" for one in policies)
    assert all(one["spec"]["validationActions"] == ["Deny"] for one in bindings)
