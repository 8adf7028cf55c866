"""The proxies that the gateway is measured against: its own configuration without the key check, and others, each as
plain as it goes: no keys, no JSON errors, no slots."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gateway_log import RequestLog

from moorage.gateway.config import GatewayConfig
from moorage.gateway.layout import Layout, place
from moorage.gateway.map_values import PROJECT
from moorage.gateway.process import find_haproxy
from moorage.gateway.render import CONFIG_FILE, render_files
from moorage.gateway.table import GatewayTable

SAME_HAPROXY = "same HAProxy, no key check"
BARE_HAPROXY = "HAProxy, bare proxy"
NGINX = "nginx, bare proxy"
ENVOY = "Envoy, bare proxy"
TRAEFIK = "Traefik, bare proxy"


@dataclass(frozen=True)
class Plain:
    name: str
    argv: list[str]


UPSTREAM_ANSWER = '{"ok":true}'


def upstream_haproxy(folder: Path, port: int) -> Plain:
    """The cheapest HTTP server at hand, so that it is never the bottleneck."""
    config = folder / "upstream.cfg"
    config.write_text(f"""\
global
    nbthread 1
defaults
    mode http
    timeout client 60s
frontend upstream
    bind 127.0.0.1:{port}
    http-request return status 200 content-type application/json string '{UPSTREAM_ANSWER}'
""")
    return Plain("upstream", [str(find_haproxy()), "-db", "-f", str(config)])


def same_haproxy(folder: Path, port: int, table: GatewayTable) -> Plain:
    """What the gateway renders, less the rules of the key, of its project and of its share."""
    state_dir = folder / "same"
    state_dir.mkdir()
    RequestLog(folder / "same-log.sock")
    config = GatewayConfig(
        f"127.0.0.1:{port}",
        state_dir,
        folder / "same.sock",
        console_origin="http://127.0.0.1:8080",
        request_log_socket=folder / "same-log.sock",
        user="nobody" if os.geteuid() == 0 else None,
    )
    files = render_files(config, place(table, Layout(64), frozenset()))
    files[CONFIG_FILE] = without_key_check(files[CONFIG_FILE])
    for name, text in files.items():
        (state_dir / name).write_text(text)
    return Plain(SAME_HAPROXY, [str(find_haproxy()), "-W", "-db", "-f", str(state_dir / CONFIG_FILE)])


def without_key_check(configuration: str) -> str:
    before, _, rest = configuration.partition("    # 1. The key.")
    rules, second, after = rest.partition("    # 2. A container of that key's project.")
    assert "sha2(256)" in rules, "the rules of the key moved"
    assert second, "the rules of the key have no end"
    of_its_project = f"unless {{ var(txn.route),{PROJECT},strcmp(txn.project) eq 0 }}"
    assert of_its_project in after, "the project's rule moved"
    after = after.replace(of_its_project, "unless { var(txn.route) -m found }")
    after = after.replace(f"    http-request set-var(txn.project) var(txn.key),{PROJECT}\n", "")
    container, fourth, rest = after.partition("    # 4. Not more than its share.")
    _, fifth, rest = rest.partition("    # 5. What the container sees")
    assert fourth, "the rules of a key's share moved"
    assert fifth, "the rules of a key's share have no end"
    remaining = (before + second + container + fifth + rest).replace(" %[var(txn.key)] ", " - ")
    for name in ("txn.key", "txn.project", "sha2", "sess.hash"):
        assert name not in remaining, f"{name} is left of the key check"
    return remaining


def plain_haproxy(folder: Path, port: int, upstream_port: int) -> Plain:
    config = folder / "plain.cfg"
    config.write_text(f"""\
global
    nbthread 1
defaults
    mode http
    timeout connect 3s
    timeout client 600s
    timeout server 600s
    option http-no-delay
    option abortonclose
    http-reuse safe
frontend plain
    bind 127.0.0.1:{port}
    default_backend upstream
backend upstream
    balance leastconn
    server upstream 127.0.0.1:{upstream_port} maxconn 100 pool-purge-delay 2s
""")
    return Plain(BARE_HAPROXY, [str(find_haproxy()), "-db", "-f", str(config)])


def nginx(folder: Path, port: int, upstream_port: int) -> Plain | None:
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if binary is None:
        installation = ["apt-get", "install", "-y", "--no-install-recommends", "nginx-light"]
        subprocess.run(installation, capture_output=True, check=False)
        binary = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    if binary is None:
        return None
    config = folder / "nginx.conf"
    config.write_text(f"""\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    keepalive_requests 1000000000;
    upstream upstream {{ server 127.0.0.1:{upstream_port}; keepalive 64; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://upstream; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
""")
    return Plain(NGINX, [binary, "-c", str(config), "-e", str(folder / "nginx.log")])


def envoy(folder: Path, port: int, upstream_port: int) -> Plain | None:
    binary = _from_environment("envoy")
    if binary is None:
        return None

    def address(at: int) -> dict[str, object]:
        return {"socket_address": {"address": "127.0.0.1", "port_value": at}}

    http = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
    route = {"match": {"prefix": "/"}, "route": {"cluster": "upstream", "timeout": "0s"}}
    manager = {
        "@type": http,
        "stat_prefix": "bench",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": router}}],
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    endpoint = {"lb_endpoints": [{"endpoint": {"address": address(upstream_port)}}]}
    cluster = {
        "name": "upstream",
        "type": "STATIC",
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": {"cluster_name": "upstream", "endpoints": [endpoint]},
    }
    listener = {"name": "bench", "address": address(port), "filter_chains": [chain]}
    config = folder / "envoy.json"
    config.write_text(json.dumps({"static_resources": {"listeners": [listener], "clusters": [cluster]}}))
    return Plain(
        ENVOY, [binary, "-c", str(config), "--concurrency", "1", "-l", "error", "--disable-hot-restart"]
    )


def traefik(folder: Path, port: int, upstream_port: int) -> Plain | None:
    binary = _from_environment("traefik")
    if binary is None:
        return None
    routes = folder / "traefik-routes.yml"
    routes.write_text(f"""\
http:
  routers:
    all: {{ rule: "PathPrefix(`/`)", service: upstream, entryPoints: [bench] }}
  services:
    upstream: {{ loadBalancer: {{ servers: [{{ url: "http://127.0.0.1:{upstream_port}" }}] }} }}
""")
    arguments = [
        f"--entryPoints.bench.address=127.0.0.1:{port}",
        f"--providers.file.filename={routes}",
        "--global.checkNewVersion=false",
        "--global.sendAnonymousUsage=false",
        "--log.level=ERROR",
    ]
    return Plain(TRAEFIK, [binary, *arguments])


def _from_environment(name: str) -> str | None:
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)
