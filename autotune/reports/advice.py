"""What the rules on curves found, as rows of a table: for the report and for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.views import AdviceView, AdvisedView, BestView

HEADERS = ("rule", "trials", "for example", "try", "from")
FOLLOWED_HEADERS = ("advice of", "trials from it", "better than before", "not ended")


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


def followed_rows(advised: Sequence[AdvisedView]) -> list[list[str]]:
    """A row per rule whose advice became trials: which ones, and how many did better than the trial before them."""
    return [
        [
            one.rule,
            ", ".join(map(str, one.trials)),
            f"{one.better} of {len(one.trials) - one.open}" if len(one.trials) > one.open else "-",
            str(one.open) if one.open else "-",
        ]
        for one in advised
    ]


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
