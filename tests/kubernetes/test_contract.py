"""The Kubernetes engine passes the contract that every engine passes, against the stand-in."""

from tests.engine.contract import EngineContract


class TestKubernetesContract(EngineContract):
    pass
