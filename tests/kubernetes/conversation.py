"""A conversation with an API server about everything that Moorage relies on, the same words to a real one and to the stand-in.

What is kept of each answer is what the engine decides by: the status, Kubernetes' reason, and the fields that a step names. Numbers
that differ each time (versions, uids, times) are replaced by what they are.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from moorage.engines.base import ReplicaSpec
from moorage.engines.kubernetes.connection import JSON_PATCH, MERGE_PATCH, ApiError, ApiServer, lines_of
from moorage.engines.kubernetes.namespace_body import NamespaceRules, bodies_in, namespace_body
from moorage.engines.kubernetes.objects import priority_class
from moorage.engines.kubernetes.pod_body import ClusterOptions, environment_secret, pod_body
from moorage.kit.ids import ContainerId, InstallationId, OrganizationId, ProjectId, ReplicaId

INSTALLATION = InstallationId("ins_conversation")
RULES = NamespaceRules(INSTALLATION)
SPEC = ReplicaSpec(
    replica_id=ReplicaId("rep_first"),
    container_id=ContainerId("ctr_first"),
    project_id=ProjectId("prj_first"),
    organization_id=OrganizationId("org_first"),
    slot=0,
    generation=1,
    image="registry.example/chat@sha256:" + "0" * 64,
    command=("serve", "--fast"),
    environment={"GREETING": "hello"},
    port=8000,
    host_port=None,
    vcpu_millis=500,
    memory_bytes=2**25,
    disk_bytes=2**30,
)
_WATCH_S = 20.0
_ABSENT_UID = "00000000-0000-0000-0000-000000000000"


Forget = Callable[[], Awaitable[None]]


class Conversation:
    def __init__(self, api: ApiServer) -> None:
        self.api = api
        self.answers: dict[str, Any] = {}

    async def say(
        self, step: str, method: str, path: str, keep: tuple[str, ...] = (), **request: Any
    ) -> dict[str, Any]:
        assert step not in self.answers, step
        try:
            answer = await self.api.call(step, method, path, **request)
        except ApiError as exc:
            self.answers[step] = {"status": exc.status, "reason": exc.reason}
            return {}
        self.answers[step] = {"status": "ok", **{field: _shown(answer, field) for field in keep}}
        return answer

    async def watch(self, path: str, query: dict[str, str]) -> AsyncGenerator[dict[str, Any], None]:
        query = {**query, "watch": "1", "allowWatchBookmarks": "true"}
        async with self.api.stream("watch", path, query, _WATCH_S) as content:
            async for lines in lines_of(content):
                for line in lines:
                    yield json.loads(line)


async def converse(api: ApiServer, forget_old_versions: Forget) -> dict[str, Any]:
    talk = Conversation(api)
    namespace = namespace_body(RULES, SPEC.organization_id)
    name = namespace["metadata"]["name"]
    pods, secrets = f"/api/v1/namespaces/{name}/pods", f"/api/v1/namespaces/{name}/secrets"
    await _namespaces(talk, namespace, name)
    first = await _creation(talk, name, pods)
    await _patches(talk, first, f"{pods}/rep-first")
    await _secrets(talk, first, secrets)
    await _lists(talk, pods)
    await _watches(talk, pods)
    await _forgotten(talk, pods, forget_old_versions)
    await _deletions(talk, first, f"{pods}/rep-first")
    await _end(talk, name, pods)
    return talk.answers


async def _namespaces(talk: Conversation, namespace: dict[str, Any], name: str) -> None:
    path = "/api/v1/namespaces"
    pod = _pod("first")
    await talk.say("a Pod before its namespace", "POST", f"{path}/{name}/pods", body=pod)
    await talk.say("a namespace", "POST", path, ("status.phase", "metadata.labels"), body=namespace)
    await talk.say("the same namespace again", "POST", path, body=namespace)
    annotation = {"metadata": {"annotations": {"moorage.io/bodies": "x"}}}
    await talk.say(
        "its annotation",
        "PATCH",
        f"{path}/{name}",
        ("metadata.annotations",),
        body=annotation,
        content_type=MERGE_PATCH,
    )
    await talk.say("a namespace that is not there", "GET", f"{path}/absent")


async def _creation(talk: Conversation, name: str, pods: str) -> dict[str, Any]:
    await talk.say("a Pod before its account", "POST", pods, body=_pod("first"))
    bodies = {body["kind"]: body for body in bodies_in(name, RULES, ["192.0.2.7"])}
    account = bodies["ServiceAccount"]
    await talk.say("its account", "POST", f"/api/v1/namespaces/{name}/serviceaccounts", body=account)
    await talk.say("a Pod before its priority class", "POST", pods, body=_pod("first"))
    await talk.say(
        "the priority class", "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body=priority_class()
    )
    policies = f"/apis/networking.k8s.io/v1/namespaces/{name}/networkpolicies"
    policy = bodies["NetworkPolicy"]
    await talk.say("the policy", "POST", policies, ("spec.policyTypes", "spec.podSelector"), body=policy)
    await talk.say("the policy again", "POST", policies, body=policy)
    changed = {"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}]}]}}
    await talk.say(
        "the policy's change",
        "PATCH",
        f"{policies}/moorage",
        ("spec.egress",),
        body=changed,
        content_type=MERGE_PATCH,
    )
    kept = (
        "status.phase",
        "status.conditions",
        "spec.schedulingGates",
        "spec.restartPolicy",
        "metadata.labels",
    )
    pod = await talk.say("a Pod", "POST", pods, kept, body=_pod("first"))
    await talk.say("the same Pod again", "POST", pods, body=_pod("first"))
    await talk.say("the Pod", "GET", f"{pods}/rep-first", ("metadata.uid",))
    await talk.say("a Pod that is not there", "GET", f"{pods}/rep-absent")
    await talk.say(
        "the log of one that does not run", "GET", f"{pods}/rep-absent/log", query={"container": "main"}
    )
    return pod


async def _patches(talk: Conversation, pod: dict[str, Any], path: str) -> None:
    def patch(uid: str, *more: dict[str, Any]) -> dict[str, Any]:
        operations = [{"op": "test", "path": "/metadata/uid", "value": uid}, *more]
        return {"body": operations, "content_type": JSON_PATCH}

    uid = pod["metadata"]["uid"]
    deadline = {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1}
    gates = {"op": "remove", "path": "/spec/schedulingGates"}
    image = {"op": "replace", "path": "/spec/containers/0/image", "value": SPEC.image.replace("0", "1")}
    command = {"op": "replace", "path": "/spec/containers/0/command", "value": ["other"]}
    again = {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": "moorage.io/secrets"}]}
    await talk.say("a deadline for another Pod", "PATCH", path, **patch(_ABSENT_UID, deadline))
    await talk.say("the gate goes", "PATCH", path, ("spec.schedulingGates",), **patch(uid, gates))
    await talk.say("the gate goes again", "PATCH", path, **patch(uid, gates))
    await talk.say("a gate comes", "PATCH", path, **patch(uid, again))
    await talk.say("another image", "PATCH", path, **patch(uid, image))
    await talk.say("another command", "PATCH", path, **patch(uid, command))
    await talk.say("a deadline", "PATCH", path, ("spec.activeDeadlineSeconds",), **patch(uid, deadline))
    await talk.say("a patch of one that is not there", "PATCH", f"{path}-absent", **patch(uid, deadline))


async def _secrets(talk: Conversation, pod: dict[str, Any], path: str) -> None:
    body = environment_secret(SPEC, pod)
    await talk.say("a Secret", "POST", path, ("type", "immutable"), body=body)
    await talk.say("the Secret again", "POST", path, body=body)
    await talk.say("the Secret's end", "DELETE", f"{path}/rep-first", body={})
    await talk.say("the Secret's end again", "DELETE", f"{path}/rep-first", body={})


async def _lists(talk: Conversation, pods: str) -> None:
    for name in ("second", "third"):
        await talk.say(f"a {name} Pod", "POST", pods, body=_pod(name))
    selector = {"labelSelector": f"moorage.io/installation={INSTALLATION},moorage.io/replica"}
    page = await talk.say("a page", "GET", "/api/v1/pods", query={**selector, "limit": "2"})
    token = page["metadata"]["continue"]
    rest = await talk.say(
        "the next page", "GET", "/api/v1/pods", query={**selector, "limit": "2", "continue": token}
    )
    talk.answers["the pages"] = [[one["metadata"]["name"] for one in some["items"]] for some in (page, rest)]
    for text in (
        f"moorage.io/installation!={INSTALLATION}",
        "moorage.io/replica=rep_second",
        "moorage.io/absent",
        "!moorage.io/replica",
    ):
        found = await talk.say(f"those with {text}", "GET", pods, query={"labelSelector": text})
        talk.answers[f"those with {text}"]["names"] = [one["metadata"]["name"] for one in found["items"]]
    running = await talk.say(
        "those that have not ended",
        "GET",
        pods,
        query={"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"},
    )
    talk.answers["those that have not ended"]["count"] = len(running["items"])


async def _watches(talk: Conversation, pods: str) -> None:
    selector = {"labelSelector": "moorage.io/replica=rep_watched"}
    version = (await talk.api.call("list", "GET", "/api/v1/pods"))["metadata"]["resourceVersion"]
    told = []

    async def act() -> None:
        created = await talk.api.call("create", "POST", pods, body=_pod("watched"))
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": created["metadata"]["uid"]},
            {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 7},
        ]
        path = f"{pods}/rep-watched"
        await talk.api.call("patch", "PATCH", path, body=patch, content_type=JSON_PATCH)
        await talk.api.call("delete", "DELETE", path, body={"gracePeriodSeconds": 0})

    acting = asyncio.create_task(act())
    async with aclosing(talk.watch("/api/v1/pods", {**selector, "resourceVersion": version})) as events:
        async for event in events:
            if event["type"] != "BOOKMARK":
                told.append((event["type"], event["object"]["spec"].get("activeDeadlineSeconds")))
            if event["type"] == "DELETED":
                break
    await acting
    talk.answers["what a watch tells"] = told


async def _forgotten(talk: Conversation, pods: str, forget_old_versions: Forget) -> None:
    page = await talk.api.call("list", "GET", pods, query={"limit": "1"})
    version, token = page["metadata"]["resourceVersion"], page["metadata"]["continue"]
    await talk.say("a fourth Pod", "POST", pods, body=_pod("fourth"))
    await talk.say("the fourth Pod's end", "DELETE", f"{pods}/rep-fourth", body={"gracePeriodSeconds": 0})
    await forget_old_versions()
    await talk.say(
        "the next page of a list from long ago", "GET", pods, query={"limit": "1", "continue": token}
    )
    async with aclosing(talk.watch(pods, {"resourceVersion": version})) as events:
        async for event in events:
            told = event["object"].get("code"), event["object"].get("reason")
            talk.answers["a watch from long ago"] = [event["type"], *told]
            break


async def _deletions(talk: Conversation, pod: dict[str, Any], path: str) -> None:
    wrong, right = ({"preconditions": {"uid": uid}} for uid in (_ABSENT_UID, pod["metadata"]["uid"]))
    await talk.say("the end of another Pod", "DELETE", path, body=wrong)
    await talk.say("the Pod's end", "DELETE", path, body={**right, "gracePeriodSeconds": 1})
    await talk.say("the Pod after its end", "GET", path)
    await talk.say("the Pod's end again", "DELETE", path, body=right)


async def _end(talk: Conversation, name: str, pods: str) -> None:
    for one in ("second", "third"):
        await talk.say(f"the end of the {one}", "DELETE", f"{pods}/rep-{one}", body={"gracePeriodSeconds": 0})
    wrong = {"preconditions": {"uid": _ABSENT_UID}}
    await talk.say("the end of another namespace", "DELETE", f"/api/v1/namespaces/{name}", body=wrong)


def _pod(name: str) -> dict[str, Any]:
    spec = replace(SPEC, replica_id=ReplicaId(f"rep_{name}"))
    return pod_body(
        spec, installation_id=INSTALLATION, image=spec.image, architecture="arm64", options=ClusterOptions()
    )


def _shown(answer: Any, field: str) -> Any:
    for part in field.split("."):
        answer = (answer or {}).get(part)
    if field == "metadata.uid":
        return "a uid" if answer else None
    return _without_times(answer)


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        left_out = ("lastTransitionTime", "lastProbeTime", "message", "observedGeneration")
        return {name: _without_times(one) for name, one in sorted(value.items()) if name not in left_out}
    return [_without_times(one) for one in value] if isinstance(value, list) else value
