from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.search.pruners import PRUNERS, Asha, Hyperband, Sight, Study
from autotune.search.pruners.base import CONDEMNING
from autotune.search.types import Point, Reason, Trial
from autotune.spec.types import Direction, Objective
from autotune.states import TrialState

REWARD = Objective(metric="eval/reward")


def curve(values):
    return [Point(step=1 + i, time=0.0, metrics={"eval/reward": value}) for i, value in enumerate(values)]


def flat(value, steps=10):
    return curve([value] * steps)


def trial(number, state=TrialState.RUNNING, source="sampler", reason=None):
    return Trial(number=number, state=state, source=source, params={}, config={}, reason=reason)


def sight(points, peers=(), *, objective=REWARD, source="sampler", held=(), growing=True):
    """One trial under judgement; the peers in ``held`` are paused at rung 10."""
    at_rung = Asha(min_steps=10).judge(bare(flat(0.0), [flat(1.0)]))
    others = {
        number: trial(number, TrialState.PAUSED, reason=at_rung) if number in held else trial(number)
        for number in range(len(peers))
    }
    return bare(points, peers, objective=objective, source=source, trials=others, growing=growing)


def bare(points, peers, *, objective=REWARD, source="sampler", trials=None, growing=True):
    return Sight(
        trial=trial(99, source=source),
        step=points[-1].step,
        curve=points,
        peers=dict(enumerate(peers)),
        objective=objective,
        total_steps=30,
        trials=trials or {},
        growing=growing,
    )


def stop(**options):
    return Asha(min_steps=10, mode="stop", **options)


def test_rungs_lie_below_the_full_length_only():
    assert Asha(min_steps=10, reduction_factor=3).rungs(90) == [10, 30]
    assert Asha(min_steps=10, reduction_factor=3).rungs(91) == [10, 30, 90]


@pytest.mark.parametrize("mode", ["promote", "stop"])
def test_what_is_not_among_the_best_third_at_a_rung_does_not_pass(mode):
    pruner = Asha(min_steps=10, mode=mode)
    peers = [flat(0.5), flat(0.6)]
    reason = pruner.judge(sight(flat(0.4), peers, held={0, 1}))
    assert reason is not None
    assert reason.numbers == {
        "rung": 10,
        "value": 0.4,
        "rank": 3,
        "reached": 3,
        "keep": 1,
        "passed": 0,
        "threshold": 0.6,
    }
    assert "0.4 at rung 10 is rank 3 of 3; the best 1 go on (needed 0.6)" in reason.text
    assert pruner.judge(sight(flat(0.7), peers, held={0, 1})) is None


def test_trials_are_judged_at_a_rung_only_and_only_once():
    peers = [flat(0.5), flat(0.6)]
    assert stop().judge(sight(flat(0.1, steps=9), peers)) is None
    assert stop().judge(sight(flat(0.1, steps=11), peers)) is None


def test_a_rung_between_two_reports_is_judged_at_the_later_one():
    points = [point for point in flat(0.1, steps=12) if point.step % 4 == 0]
    assert stop().judge(sight(points, [flat(0.5), flat(0.6)])) is not None


def test_stopping_lets_everybody_pass_until_enough_have_reached_the_rung():
    assert stop().judge(sight(flat(0.1), [flat(0.9)])) is None


def test_promotion_pauses_everybody_until_enough_have_reached_the_rung():
    reason = Asha(min_steps=10).judge(sight(flat(0.9), [flat(0.1)], held={0}))
    assert reason is not None
    assert reason.numbers["keep"] == 0
    assert "none yet" in reason.text


def test_the_last_trial_of_a_study_passes_when_it_is_the_best():
    assert Asha(min_steps=10).judge(sight(flat(0.9), [flat(0.1)], held={0}, growing=False)) is None
    assert Asha(min_steps=10).judge(sight(flat(0.05), [flat(0.1)], held={0}, growing=False)) is not None


def test_a_place_that_is_taken_keeps_a_better_late_comer_waiting():
    ahead = [flat(0.5, steps=12), flat(0.1)]
    reason = Asha(min_steps=10).judge(sight(flat(0.9), ahead, held={1}))
    assert reason is not None
    assert "is rank 1 of 3; the best 1 go on (1 have gone on already)" in reason.text
    assert stop().judge(sight(flat(0.9), ahead)) is None


def test_the_default_configuration_always_passes_and_takes_nobodys_place():
    peers = [flat(0.5), flat(0.6), flat(0.7)]
    assert Asha(min_steps=10).judge(sight(flat(0.1), peers, source="default")) is None
    race = Race(Asha(min_steps=10))
    race.trials[0], race.curves[0] = trial(0, source="default"), flat(0.5, steps=12)
    race.arrive(1, 0.1)
    race.arrive(2, 0.9)
    assert race.gone_on() == [0, 2]


