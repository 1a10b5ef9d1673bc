import dataclasses
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from wsgiref.util import setup_testing_defaults

import optuna
import optuna_dashboard
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as OptunaState
from sqlalchemy import inspect

from autotune.errors import ConflictError, NotAllowedError
from autotune.search.book import History
from autotune.search.types import Attempt, EndKind, Point, Reason, Trial
from autotune.spec.types import Choice, Direction, FloatRange, IntRange, Objective, Parameter
from autotune.states import JobState, TrialState
from autotune.store import Store, optuna_values
from autotune.store.optuna_mirror import MAX_POINTS, OptunaMirror
from autotune.store.optuna_storage import open_storage

OBJECTIVE = Objective(metric="eval/reward")
PARAMETERS = {
    "lr": Parameter(path="lr", domain=FloatRange(low=1e-6, high=1e-3, log=True)),
    "epochs": Parameter(path="epochs", domain=IntRange(low=1, high=8)),
    "betas": Parameter(path="betas", domain=Choice(options=([0.9, 0.99], [0.9, 0.95]))),
}
PARAMS = {"lr": 1e-5, "epochs": 2, "betas": [0.9, 0.95]}


@pytest.fixture
def make_mirror(url: str) -> Iterator[Callable[..., OptunaMirror]]:
    made: list[OptunaMirror] = []

    def make(
        steps: int = 40, objective: Objective = OBJECTIVE, name: str = "quick-1", description: str = "", **more: Any
    ) -> OptunaMirror:
        attrs = {"job": "quick-1", **({"description": description} if description else {})}
        made.append(
            OptunaMirror(url, name, objective=objective, parameters=PARAMETERS, steps=steps, user_attrs=attrs, **more)
        )
        return made[-1]

    yield make
    for mirror in made:
        mirror._storage.engine.dispose()


@pytest.fixture
def study(url: str) -> Callable[[], optuna.Study]:
    return lambda: optuna.load_study(study_name="quick-1", storage=open_storage(url))


@pytest.fixture
def trial(make_trial: Callable[..., Trial]) -> Callable[..., Trial]:
    return lambda number=0, **changes: make_trial(number, **{"params": PARAMS, **changes})


def points(*values: float | None, start: int = 1) -> list[Point]:
    return [
        Point(step=start + place, time=100.0 + place, metrics={"eval/reward": value, "kl": 0.1})
        for place, value in enumerate(values)
    ]


def summary(frozen: FrozenTrial) -> dict[str, object]:
    return {
        "number": frozen.number,
        "state": frozen.state,
        "value": frozen.value,
        "params": frozen.params,
        "curve": frozen.intermediate_values,
        "attrs": frozen.user_attrs,
        "constraints": frozen.constraints,
        "ended": frozen.datetime_complete,
    }


def test_a_completed_trial_is_read_back_by_optuna(make_mirror, study, trial) -> None:
    mirror = make_mirror()
    mirror.on_save(trial())
    mirror.on_save(trial(), points(1.0, 2.0))
    mirror.on_save(
        trial(state=TrialState.COMPLETED, value=2.0, ended_at=150.0, cost_s=49.0, violations={"kl <= 1": -0.9})
    )
    (found,) = study().trials
    assert (found.number, found.state, found.value) == (0, OptunaState.COMPLETE, 2.0)
    assert found.params == {"lr": 1e-5, "epochs": 2, "betas": "[0.9, 0.95]"}
    assert found.distributions == {
        "lr": FloatDistribution(1e-6, 1e-3, log=True),
        "epochs": IntDistribution(1, 8),
        "betas": CategoricalDistribution(["[0.9, 0.99]", "[0.9, 0.95]"]),
    }
    assert found.intermediate_values == {1: 1.0, 2: 2.0}
    assert found.constraints["kl <= 1"] == -0.9
    assert found.user_attrs == {
        "source": "sampler",
        "state": "completed",
        "attempt": 1,
        "cost_s": 49.0,
        "gpu_hours": 0.0,
    }
    assert found.datetime_start.timestamp() == 101.0
    assert found.datetime_complete.timestamp() == 150.0
    assert study().best_trial.number == 0


