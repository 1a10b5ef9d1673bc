"""One job as an object: what a notebook or a script works with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from autotune.errors import UsageError
from autotune.views import AdviceView, BestView, CurveView, EventView, JobView, TrialView

if TYPE_CHECKING:
    import pandas as pd

    from autotune.client.blocking import Client


class JobHandle:
    """A job and the client that reaches it.

    Args:
        client: The way to the service.
        view: The job as it was seen last.
    """

    def __init__(self, client: Client, view: JobView) -> None:
        self._client = client
        self.view = view

    @property
    def id(self) -> str:
        """The job's id."""
        return self.view.id

    def refresh(self) -> JobView:
        """Looks at the job again."""
        self.view = self._client.job(self.id)
        return self.view

    def wait(self, *, timeout: float | None = None, poll: float = 1.0) -> JobView:
        """Waits until the job has ended well; see ``Client.wait``."""
        self.view = self._client.wait(self.id, timeout=timeout, poll=poll)
        return self.view

    def events(self, *, after: int = 0) -> Iterator[EventView]:
        """The job's record from the event ``after`` on, as it is written, until the job has ended."""
        return self._client.stream_events(self.id, after=after)

    def trials(self, *, state: str | None = None, stage: str | None = None) -> list[TrialView]:
        """Every trial, by number; of the stage that the job is at, or of the named one."""
        return list(self._client.all_trials(self.id, state=state, stage=stage))

    def curves(self, *metrics: str, trials: Sequence[int] | None = None, stage: str | None = None) -> list[CurveView]:
        """Curves of these metrics; none named = all."""
        return self._client.curves(self.id, metrics=metrics, trials=trials, stage=stage)

    def advice(self, *, trial: int | None = None) -> list[AdviceView]:
        """What rules on curves find in its trials, or in one of them, each with a change to try."""
        return self._client.advice(self.id, trial=trial)

    def best(self) -> BestView:
        """The best configuration with its evidence."""
        return self._client.best(self.id)

    def pause(self) -> JobView:
        """Starts no new trials; the running ones go on."""
        self.view = self._client.pause(self.id)
        return self.view

    def resume(self) -> JobView:
        """Goes on."""
        self.view = self._client.resume(self.id)
        return self.view

    def stop(self) -> JobView:
        """Starts no new trials and lets the running ones finish."""
        self.view = self._client.stop(self.id)
        return self.view

    def cancel(self) -> JobView:
        """Ends the running trials now."""
        self.view = self._client.cancel(self.id)
        return self.view

    def enqueue(self, params: Mapping[str, Any]) -> EventView:
        """Lets the job run this configuration next."""
        return self._client.enqueue(self.id, params)

    def to_dataframe(self, *, curves: bool = False) -> pd.DataFrame:
        """The trials as a table, or the curves of all of them.

        Args:
            curves: One row for each step of each trial (columns ``trial``, ``step`` and the metrics) instead of one
                row for each trial (its facts, its parameters by full path, its last metrics).

        Raises:
            UsageError: If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise UsageError("a data frame needs pandas, which is not installed.", hint="pip install pandas") from error
        if curves:
            found = self.curves()
            if not found:
                return pd.DataFrame({"trial": [], "step": []})
            tables = [pd.DataFrame({"trial": c.trial, "step": c.steps, **c.metrics}) for c in found]
            return pd.concat(tables, ignore_index=True)
        rows = [_row(trial) for trial in self.trials()]
        return pd.DataFrame(rows).set_index("number") if rows else pd.DataFrame()

    def __repr__(self) -> str:
        view = self.view
        best = "" if view.best_value is None else f", best {view.objective.metric} {view.best_value:.4g}"
        return f"<job {view.id}: {view.state}, {_counts(view)} of {view.budget_trials} trials{best}>"

    def _repr_html_(self) -> str:
        view = self.view
        facts = {
            "state": view.state,
            "trials": f"{_counts(view)} of {view.budget_trials}",
            "objective": f"{view.objective.direction} {view.objective.metric}",
            "best": "none yet" if view.best_value is None else f"{view.best_value:.4g} (trial {view.best_trial})",
            "default": "none yet" if view.default_value is None else f"{view.default_value:.4g}",
            "cost": f"{view.cost_s:.0f} s of trials, {view.cost_gpu_hours:.2f} GPU-hours",
        }
        if view.error is not None:
            facts["error"] = f"{view.error.kind}: {view.error.message}"
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>" for name, fact in facts.items())
        return f"<table><caption>job {escape(view.id)}</caption>{rows}</table>"


def _counts(view: JobView) -> str:
    return ", ".join(f"{count} {state}" for state, count in view.trials.items() if count) or "none"


def _row(trial: TrialView) -> dict[str, Any]:
    """One line of the table; a metric never hides a fact of the same name."""
    facts: dict[str, Any] = {
        "number": trial.number,
        "state": trial.state,
        "source": trial.source,
        "value": trial.value,
        "feasible": trial.feasible,
        "last_step": trial.last_step,
        "cost_s": trial.cost_s,
        "pruner": trial.reason.pruner if trial.reason else None,
        "reason": trial.reason.text if trial.reason else None,
        "error": trial.error.kind if trial.error else None,
    }
    return {**trial.metrics, **trial.params, **facts}
