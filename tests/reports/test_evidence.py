"""What the report says besides the numbers: answers, importance, constraints; in all three forms."""

import json
from dataclasses import replace

import pytest

from autotune.reports import FORMATS, write_report
from autotune.reports.importance import association, importance
from autotune.reports.samples import samples_of
from autotune.service.reporting import drawn
from tests.fakes import finished_job, finished_trials, make_best, make_curve, make_trial

DOCUMENT = {"name": "demo", "constraints": ["kl/actor_ref <= 0.12"], "sampler": {"name": "tpe", "seed": 3}}
HOSTILE = "</td><script>alert(1)</script> | `code` \u2603 \U0001f40d"


def line(step, response, reward, prompt="2+2="):
    row = {"step": step, "prompt": prompt, "ground_truth": "4", "response": response, "reward": reward}
    return json.dumps(row) + "\n"


def trials_with(tmp_path, **texts):
    """Finished trials whose directories hold these samples: t1="..." is the file of trial 1."""
    trials = []
    for trial in finished_trials():
        directory = tmp_path / "trials" / f"{trial.number:04d}"
        directory.mkdir(parents=True)
        if f"t{trial.number}" in texts:
            (directory / "samples.jsonl").write_text(texts[f"t{trial.number}"])
        trials.append(replace(trial, directory=str(directory)))
    return trials


def written(tmp_path, trials, **changes):
    job = finished_job()
    given = {
        "job": job,
        "trials": trials,
        "curves": [make_curve(trial.number) for trial in trials],
        "best": make_best(job, trials) if any(trial.number == job.best_trial for trial in trials) else None,
        "events": [],
        "document": DOCUMENT,
        "directory": tmp_path / "out",
        **changes,
    }
    html = write_report(**given)
    return {form: html.with_suffix(suffix).read_text() for form, suffix in FORMATS.items()}


def test_answers_of_base_and_best_stand_side_by_side_with_their_rewards(tmp_path):
    trials = trials_with(tmp_path, t1=line(0, "five", 0.0) + line(40, "four", 1.0))
    texts = written(tmp_path, trials)
    assert "<td class=text>five</td><td class=n>0</td><td class=text>four</td><td class=n>1</td>" in texts["html"]
    assert "| 2+2= | 4 | five | 0 | four | 1 |" in texts["markdown"]
    (sample,) = json.loads(texts["json"])["samples"]
    assert (sample["base"], sample["best"]) == ({"text": "five", "reward": 0.0}, {"text": "four", "reward": 1.0})
    assert sample["step"] == 40


def test_a_trial_that_went_on_from_another_takes_the_base_from_where_it_was_written(tmp_path):
    trials = trials_with(tmp_path, t0=line(0, "five", 0.0), t1=line(40, "four", 1.0))
    (sample,) = samples_of(make_best(finished_job(), trials), trials)
    assert sample.base is not None
    assert (sample.base.text, sample.best.text) == ("five", "four")


def test_answers_are_text_and_never_markup(tmp_path):
    trials = trials_with(tmp_path, t1=line(0, HOSTILE, None, HOSTILE) + line(40, HOSTILE, 0.5, HOSTILE))
    texts = written(tmp_path, trials)
    assert "<script>alert" not in texts["html"]
    assert texts["html"].count("&lt;script&gt;alert(1)") == 3
    assert "\\<script\\>alert(1)\\</script\\> \\| \\`code\\` \u2603 \U0001f40d" in texts["markdown"]
    assert json.loads(texts["json"])["samples"][0]["base"] == {"text": HOSTILE, "reward": None}


@pytest.mark.parametrize("text", ["", "not json\n", "[1]\n", '{"step": 4}\n', line(0, "base only", 1.0), "\x00\xff\n"])
def test_a_file_that_is_not_as_expected_leaves_the_report_without_answers(tmp_path, text):
    texts = written(tmp_path, trials_with(tmp_path, t1=text))
    assert "The best trial left no answers" in texts["html"]
    assert "## Answers" not in texts["markdown"]


