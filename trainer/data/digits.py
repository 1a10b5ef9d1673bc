"""Continue a sequence of digits that grows by one from period to period."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.data.task import Example


@dataclass(frozen=True, kw_only=True, slots=True)
class Digits:
    """`"39052718:"` wants the next period, `"40163829"`: each digit one higher, 0 after 9.

    Attributes:
        width: Digits of a period.
    """

    width: int

    @property
    def alphabet(self) -> str:
        """Digits and colon."""
        return "0123456789:"

    def size(self) -> int:
        """One example per period."""
        return int(10**self.width)

    def example(self, index: int) -> Example:
        """The example whose period is `index` written in `width` digits."""
        shown = f"{index:0{self.width}d}"
        following = "".join(str((int(digit) + 1) % 10) for digit in shown)
        return Example(index=index, prompt=f"{shown}:", ground_truth=following)
