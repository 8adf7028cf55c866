import json
import re
from dataclasses import replace
from pathlib import Path

from api_support import ANONYMOUS, Api
from api_support import api_fixture as api_fixture

from moorage.catalog.repository import note_silence, replace_nodes_of
from moorage.engines.base import LOCAL_ENGINE, NodeCapacity

NODE = NodeCapacity("a machine", "operator", "amd64", 8000, 2**34, ())
DASHBOARD = Path(__file__).parents[2] / "deploy/grafana/moorage.json"
LINE = re.compile(r'[a-z_]+\{([a-z]+="[^"\n]*",?)*\} -?[0-9.e+-]+')


async def test_everything_that_the_dashboard_shows_is_there(api: Api) -> None:
    await api.ask(ANONYMOUS, "GET", "/nothing/here/4711")
    await api.ask(ANONYMOUS, "BREW", "/healthz")
    await api.get(api.operator, "/containers/ctr_secret/logs")
    answer = await api.ask(api.operator, "GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    values = [line for line in lines if not line.startswith("#")]
    assert [line for line in values if not LINE.fullmatch(line)] == []
    declared = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    shown = set(re.findall(r"moorage_[a-z_]+", DASHBOARD.read_text()))
    assert {name.removesuffix("_bucket") for name in shown} <= declared
    assert len(json.loads(DASHBOARD.read_text())["panels"]) == 12
    assert (
        'moorage_api_requests_total{method="GET",route="/containers/{container_id}/logs",status="404"} 1'
        in values
    )
    assert 'method="other"' in answer.text
    # What clients type is in no label.
    assert "4711" not in answer.text
    assert "ctr_secret" not in answer.text
    assert any(line.startswith('moorage_stored_bytes{table="log_lines"}') for line in values)


async def test_a_machine_that_does_not_answer_is_seen_in_the_figures(api: Api) -> None:
    machines = {
        engine: replace(NODE, name=name) for engine, name in ((LOCAL_ENGINE, "own"), ("mch_7", "rack-7"))
    }
    async with api.database.transaction() as session:
        await replace_nodes_of(session, {engine: [node] for engine, node in machines.items()})
        await note_silence(session, "mch_7", 21.0)
    values = (await api.ask(api.operator, "GET", "/metrics")).text.splitlines()
    assert 'moorage_node_ready{node="own"} 1' in values
    assert 'moorage_node_ready{node="rack-7"} 0' in values