def ten(value_of, **more):
    """Ten trials over lr and kind."""
    params = [{"lr": 10.0 ** -(number % 5 + 1), "kind": "ab"[number % 2]} for number in range(10)]
    return [make_trial(n, params=one, value=value_of(one), **more) for n, one in enumerate(params)]


def test_the_parameter_that_decides_comes_first_and_is_sure():
    rows = importance(ten(lambda params: params["lr"]))
    assert rows[0].path == "lr"
    assert rows[0].objective.strength == pytest.approx(1.0)
    assert (rows[0].objective.sure, rows[0].kl) == (True, None)
    assert all(abs(row.objective.strength) < 0.6 for row in rows[1:])


def test_choices_have_no_sign_and_values_that_are_not_finite_do_not_count():
    rows = importance(ten(lambda params: 1.0 if params["kind"] == "a" else 0.0))
    best = next(row for row in rows if row.path == "kind").objective
    assert (best.signed, best.strength) == (False, pytest.approx(1.0))
    assert importance(ten(lambda params: float("nan"))) == []
    assert association([1, 2, 3], [1.0, 2.0, 3.0]) is None


def test_importance_is_shown_in_all_forms(tmp_path):
    trials = ten(lambda params: params["lr"])
    texts = written(tmp_path, trials)
    assert "<code>lr</code></td><td><span class=bar style='width:8.3em'></span> +1.00</td><td>-</td>" in texts["html"]
    assert "| `lr` | +1.00 | - |" in texts["markdown"]
    assert json.loads(texts["json"])["importance"][0]["objective"]["strength"] == pytest.approx(1.0)


def test_few_trials_say_that_importance_needs_more(tmp_path):
    assert "needs eight trials" in written(tmp_path, finished_trials())["html"]


def test_each_constraint_says_whether_the_best_trial_keeps_it_and_who_broke_it(tmp_path):
    broken = make_trial(2, violations={"kl/actor_ref <= 0.12": 0.2})
    texts = written(tmp_path, [*finished_trials()[:2], broken])
    assert "<td>kl/actor_ref &lt;= 0.12</td><td>holds by 0.05</td><td>1 of 3</td>" in texts["html"]
    assert "| kl/actor\\_ref \\<= 0.12 | holds by 0.05 | 1 of 3 |" in texts["markdown"]


def test_the_json_holds_everything_and_is_strict(tmp_path):
    trials = [make_trial(0, value=float("nan")), make_trial(1)]
    found = json.loads(written(tmp_path, trials)["json"], parse_constant=lambda name: pytest.fail(name))
    parts = {"schema", "verdict", "job", "best", "differences", "trials", "curves", "savings", "importance"}
    parts |= {"constraints", "kl_limits", "samples", "advice", "events", "reproduce"}
    assert set(found) == parts
    assert found["trials"][0]["value"] is None
    assert found["reproduce"]["seeds"] == {"sampler": 3}
    assert {"autotune", "python", "optuna"} <= set(found["reproduce"]["versions"])


def test_no_job_is_too_empty_for_any_form(tmp_path):
    job = finished_job(best_trial=None, best_value=None)
    for trials in ([], [make_trial(0, value=None, state="running", params={}, metrics={}, violations={})]):
        texts = written(tmp_path, trials, job=job, best=None, curves=[], document={})
        assert all("no trial has completed" in text for text in texts.values())


def test_ten_thousand_trials_make_a_report_that_still_opens(tmp_path):
    trials = [make_trial(number, source="sampler") for number in range(10_000)]
    numbers = drawn(trials, make_best(finished_job(best_trial=3), trials))
    assert numbers is not None
    assert len(numbers) == 300
    assert {3, 9_999} <= set(numbers)
    assert drawn(trials[:300], None) is None
    job = finished_job(best_trial=3, trials={"completed": 10_000})
    texts = written(
        tmp_path,
        trials,
        job=job,
        best=make_best(job, trials),
        curves=[make_curve(number, steps=50) for number in numbers],
    )
    assert "9700 of 10000 trials are not drawn here." in texts["html"]
    assert len(texts["html"]) < 20_000_000
    assert texts["html"].count("<td class=n>9999</td>") == 1, "every trial is in the table"
    assert len(json.loads(texts["json"])["trials"]) == 10_000
