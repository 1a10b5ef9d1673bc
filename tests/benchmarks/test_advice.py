"""What the advice is measured with: the two halves of the bank, what is tried in them, and the figures."""

from __future__ import annotations

import json

import advice
import pytest
from advice import Trial, by_rule, compared, summary, targets_of
from advising.cases import HALVES, advised, changes, drawn, mediocre
from advising.outcomes import key, load, nearest, trained
from curve_bank.bank import domains
from curve_bank.bank import load as bank
from curve_bank.design import TASKS

from autotune.spec.domains import contains


def test_the_halves_share_no_configuration():
    halves = [{run.name for task in TASKS for run in mediocre(half, task)} for half in HALVES]
    assert all(halves)
    assert not halves[0] & halves[1]


def test_a_mediocre_trial_is_neither_among_the_best_nor_the_worst():
    finals = sorted(run.final for run in bank("digits") if run.number % 2 and run.seed == 0 and run.final is not None)
    found = [run.final for run in mediocre("held-out", "digits")]
    quarter = len(finals) // 4
    assert (min(found), max(found)) == (finals[quarter], finals[-quarter - 1])


def test_advice_and_chance_change_as_many_parameters_and_stay_in_the_space():
    for run in mediocre("held-out", "exploitable"):
        first = next(advised(run), None)
        if first is None:
            continue
        count = changes(first)
        others = list(drawn(run, count))
        assert [changes(one) for one in others] == [count] * len(others)
        for proposal in (first, *others):
            assert all(contains(domain, proposal.overrides[path]) for path, domain in domains().items())
        assert [one.overrides for one in drawn(run, count)] == [one.overrides for one in others]


@pytest.fixture
def recorded(tmp_path):
    """All that would be trained for one task: advice gains a tenth, chance loses one."""
    rows = []
    for run in mediocre("held-out", "digits"):
        first = next(advised(run), None)
        if first is not None:
            rows.append({"overrides": dict(first.overrides), "final": run.final + 0.1})
            rows += [{"overrides": dict(one.overrides), "final": None} for one in drawn(run, changes(first))]
    path = tmp_path / "changes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_what_was_trained_is_found_again_and_what_broke_counts_as_nothing(recorded):
    trials = compared("held-out", trained(recorded))
    assert {trial.task for trial in trials} == {"digits"}
    assert all(trial.advice == pytest.approx(0.1) for trial in trials)
    assert all(value < 0 for trial in trials for value in trial.chance)
    assert len(load(recorded)) == len(recorded.read_text().splitlines())
    assert key({"b": 1, "a": 2}) == key({"a": 2, "b": 1})
    assert sum(row["better"] for row in by_rule("held-out", trained(recorded)).values()) == len(trials)


def test_a_trial_that_is_not_changed_plays_its_own_run():
    run = mediocre("held-out", "digits")[0]
    unchanged = next(drawn(run, 0))
    assert nearest(unchanged) == pytest.approx(run.final)


def test_the_figures_are_rates_with_their_difference_in_pairs():
    trials = [
        Trial(task="digits", rule="kl_too_high", advice=0.2, chance=[0.1, -0.2]),
        Trial(task="digits", rule="kl_too_high", advice=0.0, chance=[-0.2, -0.2]),
    ]
    found = summary(trials)
    assert (found["improved_by_advice"], found["improved_by_chance"], found["difference"]) == (0.5, 0.25, 0.25)
    assert (found["worse_by_advice"], found["worse_by_chance"]) == (0.0, 0.75)
    low, high = found["difference_95"]
    assert low <= 0.25 <= high


def test_a_rule_that_harms_more_than_it_helps_misses_its_target():
    rules = {"good": {"trials": 9, "better": 5, "worse": 2}, "bad": {"trials": 9, "better": 1, "worse": 4}}
    rare = {"rare": {"trials": 2, "better": 0, "worse": 2}}
    targets = targets_of({"difference_95": [0.1, 0.4]}, {**rules, **rare})
    assert [target.holds for target in targets] == [True, True, False]


def test_the_document_says_which_half_and_how_often(recorded, capsys):
    assert advice.main(["--quick", "--json", "--check", "--changes", str(recorded)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["name"] == "advice"
    assert document["results"]["half"] == "held-out"
    assert document["results"]["trained"]["improved_by_advice"] == 1.0
    assert all(target["holds"] for target in document["targets"])