def test_peers_count_with_the_value_they_had_at_the_rung_not_later():
    late_bloomers = [curve([0.1] * 10 + [0.9] * 5), curve([0.2] * 10 + [0.9] * 5)]
    assert stop().judge(sight(flat(0.3), late_bloomers)) is None


def test_the_objective_may_be_minimised():
    objective = Objective(metric="eval/reward", direction=Direction.MINIMIZE)
    peers = [flat(0.5), flat(0.6)]
    assert stop().judge(sight(flat(0.4), peers, objective=objective)) is None
    reason = stop().judge(sight(flat(0.7), peers, objective=objective))
    assert reason is not None
    assert (reason.numbers["value"], reason.numbers["threshold"]) == (0.7, 0.5)


@pytest.mark.parametrize("mode", ["promote", "stop"])
def test_a_value_that_is_not_finite_stands_last_and_never_passes(mode):
    broken = curve([0.9] * 9 + [None])
    reason = Asha(min_steps=10, mode=mode).judge(sight(broken, [flat(0.1), flat(0.2)], held={0, 1}))
    assert reason is not None
    assert reason.numbers["rank"] == 3
    assert "not finite" in reason.text
    assert Asha(min_steps=10, mode=mode).judge(sight(broken, [broken, broken], held={0, 1})) is not None


def test_a_trial_without_a_value_at_the_rung_goes_on_unjudged():
    silent = [Point(step=10, time=0.0, metrics={"reward/mean": 1.0})]
    assert Asha(min_steps=10).judge(sight(silent, [flat(0.5), flat(0.6)])) is None


class Race:
    """Trials arrive at one rung after the other; keeps the books that the coordinator keeps."""

    def __init__(self, pruner):
        self.pruner = pruner
        self.trials, self.curves = {}, {}

    def study(self, growing=True):
        return Study(trials=self.trials, curves=self.curves, objective=REWARD, total_steps=20, growing=growing)

    def arrive(self, number, value):
        self.curves[number] = flat(value)
        reason = self.pruner.judge(
            Sight(
                trial=trial(number), step=10, curve=self.curves[number], objective=REWARD, total_steps=20,
                peers={n: c for n, c in self.curves.items() if n != number},
                trials={n: t for n, t in self.trials.items() if n != number},
            )
        )  # fmt: skip
        self.trials[number] = trial(number, TrialState.PAUSED if reason else TrialState.RUNNING, reason=reason)

    def promote(self, growing=True):
        for number in self.pruner.promotable(self.study(growing)):
            self.trials[number] = trial(number)

    def gone_on(self):
        return [number for number, one in self.trials.items() if one.state is TrialState.RUNNING]


@given(
    st.lists(st.one_of(st.floats(0, 1), st.none()), min_size=1, max_size=60),
    st.floats(1.5, 5),
    st.lists(st.booleans(), min_size=60, max_size=60),
)
def test_never_more_than_the_share_of_a_rung_goes_on_and_never_a_worse_one_before_a_better(values, factor, asked):
    race = Race(Asha(min_steps=10, reduction_factor=factor))
    for number, value in enumerate(values):
        race.arrive(number, value)
        if asked[number]:
            race.promote()
        assert len(race.gone_on()) <= len(race.trials) / factor + 1e-6
    race.promote()
    finite = sum(value is not None for value in values)
    assert len(race.gone_on()) == min(int(len(values) / factor + 1e-9), finite)
    race.promote(growing=False)
    assert len(race.gone_on()) <= max(1, len(values) / factor + 1e-6) + 1
    leaders = [
        number for number, value in enumerate(values) if value == max((v for v in values if v is not None), default=0)
    ]
    assert not finite or set(leaders) & set(race.gone_on())
    if finite:
        assert race.gone_on()