def test_the_study_knows_its_direction_metric_and_job(make_mirror, study) -> None:
    mirror = make_mirror(objective=Objective(metric="loss", direction=Direction.MINIMIZE))
    mirror.close(None, JobState.FAILED)
    assert study().direction.name == "MINIMIZE"
    assert study().metric_names == ["loss"]
    assert study().user_attrs == {"job": "quick-1", "state": "failed"}


@pytest.mark.parametrize(
    ("state", "value", "expected"),
    [
        (TrialState.QUEUED, None, OptunaState.WAITING),
        (TrialState.RUNNING, None, OptunaState.RUNNING),
        (TrialState.PAUSED, None, OptunaState.RUNNING),
        (TrialState.COMPLETED, 1.0, OptunaState.COMPLETE),
        (TrialState.COMPLETED, None, OptunaState.FAIL),
        (TrialState.COMPLETED, math.nan, OptunaState.FAIL),
        (TrialState.PRUNED, None, OptunaState.PRUNED),
        (TrialState.INFEASIBLE, None, OptunaState.PRUNED),
        (TrialState.FAILED, None, OptunaState.FAIL),
        (TrialState.CANCELLED, None, OptunaState.FAIL),
    ],
)
def test_every_state_has_its_counterpart(make_mirror, study, trial, state, value, expected) -> None:
    mirror = make_mirror()
    mirror.on_save(trial())
    mirror.on_save(trial(state=state, value=value))
    assert study().trials[0].state is expected


def test_a_pruned_trial_carries_its_reason_and_its_last_value(make_mirror, study, trial) -> None:
    mirror = make_mirror()
    reason = Reason(pruner="asha", text="0.5 is not among the best third", numbers={"value": 0.5})
    mirror.on_save(trial(), points(0.25, 0.5))
    mirror.on_save(trial(state=TrialState.PRUNED, reason=reason))
    (found,) = study().trials
    assert (found.state, found.value) == (OptunaState.PRUNED, 0.5)
    assert (found.user_attrs["pruner"], found.user_attrs["reason"]) == ("asha", reason.text)


def test_an_infeasible_trial_violates_a_constraint_and_is_never_the_best(make_mirror, study, trial) -> None:
    mirror = make_mirror()
    mirror.on_save(trial(0, state=TrialState.INFEASIBLE, error_kind=EndKind.OUT_OF_MEMORY, error_message="12 GB"))
    mirror.on_save(trial(1, state=TrialState.COMPLETED, value=9.0, violations={"kl <= 1": math.inf}))
    mirror.on_save(trial(2, state=TrialState.COMPLETED, value=1.0, violations={"kl <= 1": 0.0}))
    infeasible, violated, _ = study().trials
    assert infeasible.constraints[optuna_values.INFEASIBLE_KEY] == 1.0
    assert infeasible.user_attrs["error"] == "out_of_memory: 12 GB"
    assert violated.constraints["kl <= 1"] > 0
    assert study().best_trial.number == 2


def test_repeating_a_save_changes_nothing(make_mirror, study, trial) -> None:
    mirror = make_mirror()
    ended = trial(state=TrialState.COMPLETED, value=2.0, ended_at=150.0)
    for _ in range(2):
        mirror.on_save(trial(), points(1.0, 2.0))
    mirror.on_save(ended)
    before = summary(study().trials[0])
    mirror.on_save(ended)
    mirror.on_save(ended, points(1.0, 2.0))
    mirror.reconcile(History(trials=[ended], curves={0: points(1.0, 2.0)}))
    assert [summary(found) for found in study().trials] == [before]


def test_a_long_curve_is_thinned_and_keeps_its_last_value(make_mirror, study, trial) -> None:
    steps = 1999
    mirror = make_mirror(steps=steps)
    for point in points(*(float(step) for step in range(1, steps + 1))):
        mirror.on_save(trial(), [point])
    mirror.on_save(trial(state=TrialState.COMPLETED, value=1.0))
    curve = study().trials[0].intermediate_values
    assert MAX_POINTS / 2 < len(curve) <= MAX_POINTS + 1
    assert (min(curve), max(curve)) == (1, steps)
    assert all(step == value for step, value in curve.items())


