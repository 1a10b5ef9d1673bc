import pytest

from autotune.errors import InvalidSpaceError
from autotune.spec.loader import load_space, read_space
from autotune.spec.types import FloatRange, IntRange

BASE = """\
name: base
description: the base
trainer: {overrides: {data: digits, gamma: 0.9}}
search:
  clip_ratio: {float: [0.1, 0.3], prior: 0.2}
  lr: {float: [1e-6, 1e-5], log: true}
  ppo_epochs: {int: [1, 4]}
objective: {metric: eval/reward, smooth: 5}
prune: [not_finite, {asha: {min_steps: 5}}]
budget: {trials: 40, parallel: 4, steps: 200}
"""


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    write("base.yaml", BASE)
    return write


def test_a_file_is_laid_over_what_it_extends(write):
    space = read_space(
        write(
            "child.yaml",
            "name: child\nextends: base.yaml\n"
            "search:\n"
            "  algorithm.clip_ratio: {prior: 0.15}\n"
            "  lr: null\n"
            "  ppo_epochs: {float: [1, 2]}\n"
            "  kl_coef: {float: [0.001, 0.1]}\n"
            "prune: [not_finite]\nbudget: {trials: 8, steps: null}\ndescription:\n",
        )
    )
    assert space.name == "child"
    assert space.description == ""
    assert list(space.search) == ["algorithm.clip_ratio", "trainer.ppo_epochs", "algorithm.kl_ctrl.kl_coef"]
    assert space.search["algorithm.clip_ratio"].domain == FloatRange(low=0.1, high=0.3)
    assert space.search["algorithm.clip_ratio"].prior == 0.15
    assert space.search["trainer.ppo_epochs"].domain == FloatRange(low=1.0, high=2.0)
    assert [spec.name for spec in space.prune] == ["not_finite"]
    assert (space.budget.trials, space.budget.parallel, space.budget.steps) == (8, 4, None)
    assert space.objective.smooth == 5
    assert "extends" not in space.document
    assert load_space(__import__("json").dumps(space.document)).search == space.search


def test_the_last_word_wins_on_whether_a_parameter_is_fixed_or_searched(write):
    fixed = read_space(write("a.yaml", "extends: base.yaml\ntrainer: {overrides: {learning_rate: 3e-6}}\n"))
    assert "trainer.optim.lr" not in fixed.search
    assert fixed.trainer.overrides["trainer.optim.lr"] == 3e-6
    searched = read_space(write("b.yaml", "extends: base.yaml\nsearch: {gamma: {float: [0.9, 1]}}\n"))
    assert searched.trainer.overrides == {"data": "digits"}
    assert "algorithm.gamma" in searched.search


def test_null_is_a_value_in_overrides_and_takes_away_elsewhere(write):
    space = read_space(
        write("c.yaml", "extends: base.yaml\ntrainer: {overrides: {clip_ratio_high: null}}\nprune: null\n")
    )
    assert space.trainer.overrides["algorithm.clip_ratio_high"] is None
    assert space.prune == ()


def test_taking_away_what_is_not_there_is_a_problem(write):
    with pytest.raises(InvalidSpaceError) as caught:
        read_space(write("d.yaml", "extends: base.yaml\nsearch:\n  clip_rato: null\n"))
    assert (caught.value.problems[0].line, caught.value.problems[0].column) == (3, 3)


def test_problems_name_the_file_they_stand_in(write):
    broken = BASE.replace("{int: [1, 4]}", "{int: [4, 1]}")
    write("sub/broken.yaml", broken)
    path = write("child.yaml", "name: child\nextends: sub/broken.yaml\nsampler: {name: tpee}\n")
    with pytest.raises(InvalidSpaceError) as caught:
        read_space(path)
    first, second = caught.value.problems
    assert (first.file, first.line, first.column) == (str(path), 3, 17)
    assert (second.file, second.line, second.column) == (str(path.parent / "sub" / "broken.yaml"), 7, 21)


def test_marks_of_merged_keys_point_into_their_own_files(write):
    path = write("child.yaml", "name: child\nextends: base.yaml\nbudget: {trials: 8}\n")
    space = read_space(path)
    assert space.marks["budget.trials"] == (str(path), 3, 10)
    assert space.marks["budget.steps"] == (str(path.parent / "base.yaml"), 10, 35)
    assert space.marks["search.trainer.optim.lr"] == (str(path.parent / "base.yaml"), 6, 3)


def test_paths_start_at_the_file_that_names_them(write):
    write("deep/middle.yaml", "extends: ../base.yaml\nbudget: {trials: 3}\n")
    space = read_space(write("top.yaml", "name: top\nextends: deep/middle.yaml\n"))
    assert (space.name, space.budget.trials, space.budget.parallel) == ("top", 3, 4)


def test_a_shipped_space_can_be_extended_from_text():
    space = load_space("name: mine\nextends: quickstart\nbudget: {trials: 3}\n")
    assert (space.name, space.budget.trials) == ("mine", 3)
    assert space.budget.steps == 40
    assert isinstance(space.search["trainer.ppo_epochs"].domain, IntRange)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a.yaml": "extends: a.yaml"}, "circle"),
        ({"a.yaml": "extends: b.yaml", "b.yaml": "extends: ./a.yaml"}, "circle"),
        ({"a.yaml": "extends: gone.yaml"}, "No such file"),
        ({"a.yaml": "extends: sub/"}, "cannot read"),
        ({"a.yaml": "extends: quickstrat"}, "no shipped space"),
        ({"a.yaml": "extends: [x]"}, "name of a shipped space or a path"),
        ({"a.yaml": "extends: ''"}, "name of a shipped space or a path"),
        ({f"{chr(97 + i)}.yaml": f"extends: {chr(98 + i)}.yaml" for i in range(12)}, "more than 10 files"),
    ],
)
def test_a_parent_that_cannot_be_followed_is_one_problem(write, files, words):
    write("sub/x.yaml", "name: x")
    paths = [write(name, text + "\n") for name, text in files.items()]
    with pytest.raises(InvalidSpaceError) as caught:
        read_space(paths[0])
    assert len(caught.value.problems) == 1
    problem = caught.value.problems[0]
    assert words in problem.message
    assert (problem.line, problem.column, problem.path) == (1, 10, "extends")


def test_a_text_without_a_directory_cannot_make_us_read_files(write):
    base = write("base.yaml", BASE)
    for target in (str(base), "./base.yaml", "/etc/passwd", "../../etc/hosts"):
        with pytest.raises(InvalidSpaceError, match="1 problem") as caught:
            load_space(f"name: x\nextends: {target}\n")
        assert "came as text" in caught.value.problems[0].message
