"""Names of the sandbox that a machine which is lent runs containers in. Pure."""

SANDBOX_RUNTIME = "moorage-runsc"
"""Of the engine's runtime: one of ours, so that the machine's owner may have a `runsc` of their own."""


def is_sandbox(runtime: str | None) -> bool:
    return runtime is not None and "runsc" in runtime
