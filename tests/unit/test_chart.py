"""The chart and `moor kubernetes manifests` give the same objects, and the chart in the tree is the one that the code writes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.engines.kubernetes.namespace_body import ServiceAccount
from moorage.engines.kubernetes.objects import cluster_objects
from moorage.entrypoints.kubernetes.chart import chart_files
from moorage.entrypoints.kubernetes.commands import objects_for
from moorage.entrypoints.kubernetes.tree import derived_installation_id
from moorage.entrypoints.kubernetes.values import VALUES, checked
from moorage.kit.errors import SettingsError
from moorage.kit.ids import InstallationId
from tests.kubernetes.real_api_server import program

CHART = Path(__file__).parents[2] / "deploy/helm/moorage"
LEAST: dict[str, Any] = {
    "publicUrl": "https://cloud.example.com",
    "gatewayUrl": "https://inference.example.com",
}
MOST: dict[str, Any] = {
    **LEAST,
    "image": {"repository": "registry.example.com/moorage", "tag": "7", "pullSecrets": ["one", "two"]},
    "installationId": "ins_abcdefgh12345678",
    "gateway": {
        "tlsSecret": "moorage-tls",
        "replicas": 5,
        "serviceType": "NodePort",
        "apiNodePort": 30080,
        "serviceAnnotations": {"example.com/internal": "true"},
    },
    "pulls": {"address": "pulls.example.com:5000"},
    "localRegistry": "registry.example.com/own",
    "runtimeClass": "gvisor",
    "trust": {"existingSecret": "authorities"},
    "settings": {"sign_up": "closed", "smtp_port": 25, "limit_by_source": False},
    "settingsSecret": "more",
    "nodeSelector": {"pool": "moorage"},
    "isolation": "waived",
    "podNetworks": ["10.244.0.0/16"],
}
helm = pytest.mark.skipif(
    program("helm") is None,
    reason="HELM: the chart was not rendered: no helm in MOORAGE_TEST_KUBERNETES or PATH",
)


def test_the_chart_is_what_the_code_writes() -> None:
    for path, text in chart_files().items():
        assert (CHART / path).read_text() == text, f"{path}: run make chart"
    written = {str(path.relative_to(CHART)) for path in CHART.rglob("*") if path.is_file()}
    assert written == chart_files().keys()


@helm
@pytest.mark.parametrize("given", [LEAST, MOST], ids=["least", "most"])
def test_helm_makes_the_objects_that_we_print(given: dict[str, Any], tmp_path: Path) -> None:
    by_helm = {_key(one): one for one in rendered(given, tmp_path)}
    by_us = {_key(one): one for one in objects_for(given, "moorage", "ours")}
    assert by_helm.keys() == by_us.keys()
    for key, body in by_us.items():
        assert by_helm[key] == body, key


@helm
@pytest.mark.parametrize(
    "wrong",
    [
        {"publicUrl": ""},
        {"api": {"replicas": 0}},
        {"unknown": 1},
        {"gateway": {"tlsSecret": "not a name"}},
        {"installationId": "another"},
        {"settings": {"Not-A-Setting": 1}},
        {"podNetworks": ["here"]},
        {"isolation": "no"},
    ],
)
def test_both_refuse_the_same_values(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        checked({**LEAST, **wrong})
    with pytest.raises(subprocess.CalledProcessError):
        rendered({**LEAST, **wrong}, tmp_path)


def test_rights_and_policies_are_those_of_the_engine() -> None:
    ours = {_key(one): one for one in objects_for(LEAST, "here", "ours")}
    installation_id = InstallationId(derived_installation_id("here", "ours"))
    expected = cluster_objects(
        installation_id, ServiceAccount("here", "moorage-controller"), "127.0.0.1:30500"
    )
    assert {_key(one) for one in expected} <= ours.keys()
    for body in expected:
        assert ours[_key(body)] == body
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"):
        assert {key for key in ours if key[0] == kind} == {
            _key(one) for one in expected if one["kind"] == kind
        }


def test_every_pod_of_ours_is_restricted() -> None:
    for body in objects_for(MOST, "moorage", "ours"):
        if body["kind"] not in ("Deployment", "Job"):
            continue
        spec = body["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        # Only the controller speaks to the cluster; only the job knows the operator's key; a gateway has no keys at all.
        name = body["metadata"]["name"]
        assert spec["automountServiceAccountToken"] == (name == "moorage-controller")
        keys = [one["secret"]["items"] for one in spec["volumes"] if one["name"] == "keys"]
        mounted = [item["key"] for items in keys for item in items]
        assert mounted == {
            "moorage-bootstrap": ["secret-keys", "operator-key"],
            "moorage-gateway": [],
        }.get(name, ["secret-keys"])


def test_every_value_is_used() -> None:
    templates = "".join(text for path, text in chart_files().items() if path.startswith("templates/"))
    for value in VALUES:
        assert f".Values.{value.path}" in templates, value.path


def rendered(given: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    file = folder / "values.yaml"
    file.write_text(json.dumps(given))
    command = [
        str(program("helm")),
        "template",
        "ours",
        str(CHART),
        "--namespace",
        "moorage",
        "--values",
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def _key(body: dict[str, Any]) -> tuple[str, str]:
    return body["kind"], body["metadata"]["name"]
