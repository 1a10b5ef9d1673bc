"""What a number in a space file may be, in a form that checks it, says it, and exports it to a JSON Schema."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """Limits of a number; ``None`` = no limit.

    Attributes:
        low: Smallest value that is allowed.
        above: The value must be larger than this.
        high: Largest value that is allowed.
    """

    low: float | None = None
    above: float | None = None
    high: float | None = None

    def allows(self, value: float) -> bool:
        """Whether ``value`` lies inside."""
        return (
            (self.low is None or value >= self.low)
            and (self.above is None or value > self.above)
            and (self.high is None or value <= self.high)
        )

    def __str__(self) -> str:
        parts = [
            f"at least {self.low:g}" if self.low is not None else "",
            f"above {self.above:g}" if self.above is not None else "",
            f"at most {self.high:g}" if self.high is not None else "",
        ]
        return " and ".join(part for part in parts if part)

    def schema(self) -> dict[str, float]:
        """The same limits in the words of JSON Schema."""
        words = {"minimum": self.low, "exclusiveMinimum": self.above, "maximum": self.high}
        return {word: limit for word, limit in words.items() if limit is not None}


ANY = Bounds()
POSITIVE = Bounds(above=0)
NOT_NEGATIVE = Bounds(low=0)
COUNT = Bounds(low=1)