def test_a_value_that_was_not_finite_is_shown_as_nan(make_mirror, study, trial) -> None:
    mirror = make_mirror()
    mirror.on_save(trial(), points(1.0, None))
    mirror.on_save(trial(state=TrialState.PRUNED))
    (found,) = study().trials
    assert math.isnan(found.intermediate_values[2])
    assert found.value is None


def test_a_later_attempt_replaces_the_steps_it_repeats(make_mirror, study, trial) -> None:
    mirror = make_mirror()
    mirror.on_save(trial(), points(1.0, 2.0, 3.0))
    again = trial(attempt=Attempt(trial=0, number=2, token="again"))
    mirror.on_save(again, points(20.0, 30.0, start=2))
    (found,) = study().trials
    assert found.intermediate_values == {1: 1.0, 2: 20.0, 3: 30.0}
    assert found.user_attrs["attempt"] == 2


def test_a_trial_that_was_missed_keeps_its_number_free(make_mirror, study, trial) -> None:
    mirror = make_mirror()
    mirror.on_save(trial(2))
    assert [(found.number, found.state) for found in study().trials] == [
        (0, OptunaState.WAITING),
        (1, OptunaState.WAITING),
        (2, OptunaState.RUNNING),
    ]
    mirror.on_save(trial(0, state=TrialState.COMPLETED, value=1.0))
    first = study().trials[0]
    assert (first.state, first.value, first.params["lr"]) == (OptunaState.COMPLETE, 1.0, 1e-5)


def test_a_resumed_trial_is_reopened(make_mirror, study, trial) -> None:
    mirror = make_mirror()
    mirror.on_save(trial(), points(1.0))
    mirror.on_save(trial(state=TrialState.CANCELLED, ended_at=120.0))
    mirror.on_save(trial(state=TrialState.QUEUED))
    assert (study().trials[0].state, study().trials[0].datetime_complete) == (OptunaState.WAITING, None)
    mirror.on_save(trial())
    mirror.on_save(trial(), points(2.0, start=2))
    mirror.on_save(trial(state=TrialState.COMPLETED, value=2.0, ended_at=300.0))
    (found,) = study().trials
    assert (found.state, found.value, found.intermediate_values) == (OptunaState.COMPLETE, 2.0, {1: 1.0, 2: 2.0})
    assert found.datetime_complete.timestamp() == 300.0


HISTORY = [
    (TrialState.COMPLETED, 3.0, (1.0, 2.0, 3.0)),
    (TrialState.PRUNED, None, (1.0, 0.5)),
    (TrialState.INFEASIBLE, None, ()),
    (TrialState.RUNNING, None, (4.0,)),
    (TrialState.CANCELLED, None, (1.0,)),
]


def history_of(trial: Callable[..., Trial]) -> History:
    trials = [
        trial(number, state=state, value=value, ended_at=None if state is TrialState.RUNNING else 200.0 + number)
        for number, (state, value, _) in enumerate(HISTORY)
    ]
    return History(trials=trials, curves={number: points(*values) for number, (_, _, values) in enumerate(HISTORY)})


def replay(mirror: OptunaMirror, history: History, stop_after: int | None = None) -> None:
    """Plays a history as a driver would have; ``stop_after`` = the number of saves before the crash."""
    saves: list[tuple[Trial, list[Point]]] = []
    for ended in history.trials:
        begun = dataclasses.replace(ended, state=TrialState.RUNNING, value=None, ended_at=None)
        saves += [(begun, [])] + [(begun, [point]) for point in history.curves[ended.number]] + [(ended, [])]
    for trial, new in saves[:stop_after]:
        mirror.on_save(trial, new)


