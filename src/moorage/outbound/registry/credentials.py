from dataclasses import dataclass, field


@dataclass(frozen=True)
class RegistryCredentials:
    username: str
    password: str = field(repr=False)
