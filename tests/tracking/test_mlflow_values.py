import string

from hypothesis import given
from hypothesis import strategies as st
from mlflow.utils import validation

from autotune.search.types import Point, Trial
from autotune.states import JobState, TrialState
from autotune.tracking import mlflow_values as words


@given(st.text(max_size=400))
def test_every_name_becomes_one_that_mlflow_accepts(name: str) -> None:
    key = words.key(name)
    validation._validate_param_name(key)
    validation._validate_metric_name(key)
    assert len(key) <= validation.MAX_ENTITY_KEY_LENGTH


@given(st.lists(st.text(string.ascii_lowercase + string.digits + "_.", min_size=1, max_size=20), max_size=4))
def test_ordinary_names_stay_as_they_are(parts: list[str]) -> None:
    name = "/".join(f"a{part}" for part in parts) or "kl/actor_ref"
    assert words.key(name) == name


def test_long_names_that_share_their_beginning_stay_apart() -> None:
    assert words.key("x" * 300 + "a") != words.key("x" * 300 + "b")


def test_long_values_go_to_an_artifact() -> None:
    kept, artifacts = words.params({"a.b": "x" * 6001, "c": [1, None], "d": "text", "e": 1e-06, "f": True})
    assert kept == {
        "a.b": "see the artifact params/a.b.json",
        "c": "[1, null]",
        "d": "text",
        "e": "1e-06",
        "f": "true",
    }
    assert artifacts == {"params/a.b.json": "x" * 6001}


def test_a_divergence_names_what_was_lost() -> None:
    assert (
        words.divergence(Point(step=3, time=0.0, metrics={"b": None, "a": float("inf"), "c": 1.0})) == "a, b at step 3"
    )
    assert words.divergence(Point(step=3, time=0.0, metrics={"c": 1.0})) is None


def test_every_state_has_a_status_that_mlflow_knows() -> None:
    from mlflow.entities import RunStatus

    for state in TrialState:
        trial = Trial(number=0, state=state, source="sampler", params={}, config={})
        RunStatus.from_string(words.status(trial))
    assert {words.job_status(state) for state in JobState} == {"RUNNING", "FINISHED", "FAILED", "KILLED"}


@given(st.integers(0, 50), st.integers(1, 20))
def test_chunks_are_the_whole_in_order(count: int, size: int) -> None:
    parts = list(words.chunks(range(count), size))
    assert [item for part in parts for item in part] == list(range(count))
    assert all(0 < len(part) <= size for part in parts)


def test_a_short_name_that_two_parameters_share_stands_for_neither() -> None:
    values = {"trainer.optim.lr": 1, "critic.optim.lr": 2, "algorithm.kl_ctrl.type": "fixed", "name": 3, "a.name": 4}
    assert words.short_names(values) == {"type": "fixed"}