@pytest.mark.parametrize("crash_after", [0, 1, 3, 5, 8, 11, 14])
def test_after_a_crash_between_truth_and_mirror_reconcile_repairs_it(make_mirror, study, trial, crash_after) -> None:
    truth = history_of(trial)
    whole = make_mirror(name="whole")
    replay(whole, truth)
    replay(make_mirror(), truth, stop_after=crash_after)
    make_mirror().reconcile(truth)
    wanted = optuna.load_study(study_name="whole", storage=study()._storage)
    assert [summary(found) for found in study().trials] == [summary(found) for found in wanted.trials]


class Crash(BaseException):
    """Stands for a process that dies."""


@pytest.mark.parametrize("writes", range(8))
def test_a_mirror_that_died_in_the_middle_of_a_save_is_repaired(make_mirror, study, trial, writes) -> None:
    mirror = make_mirror()
    mirror.on_save(trial())
    storage, left = mirror._storage, writes

    def counted(method: Callable) -> Callable:
        def call(*arguments: object) -> object:
            nonlocal left
            if left == 0:
                raise Crash
            left -= 1
            return method(*arguments)

        return call

    for name in ("set_trial_intermediate_value", "set_trial_user_attr", "set_trial_system_attr"):
        setattr(storage, name, counted(getattr(storage, name)))
    storage.set_trial_state_values = counted(storage.set_trial_state_values)
    ended = trial(state=TrialState.COMPLETED, value=2.0, ended_at=150.0, violations={"kl <= 1": -1.0})
    try:
        mirror.on_save(ended, points(1.0, 2.0))
    except Crash:
        assert study().trials[0].state is OptunaState.RUNNING
    make_mirror().reconcile(History(trials=[ended], curves={0: points(1.0, 2.0)}))
    (found,) = study().trials
    assert (found.state, found.value, found.intermediate_values) == (OptunaState.COMPLETE, 2.0, {1: 1.0, 2: 2.0})
    assert found.constraints["kl <= 1"] == -1.0
    assert found.user_attrs["state"] == "completed"


def test_an_end_that_optuna_calls_the_same_is_still_told_apart(make_mirror, study, trial) -> None:
    make_mirror().on_save(trial(state=TrialState.CANCELLED, ended_at=120.0))
    failed = trial(state=TrialState.FAILED, ended_at=120.0, error_kind=EndKind.NODE, error_message="gone")
    make_mirror().reconcile(History(trials=[failed]))
    (found,) = study().trials
    assert (found.state, found.user_attrs["state"]) == (OptunaState.FAIL, "failed")
    assert found.user_attrs["error"] == "node: gone"


def test_zombies_that_the_truth_does_not_know_are_ended(make_mirror, study, trial) -> None:
    mirror = make_mirror()
    for number in range(3):
        mirror.on_save(trial(number))
    make_mirror().reconcile(History(trials=[trial(0)], curves={}))
    assert [found.state for found in study().trials] == [OptunaState.RUNNING, OptunaState.FAIL, OptunaState.FAIL]


def test_a_study_of_another_direction_is_a_conflict(make_mirror) -> None:
    make_mirror()
    with pytest.raises(ConflictError, match="maximize"):
        make_mirror(objective=Objective(metric="eval/reward", direction=Direction.MINIMIZE))


def test_somebody_else_in_the_study_is_noticed(make_mirror, study, trial) -> None:
    mirror = make_mirror()
    study().ask()
    with pytest.raises(ConflictError, match="somebody else"):
        mirror.on_save(trial())


def test_optunas_tables_and_ours_live_side_by_side(make_mirror, url: str) -> None:
    make_mirror()
    store = Store(url)
    with store.engine.connect() as connection:
        names = set(inspect(connection).get_table_names())
    assert {"alembic_version", "autotune_version", "trials", "autotune_trials"} <= names
    store.migrate()
    store.ping()
    store.close()


