"""What is added up while a model's parameters are counted. Pure."""

from dataclasses import dataclass


@dataclass
class Tally:
    total: int = 0
    matrices: int = 0
    experts: int = 0
    columns: int = 0

    def matrix(self, inputs: int, outputs: int, *, bias: bool = False) -> None:
        self.matrices += inputs * outputs
        self.columns += inputs
        self.total += inputs * outputs + (outputs if bias else 0)

    def expert_matrices(self, experts: int, hidden: int, intermediate: int) -> None:
        """Gate, up and down of each."""
        count = experts * 3 * hidden * intermediate
        self.experts += count
        self.matrices += count
        self.columns += experts * (2 * hidden + intermediate)
        self.total += count

    def others(self, count: int) -> None:
        self.total += count
