"""`python -m tests.kubernetes.record`: holds the conversation with a real API server and keeps its answers."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from moorage.engines.kubernetes.account import account_from
from moorage.engines.kubernetes.connection import ApiServer
from moorage.kit.clock import system_clock
from tests.kubernetes.conversation import converse
from tests.kubernetes.real_api_server import missing, programs_folder, real_api_server


async def _main() -> None:
    if lacking := missing("etcd", "kube-apiserver"):
        sys.exit(f"There is no {' and no '.join(lacking)} in {programs_folder()}.")
    with tempfile.TemporaryDirectory(prefix="moorage-record-") as folder:
        async with real_api_server(Path(folder) / "cluster") as server:
            api = ApiServer(account_from(str(server.kubeconfig("admin"))), system_clock)
            try:
                version = (await api.call("ask for its version", "GET", "/version"))["gitVersion"]
                answers = await converse(api, server.forget_old_versions)
            finally:
                await api.close()
    path = Path(__file__).parent / "recordings" / f"conversation-{version}.json"
    path.write_text(json.dumps({"version": version, "answers": answers}, indent=1, ensure_ascii=False) + "\n")
    print(path)


if __name__ == "__main__":
    asyncio.run(_main())