def test_a_path_with_braces_and_percent_signs_is_fine(tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/a{{b}}%25c.db"
    store = Store(url)
    store.migrate()
    open_storage(url)
    assert {path.name for path in tmp_path.glob("*.db")} == {"a{b}%c.db"}
    with store.engine.connect() as connection:
        assert inspect(connection).has_table("trial_params")


def test_a_database_that_cannot_be_opened_is_our_error(tmp_path) -> None:
    with pytest.raises(NotAllowedError):
        open_storage(f"sqlite:///{tmp_path}/nowhere/x.db")


def ask(app: Callable, path: str) -> Mapping[str, object]:
    environ: dict[str, object] = {}
    setup_testing_defaults(environ)
    path, _, query = path.partition("?")
    environ |= {"PATH_INFO": path, "QUERY_STRING": query, "wsgi.input": io.BytesIO()}
    status: list[str] = []
    body = b"".join(app(environ, lambda line, headers, *rest: status.append(line)))
    assert status[0].startswith("200"), (status, body)
    # A browser refuses NaN and Infinity, which Python would accept.
    return json.loads(body, parse_constant=lambda name: pytest.fail(f"{name} in the answer"))


def test_the_dashboards_own_api_shows_what_we_mirrored(make_mirror, url: str, trial) -> None:
    mirror = make_mirror()
    replay(mirror, history_of(trial))
    mirror.on_save(trial(5, state=TrialState.COMPLETED, value=1.0, violations={"kl <= 1": math.inf}))
    app = optuna_dashboard.wsgi(open_storage(url))
    (listed,) = ask(app, "/api/studies")["study_summaries"]
    assert listed["study_name"] == "quick-1"
    detail = ask(app, f"/api/studies/{listed['study_id']}?after=0")
    assert detail["objective_names"] == ["eval/reward"]
    shown = detail["trials"]
    assert [entry["state"] for entry in shown] == ["Complete", "Pruned", "Pruned", "Running", "Fail", "Complete"]
    assert shown[0]["values"] == [3.0]
    assert [value["value"] for value in shown[0]["intermediate_values"]] == [1.0, 2.0, 3.0]
    assert shown[2]["constraints"] == [1.0]
    assert shown[5]["constraints"] == [optuna_values.VIOLATED]


def test_all_that_a_person_looks_for_is_in_the_dashboards_own_api(make_mirror, url: str, trial) -> None:
    runs = {None: "http://mlflow/#/experiments/1/runs/job", 0: "http://mlflow/#/experiments/1/runs/zero"}
    mirror = make_mirror(description="Is *four epochs* too much?", gpus=2.0, link=runs.get)
    reason = Reason(pruner="kl_ceiling", text="KL 3.1 is over 1", numbers={})
    mirror.on_save(trial(), points(1.0, 2.0))
    mirror.on_save(
        trial(state=TrialState.PRUNED, ended_at=150.0, cost_s=1800.0, reason=reason, violations={"kl <= 1": 2.1})
    )
    mirror.close(None, JobState.COMPLETED)
    detail = ask(optuna_dashboard.wsgi(open_storage(url)), "/api/studies/1?after=0")
    assert (detail["name"], detail["directions"]) == ("quick-1", ["maximize"])
    assert detail["note"]["body"] == "Is *four epochs* too much?"
    told = {attr["key"]: attr["value"] for attr in detail["user_attrs"]}
    assert (told["job"], told["mlflow"]) == ("quick-1", runs[None])
    (shown,) = detail["trials"]
    assert [value["value"] for value in shown["intermediate_values"]] == [1.0, 2.0]
    assert shown["constraints"] == [2.1]
    attrs = {attr["key"]: attr["value"] for attr in shown["user_attrs"]}
    assert attrs["reason"] == "KL 3.1 is over 1"
    assert (attrs["attempt"], attrs["gpu_hours"], attrs["mlflow"]) == ("1", "1.0", runs[0])


def test_a_note_that_a_person_wrote_stays(make_mirror, study) -> None:
    make_mirror(description="ours")
    optuna_dashboard.save_note(study(), "mine")
    make_mirror(description="ours")
    assert optuna_dashboard.get_note(study()) == "mine"


def test_a_trial_whose_run_is_not_known_this_time_is_not_written_again(make_mirror, study, trial) -> None:
    ended = trial(state=TrialState.COMPLETED, value=1.0, ended_at=150.0)
    make_mirror(link=lambda number: "http://mlflow/run").reconcile(History(trials=[ended]))
    again = make_mirror()
    writes: list[object] = []
    again._storage.set_trial_state_values = lambda *wanted: writes.append(wanted)
    again.reconcile(History(trials=[ended]))
    assert writes == []
    assert study().trials[0].user_attrs["mlflow"] == "http://mlflow/run"


@given(numbers=st.lists(st.sampled_from(list(TrialState)), min_size=1, max_size=8))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_walk_through_the_states_ends_where_the_truth_ends(make_mirror, study, trial, numbers) -> None:
    mirror = make_mirror()
    for state in numbers:
        mirror.on_save(trial(state=state, value=1.0 if state is TrialState.COMPLETED else None))
    last = trial(state=numbers[-1], value=1.0 if numbers[-1] is TrialState.COMPLETED else None)
    assert study().trials[0].state is optuna_values.state(last)


LENGTH = Objective(metric="length", direction=Direction.MINIMIZE)
TWO = Objective(metric="eval/reward", also=(LENGTH,))


def test_several_objectives_are_read_back_as_optunas_front(make_mirror, study, trial) -> None:
    mirror = make_mirror(objective=TWO)
    for number, (reward, length) in enumerate([(0.9, 200.0), (0.5, 100.0), (0.4, 300.0)]):
        mirror.on_save(trial(number), points(reward / 2, reward))
        values = {"eval/reward": reward, "length": length}
        mirror.on_save(trial(number, state=TrialState.COMPLETED, value=reward, values=values, ended_at=150.0))
    stopped = Reason(pruner="asha", text="rank 3 of 3", numbers={"rank": 3})
    mirror.on_save(trial(3), points(0.1, 0.2))
    mirror.on_save(trial(3, state=TrialState.PRUNED, reason=stopped, ended_at=160.0))
    found = study()
    assert [direction.name for direction in found.directions] == ["MAXIMIZE", "MINIMIZE"]
    assert found.metric_names == ["eval/reward", "length"]
    assert [best.number for best in found.best_trials] == [0, 1]
    assert [one.state for one in found.trials] == [OptunaState.COMPLETE] * 3 + [OptunaState.PRUNED]
    assert [one.values for one in found.trials] == [[0.9, 200.0], [0.5, 100.0], [0.4, 300.0], None]


def test_a_mirror_of_several_objectives_is_repaired_like_another(make_mirror, study, trial) -> None:
    values = {"eval/reward": 0.9, "length": 200.0}
    done = trial(state=TrialState.COMPLETED, value=0.9, values=values, ended_at=150.0)
    for _ in range(2):
        make_mirror(objective=TWO).reconcile(History(trials=[done], curves={0: points(0.1, 0.9)}))
        (found,) = study().trials
        assert found.values == [0.9, 200.0]


def test_a_study_with_other_directions_is_refused(make_mirror) -> None:
    make_mirror(objective=TWO)
    with pytest.raises(ConflictError, match="exists and would maximize and minimize, the objective says maximize"):
        make_mirror()


def test_a_trial_that_takes_over_other_values_keeps_its_place_and_shows_the_last_ones(make_mirror, trial, study):
    mirror = make_mirror()
    mirror.on_save(trial(state=TrialState.RUNNING))
    moved = {"source": "pbt-3@4", "params": {**PARAMS, "lr": 2e-5}}
    mirror.on_save(trial(state=TrialState.PAUSED, **moved))
    ended = trial(state=TrialState.COMPLETED, value=0.5, **moved)
    mirror.on_save(ended)
    (shown,) = study().trials
    assert (shown.state, shown.value, shown.params["lr"]) == (OptunaState.COMPLETE, 0.5, 1e-5)
    assert json.loads(shown.user_attrs["last_values"])["lr"] == 2e-5
    make_mirror().reconcile(History(trials=[ended]))
    assert len(study().trials) == 1
