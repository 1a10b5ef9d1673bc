"""What the rules on curves found, as rows of a table: for the report and for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.views import AdviceView, BestView

HEADERS = ("rule", "trials", "for example", "try", "from")


def advice_rows(found: Sequence[AdviceView], best: BestView | None = None) -> list[list[str]]:
    """A row per rule, the commonest first: in how many trials, and the best trial, or else the first, as an example.

    Args:
        found: All findings.
        best: The best configuration, whose findings are shown where it has any.
    """
    by_rule: dict[str, list[AdviceView]] = {}
    for advice in found:
        by_rule.setdefault(advice.rule, []).append(advice)
    rows = []
    for rule, cases in sorted(by_rule.items(), key=lambda item: -len(item[1])):
        example = next((one for one in cases if best is not None and one.trial == best.trial.number), cases[0])
        changes = "; ".join(
            f"{change.path} {_shown(change.before)} -> {_shown(change.after)}" for change in example.changes
        )
        rows.append([rule, str(len(cases)), f"trial {example.trial}: {example.finding}", changes, example.source])
    return rows


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
