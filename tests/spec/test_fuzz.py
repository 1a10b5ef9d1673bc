"""Whatever stands in a file: it is a space, or it is refused with places. Never anything else."""

import copy
import json

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import InvalidSpaceError
from autotune.spec.check import check_space
from autotune.spec.loader import load_space

BASE = {
    "algorithm.clip_ratio": 0.2,
    "algorithm.kl_ctrl.type": "fixed",
    "algorithm.kl_ctrl.target_kl": None,
    "trainer.optim.lr": 1e-6,
    "trainer.ppo_epochs": 1,
    "trainer.mini_batch_size": 32,
    "trainer.train_batch_size": 64,
}
METRICS = {"eval/reward": "", "reward/mean": "", "kl/actor_ref": ""}
GOOD = yaml.safe_load("""
name: my-search
trainer: {backend: native, config: config, overrides: {data: digits, trainer: {total_steps: 20}}}
resources: {gpus: 2, cpus: 8, memory: 64GiB}
search:
  clip_ratio: {float: [0.1, 0.3], step: 0.1}
  lr: {float: [1.0e-6, 1.0e-5], log: true, prior: 2.0e-6}
  ppo_epochs: {int: [1, 5], step: 2}
  mini_batch_size: {choice: [32, 64]}
  kl_type: {choice: [fixed, adaptive]}
  target_kl: {float: [0.02, 0.2], when: "kl_type == 'adaptive'", prior: 0.1}
require: [train_batch_size % mini_batch_size == 0]
objective: {metric: eval/reward, direction: maximize, reduce: max, smooth: 5}
constraints: ["kl/actor_ref <= 0.12"]
sampler: {name: random, seed: 7}
prune: [{asha: {min_steps: 20}}, {kl_ceiling: {above: 0.15}}, {reward_collapse: {drop: 0.5}}, not_finite]
budget: {trials: 40, parallel: 4, wall_clock: 1h, steps: 200}
retry: {attempts: 1, "on": [node]}
start_from: [default, {clip_ratio: 0.1}]
""")

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [0, 1, -1, 1e308, -1e308, 5e-324, "", "1e-6", "9" * 30, "lr > 0", "a - b", "default", "24h", "\ud800"]
    ),
    st.text(max_size=8),
)
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)


def _spots(node, path=()):
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from _spots(child, (*path, key))


SPOTS = [spot for spot in _spots(GOOD) if spot]


def _attempt(text):
    try:
        space = load_space(text, file="f.yaml")
        check_space(space, BASE, METRICS, 200)
    except InvalidSpaceError as error:
        return error.problems
    return None


def test_the_unchanged_file_is_good():
    assert _attempt(json.dumps(GOOD)) is None


def _put(node, spot, value):
    """Puts a value at a spot, if the spot is still there."""
    for key in spot[:-1]:
        if not _has(node, key):
            return
        node = node[key]
    if _has(node, spot[-1]):
        node[spot[-1]] = value


def _has(node, key):
    return (isinstance(node, dict) and key in node) or (isinstance(node, list) and key in range(len(node)))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SPOTS), _json), min_size=1, max_size=2))
def test_any_value_in_any_place_is_accepted_or_refused_with_its_place(changes):
    document = copy.deepcopy(GOOD)
    for spot, value in changes:
        _put(document, spot, value)
    problems = _attempt(json.dumps(document))
    if problems is not None:
        assert problems
        assert all(p.message and p.file == "f.yaml" and p.line == 1 and p.column >= 1 for p in problems)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_file_is_accepted_or_refused(data):
    text = yaml.safe_dump(GOOD, sort_keys=False)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    _attempt(text[:start] + data.draw(st.text(max_size=4)) + text[end:])
