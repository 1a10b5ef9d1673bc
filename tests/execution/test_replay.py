import itertools

import pytest
from fake_coordinator import FakeCoordinator
from hypothesis import given
from hypothesis import strategies as st

from autotune.clock import ManualClock
from autotune.execution.replay import RecordedRun, Replay, place
from autotune.execution.simulated import simulate
from autotune.search.types import EndKind
from autotune.spec.types import Choice, FloatRange, IntRange

DOMAINS = {
    "lr": FloatRange(low=1e-4, high=1e-2, log=True),
    "epochs": IntRange(low=1, high=4),
    "kind": Choice(options=("fixed", "adaptive")),
}


def run(name, lr, epochs=1, kind="fixed", **changes):
    steps = [(2.0, {"eval/reward": lr * step}) for step in range(1, 6)]
    fields = {"name": name, "params": {"lr": lr, "epochs": epochs, "kind": kind}, "steps": steps, **changes}
    return RecordedRun(**fields)


BANK = [
    run("low", 1e-4),
    run("middle", 1e-3),
    run("high", 1e-2),
    run("adaptive", 1e-3, 4, "adaptive"),
    run("broken", 1e-2, 4, "adaptive", end=EndKind.NON_FINITE, message="not finite"),
]


def asked(lr, epochs=1, kind="fixed"):
    return {"lr": lr, "epochs": epochs, "kind": kind, "something.else": 7}


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (asked(1.2e-4), "low"),
        (asked(2e-3), "middle"),
        (asked(5e-3, 2), "high"),
        (asked(9e-4, 3, "adaptive"), "adaptive"),
        (asked(9e-3, 4, "adaptive"), "broken"),
    ],
)
def test_a_configuration_plays_the_run_that_lies_nearest_on_the_scale_of_the_space(config, name):
    assert [found.name for found in Replay(BANK, DOMAINS).nearest(config)] == [name]


@given(lr=st.floats(1e-4, 1e-2), epochs=st.integers(1, 4), kind=st.sampled_from(["fixed", "adaptive"]), data=st.data())
def test_the_answer_depends_on_the_configuration_alone_not_on_the_order_of_the_bank_or_of_the_questions(
    lr, epochs, kind, data
):
    replay = Replay(data.draw(st.permutations(BANK)), DOMAINS)
    config = asked(lr, epochs, kind)
    before = replay.nearest(config)
    for other in BANK:
        assert replay.nearest(other.params) == [other]
    assert replay.nearest(config) == before


def test_a_weight_makes_a_parameter_count_more_and_zero_makes_it_not_count():
    config = asked(1e-2, 1, "adaptive")
    assert Replay(BANK, DOMAINS, {"kind": 100.0}).nearest(config)[0].params["kind"] == "adaptive"
    blind = Replay(BANK, DOMAINS, {"kind": 0.0, "epochs": 0.0})
    assert {blind.nearest(asked(1e-2, e, k))[0].name for e in (1, 4) for k in ("fixed", "adaptive")} == {"high"}


def test_runs_that_differ_in_their_seed_alone_are_one_place_and_take_turns():
    replay = Replay([run("a", 1e-3), run("b", 1e-3, steps=[(1.0, {"x": 0.0})]), run("c", 1e-4)], DOMAINS)
    assert [found.name for found in replay.nearest(asked(1e-3))] == ["a", "b"]
    assert [len(list(replay.curve(asked(1e-3), seed))) for seed in range(3)] == [5, 1, 5]


def test_a_recorded_failure_strikes_after_the_last_recorded_step():
    coordinator = FakeCoordinator([asked(1e-2, 4, "adaptive")])
    result = simulate(coordinator, Replay(BANK, DOMAINS).curve, parallel=1, clock=ManualClock(), steps=9)
    assert coordinator.steps[0] == [1, 2, 3, 4, 5]
    assert coordinator.end_of(0)[0].kind is EndKind.NON_FINITE
    assert coordinator.end_of(0)[0].message == "not finite"
    assert result.seconds == 10.0


def test_a_bank_that_lacks_a_searched_parameter_is_refused():
    with pytest.raises(ValueError, match="no recorded runs"):
        Replay([], DOMAINS)
    with pytest.raises(ValueError, match="'epochs'"):
        Replay([RecordedRun(name="a", params={"lr": 1e-3, "kind": "fixed"}, steps=[])], DOMAINS)
    with pytest.raises(ValueError, match="one of fixed, adaptive"):
        Replay(BANK, DOMAINS).nearest(asked(1e-3, 1, "moving"))


@pytest.mark.parametrize("path", ["lr", "epochs"])
def test_places_run_from_zero_to_one(path):
    domain = DOMAINS[path]
    ends = (place(domain, domain.low), place(domain, domain.high))
    assert ends == (0.0, 1.0)
    inside = [place(domain, value) for value in (domain.low, (domain.low + domain.high) / 2, domain.high)]
    assert all(a < b for a, b in itertools.pairwise(inside))
