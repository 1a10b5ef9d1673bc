"""Chooses which points of a curve are worth sending: few, evenly spread, the ends included."""

from __future__ import annotations

from collections.abc import Sequence


def evenly(count: int, keep: int) -> list[int]:
    """At most ``keep`` of the indices ``0 .. count - 1``, evenly spread, first and last included.

    Args:
        count: Number of indices.
        keep: At least 1; with 1 only the last index is kept.
    """
    if count <= keep:
        return list(range(count))
    if keep == 1:
        return [count - 1]
    return [round(place * (count - 1) / (keep - 1)) for place in range(keep)]


def thin(present: Sequence[Sequence[int]], keep: int) -> list[int]:
    """Chooses at most ``keep`` rows so that rare curves survive beside dense ones.

    An evaluation every tenth step must not fall through the grid that suits the training metrics; therefore curves
    that are reported in the same rows share a part of the budget, and rare groups choose first.

    Args:
        present: For each curve the rows, ascending, in which it has a value.
        keep: At least 1.
    """
    groups = sorted({tuple(rows) for rows in present if rows}, key=len)
    chosen: set[int] = set()
    for place, rows in enumerate(groups):
        share = (keep - len(chosen)) // (len(groups) - place)
        if share:
            chosen.update(rows[index] for index in evenly(len(rows), share))
    return sorted(chosen)
