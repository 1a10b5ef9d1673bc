import json
from dataclasses import replace
from html.parser import HTMLParser
from math import inf, nan

import plotly.graph_objects
import pytest

from autotune.errors import NotAllowedError
from autotune.reports import write_report
from autotune.reports.html import _embedded
from autotune.views import (
    AdviceView,
    AdvisedView,
    ChangeView,
    CurveView,
    ErrorView,
    EventView,
    FinalistView,
    ObjectiveView,
)
from tests.fakes import (
    finished_job,
    finished_trials,
    make_best,
    make_curve,
    make_failed,
    make_job,
    make_pruned,
    make_stages,
    make_trial,
)

DOCUMENT = {
    "name": "demo",
    "sampler": {"name": "tpe", "seed": 3},
    "constraints": ["kl/actor_ref <= 0.12"],
    "prune": [{"kl_ceiling": {"above": 0.15, "patience": 3}}, "not_finite"],
}
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


class Page(HTMLParser):
    """What a browser would see: the elements, the figures, and the text outside of scripts."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.addresses, self.figures, self.text = [], [], {}, ""
        self._script = None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given = dict(attrs)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "action")]
        if tag == "script":
            self._script = given.get("id", "code")

    def handle_endtag(self, tag):
        if tag == "script":
            self._script = None

    def handle_data(self, data):
        if self._script is None:
            self.text += data
        elif self._script != "code":
            self.figures[self._script] = json.loads(data)


def report(tmp_path, *, job=None, trials=None, curves=None, best=None, events=(), document=DOCUMENT):
    trials = finished_trials() if trials is None else trials
    job = finished_job() if job is None else job
    curves = [make_curve(trial.number) for trial in trials] if curves is None else curves
    if best is None and job.best_trial is not None:
        best = make_best(job, trials)
    path = write_report(
        job=job, trials=trials, curves=curves, best=best, events=list(events), document=document, directory=tmp_path
    )
    assert path == tmp_path / "report.html"
    return Page(path.read_text())


def test_the_verdict_is_one_sentence_with_both_values_and_what_pruning_saved(tmp_path):
    page = report(tmp_path)
    assert (
        "Trial 1 is the best with eval/reward 0.6, 0.1 better than the default configuration (0.5); "
        "1 of 4 trials were pruned, which saved 25% of the steps; "
        "it is the value of one run, so how much of it is luck is not known." in page.text
    )


def test_the_page_needs_no_network_and_carries_plotly_once(tmp_path):
    page = report(tmp_path)
    assert page.addresses == []
    html = (tmp_path / "report.html").read_text()
    assert html.count("plotly.js v") == 1
    assert "cdn." not in html.split("<script", 1)[0]


def test_the_figures_are_figures_that_plotly_accepts(tmp_path):
    page = report(tmp_path)
    assert set(page.figures) == {"figure-curves", "figure-parallel"}
    for figure in page.figures.values():
        plotly.graph_objects.Figure(figure)


def test_all_curves_share_one_step_axis_and_pruned_ones_are_faded(tmp_path):
    figure = report(tmp_path).figures["figure-curves"]
    assert all("xaxis" not in trace for trace in figure["data"])
    assert {trace["yaxis"] for trace in figure["data"]} == {"y", "y2", "y3"}
    fade = {trace["legendgroup"]: trace["opacity"] for trace in figure["data"]}
    assert (fade["0"], fade["1"]) == (1.0, 1.0)
    assert fade["2"] < 0.5
    assert sum(trace["showlegend"] for trace in figure["data"]) == 4


def test_the_kl_limits_of_constraint_and_pruner_are_drawn(tmp_path):
    layout = report(tmp_path).figures["figure-curves"]["layout"]
    assert sorted(line["y0"] for line in layout["shapes"]) == [0.12, 0.15]
    assert {note["text"] for note in layout["annotations"]} == {"constraint &lt;= 0.12", "kl_ceiling above 0.15"}


def test_sparse_evaluations_are_joined_and_gaps_are_not_zero(tmp_path):
    trace = report(tmp_path).figures["figure-curves"]["data"][0]
    assert (trace["x"], trace["y"]) == ([1, 3, 5], [0.0, 0.2, 0.4])


def test_parallel_coordinates_place_values_between_the_ends(tmp_path):
    trials = [
        make_trial(0, params={"lr": 1e-5, "kind": "a"}, value=0.1),
        make_trial(1, params={"lr": 1e-3, "kind": "b"}, value=0.3),
        make_trial(2, params={"lr": 1e-4}, value=None, state="running"),
    ]
    figure = report(tmp_path, trials=trials, job=finished_job(best_trial=1)).figures["figure-parallel"]
    lines = {trace["hovertemplate"].split()[1]: trace for trace in figure["data"]}
    assert lines["0"]["y"] == [0.0, 0.0, 0.0]
    assert lines["1"]["y"] == [1.0, 1.0, 1.0]
    assert lines["2"]["x"] == [0]
    assert lines["2"]["y"] == [pytest.approx(0.5)]


def test_reasons_and_errors_are_in_the_table(tmp_path):
    text = report(tmp_path).text
    assert "kl_ceiling: kl/actor_ref was 0.31, above 0.15, for 3 steps" in text
    assert "out_of_memory: out of memory at step 2" in text


def test_how_to_reproduce_has_command_seed_versions_and_the_space(tmp_path):
    text = report(tmp_path).text
    assert "python -m trainer trainer.optim.lr=0.002" in text
    assert "optuna 5" in text
    assert "kl_ceiling:\n    above: 0.15" in text
    assert "seedssampler 3" in text.replace("\n", "")


def test_nothing_from_outside_becomes_markup(tmp_path):
    trials = [
        make_trial(0, params={f"a{HOSTILE}": HOSTILE}),
        make_trial(1, params={f"a{HOSTILE}": "other"}),
        replace(make_pruned(2), reason=replace(make_pruned(2).reason, text=HOSTILE, pruner=HOSTILE)),
        replace(make_failed(3), error=ErrorView(kind=HOSTILE, message=HOSTILE, hint=HOSTILE)),
    ]
    job = finished_job(
        description=HOSTILE,
        directory=HOSTILE,
        mlflow_run=HOSTILE,
        error=ErrorView(kind="x", message=HOSTILE, hint=HOSTILE),
        objective=replace(finished_job().objective, metric=f"eval/{HOSTILE}"),
    )
    curves = [CurveView(trial=0, steps=[1], metrics={f"eval/{HOSTILE}": [1.0], "kl/actor_ref": [0.1]})]
    events = [EventView(id=1, at=1.0, kind=HOSTILE, text=HOSTILE, trial=0, data={})]
    best = replace(make_best(job, trials), command=HOSTILE, overrides=[HOSTILE], checkpoint=HOSTILE)
    document = {**DOCUMENT, "constraints": [HOSTILE], "description": HOSTILE}
    page = report(tmp_path, job=job, trials=trials, curves=curves, best=best, events=events, document=document)
    assert page.tags.count("script") == 4
    assert "img" not in page.tags
    assert page.text.count("onerror=alert(2)") > 10
    for figure in page.figures.values():
        assert "<img" not in json.dumps(figure)
    assert "<script>" not in (tmp_path / "report.md").read_text().replace("\\<", "").split("```")[0]


def test_json_inside_the_page_cannot_end_its_own_element():
    data = {"a": HOSTILE, "b": "<!-- & -->"}
    text = _embedded(data)
    assert not set("<>&") & set(text)
    assert json.loads(text) == data


def test_a_job_without_any_trial_has_a_report(tmp_path):
    page = report(tmp_path, job=make_job(), trials=[])
    assert "There is no best configuration so far: no trial has completed within the constraints" in page.text
    assert "No trial has reported a step yet." in page.text
    assert page.figures == {}
    assert page.tags.count("script") == 0


def test_a_job_with_one_trial_has_a_report(tmp_path):
    trial = make_trial(0)
    page = report(tmp_path, job=finished_job(best_trial=0, best_value=0.5), trials=[trial])
    assert "which is the default configuration: nothing better was found" in page.text
    assert "Parallel coordinates need two trials" in page.text
    assert "No trial was pruned." in page.text


def test_values_that_are_not_finite_are_left_out_of_the_plots_and_named_in_the_table(tmp_path):
    trials = [make_trial(0, value=nan, params={"lr": inf}), make_trial(1, value=-inf, params={"lr": 0.1})]
    curves = [CurveView(trial=0, steps=[1, 2, 3], metrics={"reward/mean": [nan, None, inf], "kl/actor_ref": [0.1] * 3})]
    job = finished_job(best_trial=None, best_value=nan)
    page = report(tmp_path, job=job, trials=trials, curves=curves)
    assert "not finite" in page.text
    assert {trace["yaxis"] for trace in page.figures["figure-curves"]["data"]} == {"y"}


def test_finalists_are_shown_with_their_means_and_what_they_are_worth(tmp_path):
    job, trials = finished_job(), finished_trials()
    finalists = [FinalistView(trial=1, values=[0.61, 0.63], lost=1, mean=0.62, half=0.127)]
    best = replace(make_best(job, trials), finalists=finalists, finding="Trial 1 wins; its lead is within <noise>.")
    text = report(tmp_path, job=job, trials=trials, best=best).text
    assert "Trial 1 wins; its lead is within <noise>." in text
    assert "over 2 fresh seeds its mean is 0.62 +/- 0.127 (95 % interval)." in text
    assert all(word in text for word in ("finalist", "0.62", "\u00b1 0.127", "0.61, 0.63"))


def test_a_minimised_objective_that_got_worse_says_worse(tmp_path):
    trials = finished_trials()
    job = finished_job(objective=replace(finished_job().objective, direction="minimize"))
    best = replace(make_best(job, trials), improvement=-0.1)
    assert "0.1 worse than the default configuration" in report(tmp_path, job=job, best=best).text


def test_the_markdown_says_the_same(tmp_path):
    report(tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "Trial 1 is the best with eval/reward 0.6" in text
    assert (
        "| 2 | pruned | - | 0.07 | 9/40 | 3 s | kl\\_ceiling: kl/actor\\_ref was 0.31, above 0.15, for 3 steps |"
        in text
    )
    assert "trainer.optim.lr=0.002" in text


def test_a_report_replaces_the_old_one_and_leaves_nothing_beside_it(tmp_path):
    report(tmp_path, job=make_job(), trials=[])
    report(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json", "report.md"]
    assert "Trial 1 is the best" in (tmp_path / "report.html").read_text()


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotAllowedError, match="cannot be written"):
        report(tmp_path / "file" / "job")


def test_the_stages_of_a_job_stand_before_what_the_present_one_has_found(tmp_path):
    job = finished_job(stage="effect", stages=make_stages())
    document = {**DOCUMENT, "stages": [{"name": "fast"}, {"name": "effect", "constraints": ["kl/actor_ref <= 0.5"]}]}
    path = write_report(
        job=job, trials=finished_trials(), curves=[], best=None, events=[], document=document, directory=tmp_path
    )
    page, text = Page(path.read_text()), path.with_suffix(".md").read_text()
    for said in (page.text, text.replace("\\", "")):
        assert "What follows is stage effect." in said
        assert "perf/tokens_per_s >= 1.3 * default holds (default = 10, x = -)" in said
        assert "eval/reward > 0" in said
    assert "kl/actor_ref <= 0.5" in page.text


def test_a_job_with_several_objectives_shows_its_front(tmp_path):
    goals = [ObjectiveView(metric=m, direction=d) for m, d in (("eval/reward", "maximize"), ("length", "minimize"))]
    values = [{"eval/reward": 0.5, "length": 80.0}, {"eval/reward": 0.6, "length": 120.0}]
    trials = [make_trial(n, values=one, value=one["eval/reward"]) for n, one in enumerate(values)]
    job = finished_job(objectives=goals, front=[0, 1])
    best = replace(make_best(job, trials), objectives=goals, front=trials)
    page = report(tmp_path, job=job, trials=trials, best=best)
    markdown = (tmp_path / "report.md").read_text()
    verdict = "The front has 2 trials that no other beats in everything; trial 1 is their compromise"
    assert verdict in page.text
    assert verdict in markdown
    assert "length (minimize)" in page.text
    assert "| 1 | 0.6 | 120 |" in markdown
    assert "maximize eval/reward, minimize length" in page.text


def test_advice_is_a_table_with_the_best_trials_numbers_first(tmp_path):
    job, trials = finished_job(), finished_trials()
    best = make_best(job, trials)
    change = ChangeView(path="trainer.optim.lr", before=3e-5, after=1e-5)
    advice = [
        AdviceView(
            trial=number,
            rule="kl_too_high",
            finding=f"<b>the KL of {number}",
            numbers={},
            changes=[change],
            source="a guide",
        )
        for number in sorted({0, best.trial.number})
    ]
    path = write_report(
        job=job, trials=trials, curves=[], best=best, events=[], document=DOCUMENT, directory=tmp_path, advice=advice
    )
    for text in (Page(path.read_text()).text, (tmp_path / "report.md").read_text()):
        assert "What the curves advise" in text
        assert f"trial {best.trial.number}: " in text
        assert "trainer.optim.lr 3e-05 ->" in text.replace("\\", "").replace("-&gt;", "->").replace("\\>", ">")
    assert "<b>the KL" not in path.read_text()


def test_without_findings_the_report_says_nothing_of_advice(tmp_path):
    path = write_report(
        job=finished_job(), trials=[], curves=[], best=None, events=[], document=DOCUMENT, directory=tmp_path
    )
    assert "What the curves advise" not in path.read_text() + (tmp_path / "report.md").read_text()


def test_what_came_of_advice_that_was_followed_is_counted_by_rule(tmp_path):
    job = finished_job(advised=[AdvisedView(rule="kl_too_high", trials=[3, 5, 8], better=1, open=1)])
    path = write_report(job=job, trials=[], curves=[], best=None, events=[], document=DOCUMENT, directory=tmp_path)
    assert "What came of advice that was followed" in Page(path.read_text()).text
    assert "<td>kl_too_high</td><td>3, 5, 8</td><td>1 of 2</td><td>1</td>" in path.read_text()
    assert "| 3, 5, 8 | 1 of 2 | 1 |" in (tmp_path / "report.md").read_text()
