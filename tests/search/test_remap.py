"""Which trials of an old space are trials of a new one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.search.remap import remapped
from autotune.search.types import Trial
from autotune.spec.expressions import parse
from autotune.spec.types import Choice, FloatRange, IntRange, Parameter
from autotune.states import TrialState

BASE = {"lr": 1e-3, "epochs": 1, "type": "fixed", "target": 0.1, "seed": 0, "batch": 64}


def trial(source="sampler", **params):
    return Trial(
        number=0,
        state=TrialState.COMPLETED,
        source=source,
        params=params,
        config={**BASE, **params},
    )


@pytest.fixture
def space(make_space):
    def make(**domains):
        whens = {"target": parse("type == 'adaptive'")}
        return make_space(
            search={path: Parameter(path=path, domain=domain, when=whens.get(path)) for path, domain in domains.items()}
        )

    return make


LR = FloatRange(low=1e-4, high=1e-2, log=True)


def test_a_trial_inside_the_new_range_stays_what_it_was(space):
    assert remapped(space(lr=LR), BASE, trial(lr=5e-3)).params == {"lr": 5e-3}


def test_a_trial_outside_the_new_range_is_none_of_it(space):
    assert remapped(space(lr=FloatRange(low=1e-4, high=1e-3)), BASE, trial(lr=5e-3)) is None


def test_a_new_parameter_takes_the_value_that_the_trial_ran_with(space):
    found = remapped(space(lr=LR, epochs=IntRange(low=1, high=4)), BASE, trial(lr=5e-3))
    assert found.params == {"lr": 5e-3, "epochs": 1}


def test_a_new_parameter_whose_domain_leaves_out_what_the_trial_ran_with_does_not_fit(space):
    assert remapped(space(lr=LR, epochs=IntRange(low=2, high=4)), BASE, trial(lr=5e-3)) is None


def test_a_parameter_that_is_searched_no_longer_is_forgotten_where_it_had_the_fixed_value(space):
    assert remapped(space(lr=LR), BASE, trial(lr=5e-3, epochs=1)).params == {"lr": 5e-3}
    assert remapped(space(lr=LR), BASE, trial(lr=5e-3, epochs=3)) is None


def test_another_list_of_choices_is_no_obstacle(space):
    old = trial(batch=32)
    assert remapped(space(batch=Choice(options=(16, 32))), BASE, old).params == {"batch": 32}
    assert remapped(space(batch=Choice(options=("a", 32, None))), BASE, old).params == {"batch": 32}


def test_a_conditional_parameter_counts_only_where_it_exists(space):
    new = space(type=Choice(options=("fixed", "adaptive")), target=FloatRange(low=0.2, high=0.3))
    assert remapped(new, BASE, trial(type="fixed")).params == {"type": "fixed"}
    assert remapped(new, BASE, trial(type="adaptive", target=0.1)) is None
    assert remapped(new, BASE, trial(type="adaptive", target=0.25)).params == {"type": "adaptive", "target": 0.25}


def test_the_seed_of_a_fresh_run_is_no_difference(space):
    fresh = trial("finalist-3", lr=5e-3, seed=77)
    assert remapped(space(lr=LR), BASE, fresh, "seed").params == {"lr": 5e-3}
    assert remapped(space(lr=LR), BASE, fresh) is None


@given(st.floats(1e-6, 1.0), st.floats(1e-6, 0.5), st.floats(0.5, 1.0))
def test_a_trial_fits_exactly_when_the_new_space_could_have_proposed_it(make_space, value, low, high):
    new = make_space(search={"lr": Parameter(path="lr", domain=FloatRange(low=low, high=high))})
    found = remapped(new, BASE, trial(lr=value))
    assert (found is not None) == (low <= value <= high)
