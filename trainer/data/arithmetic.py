"""Add and subtract two numbers."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.data.task import Example


@dataclass(frozen=True, kw_only=True, slots=True)
class Arithmetic:
    """`"17+25="` wants `"042"`, and `"17-25="` wants `"-08"`: results of fixed width, read from the left.

    Attributes:
        width: Digits of both numbers.
    """

    width: int

    @property
    def alphabet(self) -> str:
        """Digits, signs, equals."""
        return "0123456789+-="

    def size(self) -> int:
        """One example per pair of numbers and operation."""
        return int(2 * 10 ** (2 * self.width))

    def example(self, index: int) -> Example:
        """The example whose operation and numbers are coded in `index`."""
        pair, minus = divmod(index, 2)
        left, right = divmod(pair, 10**self.width)
        result = left - right if minus else left + right
        prompt = f"{left:0{self.width}d}{'-' if minus else '+'}{right:0{self.width}d}="
        return Example(index=index, prompt=prompt, ground_truth=f"{result:0{self.width + 1}d}")
