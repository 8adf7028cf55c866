from moorage.engines.docker.network import NetworkIsolation
from moorage.entrypoints.up import settings_for

OPEN = NetworkIsolation(isolated=False, reason="iptables is not installed")


def test_sign_up_is_closed_where_containers_cannot_be_kept_apart() -> None:
    said: list[str] = []
    assert settings_for(NetworkIsolation(isolated=True, reason=None), said.append, required=True) == {}
    assert said == []
    for required, words in ((True, "nothing new starts"), (False, "start all the same")):
        said.clear()
        assert settings_for(OPEN, said.append, required=required) == {"MOORAGE_SIGN_UP": "closed"}
        assert "iptables is not installed" in said[0]
        assert "Sign-up is closed" in said[0]
        assert words in said[0]


def test_weaknesses_are_said() -> None:
    said: list[str] = []
    weak = NetworkIsolation(isolated=True, reason=None, weaknesses=("loopback is open",))
    assert settings_for(weak, said.append, required=True) == {}
    assert "loopback is open" in said[0]