@given(st.lists(st.floats(0, 1), min_size=3, max_size=40, unique=True))
def test_when_all_have_arrived_before_anybody_is_promoted_exactly_the_best_go_on(values):
    race = Race(Asha(min_steps=10))
    reason = Asha(min_steps=10).judge(sight(flat(0.0), [flat(1.0)], held={0}))
    for number, value in enumerate(values):
        race.curves[number] = flat(value)
        race.trials[number] = trial(number, TrialState.PAUSED, reason=reason)
    race.promote()
    best = sorted(range(len(values)), key=lambda number: -values[number])[: len(values) // 3]
    assert sorted(race.gone_on()) == sorted(best)


def test_who_passed_and_was_condemned_later_gives_the_place_back_and_sets_no_bar():
    race = Race(Asha(min_steps=10))
    for number, value in enumerate((0.2, 0.1, 0.9)):
        race.arrive(number, value)
    assert race.gone_on() == [2]
    race.curves[2] = flat(0.9, steps=14)
    race.trials[2] = trial(2, TrialState.PRUNED, reason=Reason(pruner="kl_ceiling", text="too far"))
    race.arrive(3, 0.15)
    race.promote()
    assert race.gone_on() == [0]
    assert race.pruner.verdict(race.study(), race.trials[3]).numbers["reached"] == 3


def test_the_pruners_that_condemn_are_pruners():
    assert set(PRUNERS) > CONDEMNING
    assert not CONDEMNING & {"asha", "hyperband", "median", "percentile", "plateau", "eval_decline"}


def test_the_highest_rung_is_promoted_first():
    pruner = Asha(min_steps=5, reduction_factor=2)
    first = pruner.judge(sight(flat(0.0, steps=5), [flat(1.0, steps=5)], held={0}))
    second = pruner.judge(sight(flat(0.0), [flat(1.0)], held={0}))
    trials = {n: trial(n, TrialState.PAUSED, reason=first if n < 4 else second) for n in range(8)}
    curves = {n: flat(n / 10, steps=5 if n < 4 else 10) for n in range(8)}
    study = Study(trials=trials, curves=curves, objective=REWARD, total_steps=20)
    assert list(pruner.promotable(study)) == [7, 6]


def test_the_step_a_paused_trial_was_in_the_middle_of_is_no_promotion():
    race = Race(Asha(min_steps=10))
    for number, value in enumerate((0.5, 0.4)):
        race.arrive(number, value)
        race.curves[number] = flat(value, steps=11)
    race.arrive(2, 0.9)
    assert race.gone_on() == [2]


def test_a_paused_trial_ends_with_its_rank_and_numbers():
    race = Race(Asha(min_steps=10))
    for number, value in enumerate((0.5, 0.4, 0.9, 0.8)):
        race.arrive(number, value)
    reason = race.pruner.verdict(race.study(growing=False), race.trials[3])
    assert reason.numbers == {
        "rung": 10,
        "value": 0.8,
        "rank": 2,
        "reached": 4,
        "keep": 1,
        "passed": 1,
        "threshold": 0.9,
    }


def test_hyperband_gives_each_bracket_its_share_and_its_own_first_rung():
    pruner = Hyperband(min_steps=10, reduction_factor=3, brackets=3)
    round_of = [pruner.bracket_of(number, 270) for number in range(17)]
    assert [round_of.count(bracket) for bracket in range(3)] == [9, 5, 3]
    assert [pruner.bracket_of(number, 20) for number in range(17)] == [0] * 17
    assert round_of == [pruner.bracket_of(number + 17, 270) for number in range(17)]


def test_hyperband_compares_inside_a_bracket_only():
    pruner = Hyperband(min_steps=10, reduction_factor=3, brackets=2)
    strangers = {number: flat(0.9) for number in range(100) if pruner.bracket_of(number, 40) == 1}
    own = next(number for number in range(100) if pruner.bracket_of(number, 40) == 0)
    look = Sight(
        trial=trial(own), step=10, curve=flat(0.1), peers=strangers, objective=REWARD, total_steps=40,
        trials={number: trial(number) for number in strangers}, growing=False,
    )  # fmt: skip
    assert pruner.judge(look) is None
    mates = {number: flat(0.9) for number in range(100) if number != own and pruner.bracket_of(number, 40) == 0}
    look = Sight(
        trial=trial(own), step=10, curve=flat(0.1), peers=mates, objective=REWARD, total_steps=40,
        trials={number: trial(number) for number in mates}, growing=False,
    )  # fmt: skip
    reason = pruner.judge(look)
    assert reason is not None
    assert (reason.pruner, reason.numbers["bracket"]) == ("hyperband", 0)
    assert math.isclose(reason.numbers["reached"], len(mates) + 1)


def test_hyperband_promotes_in_each_bracket_what_it_paused_itself():
    pruner = Hyperband(min_steps=10, reduction_factor=2, brackets=1)
    race = Race(pruner)
    for number, value in enumerate((0.9, 0.5, 0.4, 0.3)):
        race.arrive(number, value)
    race.promote()
    assert race.gone_on() == [0, 1]
    assert "in bracket 0" in race.pruner.verdict(race.study(growing=False), race.trials[3]).text
