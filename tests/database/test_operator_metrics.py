import json
import re
from pathlib import Path

from api_support import ANONYMOUS, Api
from api_support import api_fixture as api_fixture

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
