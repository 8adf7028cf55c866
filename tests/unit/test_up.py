from moorage.engines.docker.network import NetworkIsolation
from moorage.entrypoints.announcement import gpu_lines
from moorage.entrypoints.foundation import settings_for

OPEN = NetworkIsolation(isolated=False, reason="iptables is not installed")


def test_sign_up_is_closed_where_containers_cannot_be_kept_apart() -> None:
    said: list[str] = []
    assert settings_for(NetworkIsolation(isolated=True, reason=None), said.append, required=True) == {}
    assert said == []
    for required, words in ((True, "no new container starts"), (False, "start anyway")):
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


def test_what_becomes_of_the_gpus_is_said() -> None:
    node = {
        "name": "rack-1",
        "gpus": [{"model": "NVIDIA H200"}, {"model": "NVIDIA H200"}],
        "gpu_driver": "580.65.06",
        "cuda_version": "13.0",
        "message": "GPUs are handed over directly: the engine has no NVIDIA runtime.",
    }
    plain = {"name": "plain", "gpus": [], "message": None}
    proposal = {
        "name": "h200-141gb",
        "gpu_model": "NVIDIA H200",
        "gpu_count": 1,
        "vcpu_millis": 16000,
        "memory_bytes": 112 * 2**30,
        "disk_bytes": 200 * 2**30,
        "price_per_hour_microusd": None,
        "infrastructure": "operator",
        "because": "rack-1 has NVIDIA H200, but no instance type offers it.",
    }
    assert gpu_lines([node, plain], [proposal]) == [
        "rack-1 has 2 × NVIDIA H200, driver 580.65.06, CUDA 13.0.",
        "GPUs are handed over directly: the engine has no NVIDIA runtime.",
        "rack-1 has NVIDIA H200, but no instance type offers it. Add one:",
        (
            "  moor operator instance-type add h200-141gb --gpu 'NVIDIA H200' --gpu-count 1 --vcpu 16 "
            "--memory 112 --disk 200"
        ),
    ]
