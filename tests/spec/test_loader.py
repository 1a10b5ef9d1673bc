import json
import os
import pickle

import pytest

from autotune.errors import InvalidSpaceError, NotAllowedError, NotFoundError
from autotune.spec.loader import load_space, read_space
from autotune.spec.types import Choice, Direction, FloatRange, IntRange, Reduce, Retry

FULL = """\
name: my-search
description: everything
trainer:
  backend: native
  config: config
  overrides: {data: digits, model.dtype: float32, trainer: {total_steps: 20, optim: {weight_decay: 0.01}}, gamma: 0.99}
resources: {gpus: 2, cpus: 8, memory: 64GiB, nodes: 1}
search:
  clip_ratio:                  {float: [0.1, 0.3]}
  algorithm.kl_ctrl.kl_coef:   {float: [1e-4, 1e-1], log: true, prior: 1e-3}
  trainer.optim.lr:            {float: ["5e-7", "1e-5"], log: true}
  trainer.ppo_epochs:          {int: [1, 4]}
  trainer.mini_batch_size:     {choice: [32, 64, 128, 256]}
  algorithm.kl_ctrl.type:      {choice: [fixed, adaptive]}
  target_kl:                   {float: [0.02, 0.2], step: 0.02, when: "kl_type == 'adaptive'"}
require:
  - train_batch_size % mini_batch_size == 0
objective: {metric: eval/reward, direction: minimize, reduce: max, smooth: 5}
constraints: ["kl/actor_ref <= 0.12", "reward/mean>=-1.5e-1"]
sampler: {name: random, seed: 7}
prune:
  - asha: {min_steps: 20}
  - kl_ceiling: {above: 0.15, patience: 2}
  - reward_collapse: {drop: 0.5}
  - not_finite
budget: {trials: 40, parallel: 4, wall_clock: 1h30m, steps: 200}
retry: {attempts: 1, on: [node_lost, port_in_use]}
start_from: [default, {clip_ratio: 0.1, ppo_epochs: 2.0}]
"""


def test_a_full_file_becomes_a_space():
    space = load_space(FULL)
    assert list(space.search) == [
        "algorithm.clip_ratio",
        "algorithm.kl_ctrl.kl_coef",
        "trainer.optim.lr",
        "trainer.ppo_epochs",
        "trainer.mini_batch_size",
        "algorithm.kl_ctrl.type",
        "algorithm.kl_ctrl.target_kl",
    ]
    assert space.search["trainer.optim.lr"].domain == FloatRange(low=5e-7, high=1e-5, log=True)
    assert space.search["trainer.ppo_epochs"].domain == IntRange(low=1, high=4)
    assert space.search["trainer.mini_batch_size"].domain == Choice(options=(32, 64, 128, 256))
    assert space.search["algorithm.kl_ctrl.kl_coef"].prior == 1e-3
    when = space.search["algorithm.kl_ctrl.target_kl"].when
    assert when is not None
    assert when.names == {"algorithm.kl_ctrl.type"}
    assert space.trainer.overrides == {
        "data": "digits",
        "model.dtype": "float32",
        "trainer.total_steps": 20,
        "trainer.optim.weight_decay": 0.01,
        "algorithm.gamma": 0.99,
    }
    assert (space.resources.cpus, space.resources.gpus, space.resources.memory) == (8.0, 2.0, 64 * 2**30)
    assert space.require[0].holds({"trainer.train_batch_size": 64, "trainer.mini_batch_size": 32})
    assert (space.objective.direction, space.objective.reduce) == (Direction.MINIMIZE, Reduce.MAX)
    assert [(c.metric, c.upper, c.bound) for c in space.constraints] == [
        ("kl/actor_ref", True, 0.12),
        ("reward/mean", False, -0.15),
    ]
    assert (space.sampler.name, space.sampler.seed) == ("random", 7)
    assert (space.budget.trials, space.budget.parallel, space.budget.steps) == (40, 4, 200)
    assert space.budget.wall_clock_s == 5400
    assert space.retry == Retry(attempts=1, on=("node", "port_in_use"))
    assert [(s.label, dict(s.values)) for s in space.start_from] == [
        ("default", {}),
        ("start-1", {"algorithm.clip_ratio": 0.1, "trainer.ppo_epochs": 2}),
    ]


def test_the_options_of_pruners_come_out_complete():
    assert [(spec.name, dict(spec.options)) for spec in load_space(FULL).prune] == [
        (
            "asha",
            {"min_steps": 20, "reduction_factor": 3, "metric": "eval/reward", "mode": "promote", "protect_top": 3},
        ),
        ("kl_ceiling", {"above": 0.15, "patience": 2, "metric": "kl/actor_ref", "min_steps": 1}),
        (
            "reward_collapse",
            {"drop": 0.5, "patience": 5, "metric": "reward/mean", "smooth": 3, "min_steps": 5, "protect_top": 3},
        ),
        ("not_finite", {"patience": 1}),
    ]


def test_what_is_left_out_has_its_default(text):
    space = load_space(text())
    assert space.trainer.backend == "native"
    assert space.sampler.name == "tpe"
    assert (space.budget.parallel, space.budget.steps, space.budget.wall_clock_s) == (1, None, None)
    assert space.retry == Retry()
    assert space.prune == space.start_from == space.constraints == space.require == ()


def test_json_is_accepted_and_the_document_loads_again_to_the_same_space():
    first = load_space(FULL)
    second = load_space(json.dumps(first.document), file="again.json")
    assert second.search == first.search
    assert second.document == first.document
    assert second.prune == first.prune
    assert second.trainer == first.trainer


def test_a_space_survives_pickling():
    space = load_space(FULL)
    assert pickle.loads(pickle.dumps(space)) == space


def test_marks_point_at_keys_and_values():
    marks = load_space(FULL, file="s.yaml").marks
    assert marks["search.algorithm.clip_ratio"] == ("s.yaml", 9, 3)
    assert marks["objective.metric"] == ("s.yaml", 18, 13)
    assert marks["objective.metric:"] == ("s.yaml", 18, 21)
    assert marks["trainer.overrides.trainer.total_steps"] == ("s.yaml", 6, 61)


def test_a_space_is_read_by_path_and_by_name(tmp_path, text):
    path = tmp_path / "one.yaml"
    path.write_text(text(), encoding="utf-8-sig")
    assert read_space(path).name == "mine"
    assert read_space(str(path)).marks["name"] == (str(path), 1, 1)
    assert read_space("quickstart").name == "quickstart"


def test_a_missing_file_names_the_nearest_shipped_space(tmp_path):
    with pytest.raises(NotFoundError) as caught:
        read_space("quickstrat")
    assert "'quickstart'" in caught.value.hint
    with pytest.raises(NotFoundError, match="does not exist"):
        read_space(tmp_path / "none.yaml")
    with pytest.raises(NotFoundError, match="is a directory"):
        read_space(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_read_access_is_not_allowed(tmp_path):
    path = tmp_path / "secret.yaml"
    path.write_text("name: x")
    path.chmod(0)
    with pytest.raises(NotAllowedError):
        read_space(path)


def test_a_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(InvalidSpaceError, match="UTF-8"):
        read_space(path)
