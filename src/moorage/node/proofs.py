"""Runs a proof on this machine: one at a time, in a process of its own, which is ended when it is over, when nobody asks further, or when
a replica begins: whoever placed that knows nothing of what a proof has filled."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from typing import Any

from moorage.engines.remote.codec import ANSWERS, decode, encode
from moorage.engines.remote.proofs import GAVE_WAY, ProofAnswer, ProofFilled, ProofOrder, ProofQuestion
from moorage.kit.errors import EngineError

KEPT_S = 60.0
"""What is filled waits so long for the question."""
_LONGEST_LINE = 2**20


class Proofs:
    def __init__(self) -> None:
        self._child: Process | None = None
        self._end: asyncio.TimerHandle | None = None
        self._gave_way = False

    async def begin(self, order: ProofOrder) -> ProofFilled:
        """Returns when everything is filled. Raises `EngineError`."""
        await self.close()
        self._gave_way = False
        self._child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "moorage.machines.proof.child"),
            stdin=PIPE,
            stdout=PIPE,
            limit=_LONGEST_LINE,
        )
        try:
            said = await self._exchanged(encode(order), "filled")
        except BaseException:
            await self.close()
            raise
        self._end = asyncio.get_running_loop().call_later(KEPT_S, self._kill)
        filled: ProofFilled = decode(ProofFilled, said, ANSWERS)
        return filled

    async def answer(self, question: ProofQuestion) -> ProofAnswer:
        try:
            said = await self._exchanged(encode(question), "answer")
        finally:
            await self.close()
        answer: ProofAnswer = decode(ProofAnswer, said, ANSWERS)
        return answer

    async def give_way(self) -> None:
        """A replica begins, and needs the room."""
        self._gave_way |= self._child is not None
        await self.close()

    async def close(self) -> None:
        if self._end is not None:
            self._end.cancel()
        child, self._child, self._end = self._child, None, None
        if child is not None:
            if child.returncode is None:
                child.kill()
            await child.wait()

    def _kill(self) -> None:
        if self._child is not None and self._child.returncode is None:
            self._child.kill()

    async def _exchanged(self, sent: Any, wanted: str) -> Any:
        said = await self._said(json.dumps(sent).encode() + b"\n")
        if wanted in said:
            return said[wanted]
        if self._gave_way:
            raise EngineError("prove: it gave way to a replica that began", code=GAVE_WAY)
        raise EngineError(f"prove: {said.get('failed', 'it did not say how it went')}")

    async def _said(self, line: bytes) -> dict[str, Any]:
        child = self._child
        if child is None or child.stdin is None or child.stdout is None:
            return {"failed": "nothing was filled"}
        try:
            child.stdin.write(line)
            await child.stdin.drain()
            answer = await child.stdout.readline()
        except (OSError, ValueError):
            return {"failed": "the proof ended"}
        said: dict[str, Any] = (
            json.loads(answer) if answer else {"failed": "it was ended, for want of memory perhaps"}
        )
        return said
