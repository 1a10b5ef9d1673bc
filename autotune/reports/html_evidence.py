"""The parts of the page that say why: what holds, what matters, and what the models answer."""

from __future__ import annotations

from html import escape

from autotune.reports.facts import Material, constraint_rows, number
from autotune.reports.importance import Association, importance


def constraints(material: Material) -> str:
    """Which constraints hold for the best trial, and by how much; nothing without constraints."""
    rows = constraint_rows(material)
    if not rows:
        return ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        "<h2>Constraints</h2><table><tr><th>constraint</th><th>the best trial</th><th>trials that broke it</th></tr>"
        f"{body}</table>"
    )


def importances(material: Material) -> str:
    """How strongly each parameter goes together with the objective and with KL."""
    rows = importance(material.trials)
    if not rows:
        return (
            "<h3>Importance</h3><p class=note>Which parameters matter needs eight trials with values; "
            "there are fewer, or they do not differ.</p>"
        )
    body = "".join(
        f"<tr><td><code>{escape(row.path)}</code></td>{_bar(row.objective)}{_bar(row.kl)}</tr>" for row in rows
    )
    return (
        "<h3>Importance</h3><table class=bars><tr><th>parameter</th>"
        f"<th>{escape(material.job.objective.metric)}</th><th>KL</th></tr>{body}</table><p class=note>Rank correlation "
        "of each parameter with the result: + means that larger values go with larger results, choices have no sign. "
        "Faded where chance alone reaches as much.</p>"
    )


def _bar(found: Association | None) -> str:
    if found is None:
        return "<td>-</td>"
    sign = ("+" if found.strength >= 0 else "-") if found.signed else ""
    style = "" if found.sure else " class=faint"
    width = round(100 * abs(found.strength))
    return f"<td{style}><span class=bar style='width:{width / 12:.1f}em'></span> {sign}{abs(found.strength):.2f}</td>"


def samples(material: Material) -> str:
    """The answers of the base and of the best model, side by side."""
    found = material.samples
    if not found:
        return (
            "<h2>Answers</h2><p class=note>The best trial left no answers to held-out prompts "
            "(the built-in trainer writes them: trainer.eval_samples).</p>"
        )
    rows = "".join(
        f"<tr><td class=text>{escape(one.prompt)}</td><td class=text>{escape(one.ground_truth)}</td>"
        + _answer(one.base.text if one.base else None, one.base.reward if one.base else None)
        + _answer(one.best.text, one.best.reward)
        + "</tr>"
        for one in found
    )
    return (
        "<h2>Answers</h2><p class=note>The same held-out prompts, answered greedily before training and after step "
        f"{found[0].step} of the best trial.</p><div class=scroll><table><tr><th>prompt</th><th>expected</th>"
        f"<th>base</th><th class=n>reward</th><th>best</th><th class=n>reward</th></tr>{rows}</table></div>"
    )


def _answer(text: str | None, reward: float | None) -> str:
    if text is None:
        return "<td class=note>not written down</td><td class=n>-</td>"
    shown = escape(text) if text else "<span class=note>(empty)</span>"
    return f"<td class=text>{shown}</td><td class=n>{number(reward)}</td>"
