import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.containers.preflight import shown_entrypoint
from moorage.kit.errors import ImageError
from moorage.outbound.registry.manifest import (
    Index,
    IndexEntry,
    Layer,
    Manifest,
    Platform,
    UnusableImageError,
    choose_entry,
    parse_config,
    parse_manifest,
)
from moorage.outbound.registry.sentences import ImageName

_DIGEST, _OTHER_DIGEST = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
_OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_OCI_INDEX = "application/vnd.oci.image.index.v1+json"
_CONFIG = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": _DIGEST, "size": 2}
_AMD64, _ARM64 = Platform("linux", "amd64"), Platform("linux", "arm64", "v8")

_json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_manifest() -> None:
    layers = [{"size": 5, "digest": _DIGEST}, {"size": 7, "digest": _OTHER_DIGEST}]
    body = encode({"schemaVersion": 2, "config": _CONFIG, "layers": layers})
    found = parse_manifest(body, f"{_OCI_MANIFEST}; charset=utf-8")
    assert found == Manifest(_OCI_MANIFEST, _DIGEST, (Layer(_DIGEST, 5), Layer(_OTHER_DIGEST, 7)))
    assert found.size_bytes == 12


@pytest.mark.parametrize(
    "document",
    [
        {"config": _CONFIG, "layers": [{"size": 1, "digest": _DIGEST, "urls": ["https://10.0.0.1/x"]}]},
        {"config": {**_CONFIG, "urls": ["https://10.0.0.1/x"]}, "layers": []},
    ],
)
def test_parts_from_elsewhere(document: Any) -> None:
    """Some engines fetch them from where the manifest says."""
    with pytest.raises(UnusableImageError, match="outside its registry"):
        parse_manifest(encode(document), _OCI_MANIFEST)


@pytest.mark.parametrize("name", ["URLs", "Urls", "url\u017f"])
def test_parts_from_elsewhere_for_a_reader_that_ignores_case(name: str) -> None:
    layer = {"size": 1, "digest": _DIGEST, name: ["https://10.0.0.1/x"]}
    with pytest.raises(ValueError, match="spelled"):
        parse_manifest(encode({"config": _CONFIG, "layers": [layer]}), _OCI_MANIFEST)


@pytest.mark.parametrize("name", ["Layers", "LAYERS", "layer\u017f", "Config", "Manifests", "mediatype"])
def test_no_field_twice_for_a_reader_that_ignores_case(name: str) -> None:
    with pytest.raises(ValueError, match="spelled"):
        parse_manifest(encode({"config": _CONFIG, "layers": [], name: []}), _OCI_MANIFEST)


def test_the_body_decides_what_it_is() -> None:
    body = encode({"mediaType": _OCI_INDEX, "manifests": []})
    assert parse_manifest(body, _OCI_MANIFEST) == Index(())


