"""Runs the few PTX instructions that a proof's kernels are made of, one thread at a time: so that what they compute can be compared with
what they should, where there is no GPU."""

import re
import struct
from collections.abc import Mapping

_MASK32, _MASK64 = 2**32 - 1, 2**64 - 1


class PtxMachine:
    def __init__(self, source: str, memory_bytes: int) -> None:
        self.memory = bytearray(memory_bytes)
        found = re.findall(r"\.entry (\w+)\(([^)]*)\)\s*\{(.*?)\n\}", source, re.S)
        self._kernels = {
            name: (re.findall(r"\.param \.u\d+ (\w+)", parameters), _statements(body))
            for name, parameters, body in found
        }

    def launch(self, name: str, grid: tuple[int, int], block: tuple[int, int], *values: int) -> None:
        parameters, statements = self._kernels[name]
        given = dict(zip(parameters, values, strict=True))
        for y in range(grid[1] * block[1]):
            for x in range(grid[0] * block[0]):
                special = {
                    "%ctaid.x": x // block[0], "%tid.x": x % block[0], "%ntid.x": block[0], "%nctaid.x": grid[0],
                    "%ctaid.y": y // block[1], "%tid.y": y % block[1], "%ntid.y": block[1],
                }  # fmt: skip
                self._run(statements, given, special)

    def _run(self, statements: list[str], given: Mapping[str, int], special: Mapping[str, int]) -> None:
        registers: dict[str, int] = dict(special)
        labels = {line[:-1]: at for at, line in enumerate(statements) if line.endswith(":")}
        at = 0
        while True:
            line = statements[at]
            at += 1
            if line.endswith(":"):
                continue
            if guard := re.match(r"@(%p\d) (.*)", line):
                if not registers[guard[1]]:
                    continue
                line = guard[2]
            operation, _, rest = line.partition(" ")
            arguments = [one.strip() for one in re.findall(r"\{[^}]*\}|[^,]+", rest)]
            if operation == "ret":
                return
            if operation == "bra":
                at = labels[arguments[0]]
                continue
            self._step(operation, arguments, registers, given)

    def _step(
        self, operation: str, arguments: list[str], registers: dict[str, int], given: Mapping[str, int]
    ) -> None:
        kind, *how = operation.split(".")
        target = arguments[0]

        def value(text: str) -> int:
            return registers[text] if text.startswith("%") else int(text, 0)

        if kind == "ld":
            place = arguments[1].strip("[]")
            if how[0] == "param":
                registers[target] = given[place]
            else:
                targets = [one.strip() for one in target.strip("{}").split(",")]
                numbers = struct.unpack_from(f"<{len(targets)}I", self.memory, value(place))
                registers.update(zip(targets, numbers, strict=True))
            return
        if kind == "st":
            struct.pack_into("<I", self.memory, value(target.strip("[]")), value(arguments[1]))
            return
        operands = [value(one) for one in arguments[1:]]
        wide = how[-1].endswith("64") or "wide" in how
        mask = _MASK64 if wide and kind != "cvt" else (_MASK64 if how[0].endswith("64") else _MASK32)
        results = {
            "mov": lambda: operands[0],
            "cvta": lambda: operands[0],
            "cvt": lambda: operands[0],
            "add": lambda: operands[0] + operands[1],
            "sub": lambda: operands[0] - operands[1],
            "mul": lambda: operands[0] * operands[1],
            "mad": lambda: operands[0] * operands[1] + operands[2],
            "xor": lambda: operands[0] ^ operands[1],
            "shr": lambda: operands[0] >> operands[1],
            "shl": lambda: operands[0] << operands[1],
        }
        if kind == "setp":
            compare = {
                "ge": operands[0] >= operands[1],
                "eq": operands[0] == operands[1],
                "ne": operands[0] != operands[1],
            }
            registers[target] = int(compare[how[0]])
            return
        registers[target] = results[kind]() & mask


def _statements(body: str) -> list[str]:
    found = []
    for part in re.split(r"[;\n]", body.replace(":", ":\n")):
        line = part.strip()
        if line and not line.startswith("."):
            found.append(line)
    return found
