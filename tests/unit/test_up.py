from moorage.engines.docker.network import NetworkIsolation
from moorage.entrypoints.up import settings_for


def test_sign_up_is_closed_where_containers_cannot_be_kept_apart() -> None:
    said: list[str] = []
    assert settings_for(NetworkIsolation(isolated=True, reason=None), said.append) == {}
    assert said == []
    closed = settings_for(NetworkIsolation(isolated=False, reason="iptables is not installed"), said.append)
    assert closed == {"MOORAGE_SIGN_UP": "closed"}
    assert "iptables is not installed" in said[0]
    assert "sign-up is closed" in said[0]