@pytest.mark.parametrize(
    "document",
    [
        {"config": _CONFIG},
        {"config": _CONFIG, "layers": [{"size": -1, "digest": _DIGEST}]},
        {"config": _CONFIG, "layers": [{"size": True, "digest": _DIGEST}]},
        {"config": _CONFIG, "layers": [{"size": 1 << 60, "digest": _DIGEST}]},
        {"config": _CONFIG, "layers": [{"size": "5", "digest": _DIGEST}]},
        {"config": _CONFIG, "layers": [5]},
        {"config": _CONFIG, "layers": [{"size": 5}]},
        {"config": _CONFIG, "layers": [], "manifests": []},
        {"config": {**_CONFIG, "digest": "sha256:../../x"}, "layers": []},
        {"config": [], "layers": []},
    ],
)
def test_manifest_refuses(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        parse_manifest(encode(document), _OCI_MANIFEST)


@pytest.mark.parametrize(
    ("document", "content_type"),
    [
        ({"schemaVersion": 1}, "application/json"),
        ({}, "application/vnd.docker.distribution.manifest.v1+json"),
        ({}, "application/vnd.docker.distribution.manifest.v1+prettyjws"),
        ({}, "text/html"),
        ({"config": {**_CONFIG, "mediaType": "application/vnd.cncf.helm.config.v1+json"}}, _OCI_MANIFEST),
    ],
)
def test_unusable(document: dict[str, Any], content_type: str) -> None:
    with pytest.raises(UnusableImageError):
        parse_manifest(encode(document), content_type)


@given(
    st.dictionaries(st.sampled_from(["config", "layers", "manifests", "mediaType"]), _json_values),
    st.booleans(),
)
def test_any_json_is_understood_or_refused(document: dict[str, Any], is_index: bool) -> None:
    try:
        parse_manifest(encode(document), _OCI_INDEX if is_index else _OCI_MANIFEST)
    except ValueError:
        return


@given(st.dictionaries(st.sampled_from(["os", "architecture", "config"]), _json_values))
def test_any_config_is_understood_or_refused(document: dict[str, Any]) -> None:
    try:
        parse_config(encode(document))
    except ValueError:
        return


def test_index_leaves_attestations_out() -> None:
    entries = [
        {"digest": _DIGEST, "platform": {"os": "linux", "architecture": "amd64"}},
        {"digest": _DIGEST, "platform": {"os": "unknown", "architecture": "unknown"}},
        {"digest": _DIGEST, "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}},
    ]
    index = parse_manifest(encode({"manifests": entries}), _OCI_INDEX)
    assert isinstance(index, Index)
    assert index.platforms == (_AMD64, _ARM64)


@pytest.mark.parametrize(
    ("platforms", "architecture", "chosen"),
    [
        ([_AMD64, _ARM64], "amd64", 0),
        ([_AMD64, _ARM64], "arm64", 1),
        ([_AMD64, Platform("linux", "arm64")], "arm64", 1),
        ([Platform("linux", "amd64", "v3"), _AMD64], "amd64", 1),
        ([Platform("linux", "amd64", "v3")], "amd64", None),
        ([Platform("windows", "amd64"), _AMD64], "amd64", 1),
        ([Platform("linux", "arm", "v7")], "arm64", None),
        ([None, _AMD64], "amd64", 1),
        ([Platform("linux", "s390x"), None], "amd64", 1),
        ([], "amd64", None),
    ],
)
def test_choose_entry(platforms: list[Platform | None], architecture: str, chosen: int | None) -> None:
    entries = tuple(IndexEntry(f"sha256:{number}", platform) for number, platform in enumerate(platforms))
    entry = choose_entry(Index(entries), architecture)
    assert entry == (None if chosen is None else entries[chosen])


def test_config_in_odd_shapes() -> None:
    config = parse_config(
        encode(
            {
                "os": "linux",
                "architecture": "<b>amd64</b>",
                "config": {
                    "ExposedPorts": {
                        "80": {},
                        "8080/tcp": {},
                        "53/udp": {},
                        "0/tcp": {},
                        "99999/tcp": {},
                        "x": {},
                    },
                    "Entrypoint": "/bin/server",
                    "Cmd": [],
                    "User": None,
                    "Env": ["A=1=2", "B", 5],
                    "Labels": {"a": "b", "c": 1},
                },
            }
        )
    )
    assert config.platform == Platform("", "")
    assert config.exposed_ports == (80, 8080)
    assert (config.entrypoint, config.command, config.user) == (("/bin/server",), None, "")
    assert config.environment == {"A": "1=2", "B": ""}
    assert config.labels == {"a": "b"}
    assert parse_config(b'{"os":"linux","architecture":"amd64"}').platform == _AMD64


@pytest.mark.parametrize("reference", ["ghcr.io/acme/chat:1", f"ghcr.io/acme/chat@{_DIGEST}"])
def test_image_name(reference: str) -> None:
    name = ImageName.parse(reference)
    assert f"{name.host}/{name}" == reference


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "chat",
        "ghcr.io/acme/chat",
        "ghcr.io/../x:1",
        "ghcr.io/a?b:1",
        "a@b/c:1",
        "[::1]/c:1",
        "ghcr.io/a:1\n",
    ],
)
def test_image_name_refuses(reference: str) -> None:
    with pytest.raises(ImageError) as caught:
        ImageName.parse(reference)
    assert caught.value.code == "image_not_found"


@pytest.mark.parametrize("many", [b"[],", b"1,", b'"",', b'{"a":1},'])
def test_more_than_an_image_needs_is_not_read(many: bytes) -> None:
    """Four megabytes of it took a loop that serves everybody up to 0.4 s."""
    body = b'{"layers":[' + many * (2**20 // len(many)) + b"1]}"
    for parse in (lambda: parse_manifest(body, _OCI_MANIFEST), lambda: parse_config(body)):
        with pytest.raises(ValueError, match="more than any image needs"):
            parse()


def test_a_large_image_is_read() -> None:
    layers = [{"size": 5, "digest": _DIGEST, "annotations": {"a": "b" * 100}} for _ in range(900)]
    document = json.dumps({"config": _CONFIG, "layers": layers}, indent=8).encode()
    assert isinstance(parse_manifest(document, _OCI_MANIFEST), Manifest)


@pytest.mark.parametrize(
    "settings",
    [
        {"Labels": {f"label {n}": "x" * 30 for n in range(9000)}},
        {"Cmd": ["x" * 300_000]},
        {"Env": [f"NAME_{n}={'x' * 100}" for n in range(3000)]},
        {"labels": {"a": "x" * 300_000}},
    ],
)
def test_what_the_engine_would_repeat_for_every_replica_is_short(settings: dict[str, Any]) -> None:
    document = {"os": "linux", "architecture": "amd64", "config": settings}
    with pytest.raises(UnusableImageError, match="KiB is the most"):
        parse_config(encode(document))
    # An engine written in Go would read it under another name, too.
    with pytest.raises(ValueError, match="unusual way"):
        parse_config(encode({**document, "config": {}, "Config": settings}))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (["/serve", "--fast"], ["/serve", "--fast"]),
        ("/serve --fast", ["/serve --fast"]),
        ([], []),
        (None, []),
        (["/serve", "half \ud83d of a character"], None),
    ],
)
def test_an_entrypoint_is_told_where_it_is_text(written: Any, shown: list[str] | None) -> None:
    document = {"os": "linux", "architecture": "amd64", "config": {"Entrypoint": written}}
    assert shown_entrypoint(parse_config(json.dumps(document).encode()).entrypoint) == shown
