"""A rung that is kept up to date says what counting everybody anew would say."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.search.curves import Curve
from autotune.search.pruners import Asha, Others, Sight, Study
from autotune.search.pruners.rung import Rung, Standing
from autotune.search.roster import Roster
from autotune.search.types import Point, Reason, Trial
from autotune.spec.types import Objective
from autotune.states import TrialState

SCORES = st.one_of(st.integers(-3, 3).map(float), st.just(-math.inf))
STANDINGS = st.builds(Standing, score=SCORES, passed=st.booleans(), waits=st.booleans())


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.none() | STANDINGS), max_size=30), SCORES, st.integers(0, 7))
def test_a_rung_keeps_its_counts_through_every_change(changes, own, but):
    rung, known = Rung(), {}
    for number, standing in changes:
        rung.put(number, standing)
        known.pop(number, None)
        if standing is not None:
            known[number] = standing
    others = {number: standing for number, standing in known.items() if number != but}
    ranked = sorted(others, key=lambda number: (-others[number].score, number))
    assert (len(rung), rung.others(but)) == (len(known), len(others))
    assert rung.passed(but) == sum(standing.passed for standing in others.values())
    assert rung.rank(own, but) == 1 + sum(standing.score > own for standing in others.values())
    for place in range(9):
        wanted = others[ranked[place - 1]].score if 0 < place <= len(ranked) else None
        assert rung.best(place, but) == wanted
    everybody = sorted(known, key=lambda number: (-known[number].score, number))
    for keep in range(4):
        waiting = [n for n in everybody[:keep] if known[n].waits and math.isfinite(known[n].score)]
        assert rung.able(keep, 2) == waiting[:2]
        assert rung.able(keep, -1) == []
    assert rung.has_waiting == any(standing.waits for standing in known.values())


STATES = st.sampled_from([TrialState.RUNNING, TrialState.PAUSED, TrialState.PRUNED, TrialState.COMPLETED])
CHANGES = st.tuples(
    st.integers(0, 5),  # trial
    st.integers(1, 9),  # steps it goes on, or back to
    st.integers(-2, 2),  # value there
    STATES,
    st.sampled_from(["", "asha", "kl_ceiling", "median"]),
    st.sampled_from([2, 6]),  # the rung of the reason
)


@settings(deadline=None)
@given(st.lists(CHANGES, max_size=25), st.sampled_from(["promote", "stop"]), st.booleans())
def test_asha_decides_the_same_with_what_it_keeps_as_with_everybody_counted_anew(changes, mode, growing):
    asha, objective = Asha(min_steps=2, reduction_factor=3, mode=mode), Objective(metric="m")
    roster, curves = Roster(), {}
    for number, step, value, state, pruner, rung in changes:
        curve = curves.get(number, Curve())
        longer = curve.with_point(Point(step=step, time=0.0, metrics={"m": float(value)}))
        reason = Reason(pruner=pruner, text="", numbers={"rung": float(rung)}) if pruner else None
        trial = Trial(
            number=number,
            state=state,
            source="default" if number == 5 else "sampler",
            params={},
            config={},
            created_at=0.0,
            last_step=step,
            reason=reason,
        )

        def sight(kept, trial=trial, longer=longer, number=number, step=step):
            return Sight(
                trial=trial,
                step=step,
                curve=longer,
                peers=Others(curves if kept else dict(curves), number),
                objective=objective,
                total_steps=18,
                trials=Others(roster if kept else dict(roster), number),
                growing=growing,
            )

        assert asha.judge(sight(True)) == asha.judge(sight(False))
        roster.put(trial)
        curves[number] = longer
        study = Study(trials=roster, curves=curves, objective=objective, total_steps=18, growing=growing)
        anew = Study(trials=dict(roster), curves=dict(curves), objective=objective, total_steps=18, growing=growing)
        assert list(asha.promotable(study)) == list(asha.promotable(anew))
        if trial.state is TrialState.PAUSED and pruner == "asha" and step == rung:
            assert asha.verdict(study, trial) == asha.verdict(anew, trial)
