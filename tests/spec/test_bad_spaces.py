import pytest

from autotune.errors import InvalidSpaceError
from autotune.spec.loader import load_space

HEAD = "name: mine\nobjective: {metric: eval/reward}\nbudget: {trials: 4}\n"
SEARCH = "search: {lr: {float: [1e-6, 1e-5], log: true}}\n"


def problems(text):
    with pytest.raises(InvalidSpaceError) as caught:
        load_space(text, file="bad.yaml")
    return caught.value.problems


def parameter(body):
    return f"{HEAD}search:\n  clip_ratio: {body}\n"


@pytest.mark.parametrize(
    ("body", "column", "message", "fix"),
    [
        ("{float: [0.3, 0.1]}", 23, "upside down: 0.3 is above 0.1", "[0.1, 0.3]"),
        ("{int: [4, 1]}", 21, "upside down: 4 is above 1", "[1, 4]"),
        ("{float: [0, 0.1], log: true}", 23, "log: true needs a range above 0, got 0", "1e-6"),
        ("{int: [0, 8], log: true}", 21, "log: true needs a range above 0, got 0", "Start at 1"),
        ("{float: [-1, 0.1], log: true}", 23, "above 0, got -1", "remove log"),
        ("{float: [0.1, 0.3], log: true, step: 0.1}", 52, "exclude each other", "choice"),
        ("{float: [0.1, 0.3], step: 0.15}", 41, "does not lead from 0.1 to 0.3", "0.25"),
        ("{int: [1, 4], step: 2}", 35, "does not lead from 1 to 4", "at 3 or at 5"),
        ("{int: [1, 4], step: 0}", 35, "at least 1", ""),
        ("{float: [0.1, 0.3], step: -1}", 41, "above 0", ""),
        ("{int: [1, 4.5]}", 21, "two whole numbers", "float instead of int"),
        ("{float: [0.1]}", 23, "two numbers", "[0.1, 0.3]"),
        ("{float: [a, b]}", 23, "two numbers", "[0.1, 0.3]"),
        ("{float: 0.1}", 23, "two numbers, got 0.1", ""),
        ("{float: [0.1, true]}", 23, "two numbers", ""),
        ("{choice: []}", 24, "an empty list", "choice: [32, 64, 128]"),
        ("{choice: 3}", 24, "list of values, got 3", ""),
        ("{choice: [1, 2, 1]}", 31, "1 is given twice", "Remove"),
        ("{choice: [[1], 2]}", 25, "got [1]", "cannot be searched"),
        ("{choice: [1], log: true}", 34, "goes with float and int", "Remove"),
        ("{float: [0.1, 0.3], prior: 0.5}", 42, "0.5 does not lie in the domain: 0.1 to 0.3", "Widen"),
        ("{choice: [a, b], prior: c}", 39, "does not lie in the domain: one of a, b", "Widen"),
        ("{}", 15, "exactly one of float, int and choice, but has no domain", "float"),
        ("{float: [1, 2], int: [1, 2]}", 15, "has float and int", ""),
        ("{flaot: [0.1, 0.3]}", 16, "unknown key 'flaot'", "'float'"),
        ("0.3", 15, "mapping with float, int or choice, got 0.3", "clip_ratio: {float"),
        ("{float: [0.1, 0.3], when: 'lr <'}", 41, "cannot be read", ""),
        ("{float: [0.1, 0.3], when: 3}", 41, "must be a text, got 3", "quotes"),
        ("{float: [0.1, 0.3], when: 'clip_ratio > 1'}", 41, "circle", "Remove"),
    ],
)
def test_a_parameter_that_cannot_be_searched_says_where_and_why(body, column, message, fix):
    problem = problems(parameter(body))[0]
    assert (problem.file, problem.line, problem.column) == ("bad.yaml", 5, column)
    assert message in problem.message
    assert fix in problem.hint
    assert problem.path.startswith("search.algorithm.clip_ratio")


@pytest.mark.parametrize(
    ("line", "column", "path", "message", "fix"),
    [
        ("desciption: x", 1, "desciption", "unknown key 'desciption'", "'description'"),
        ("stages: []", 9, "stages", "1 to 10 stages, got 0", "Leave `stages` out"),
        ("trainer: {backend: nativ}", 20, "trainer.backend", 'unknown backend "nativ"', "'native'"),
        ("trainer: {overides: {}}", 11, "trainer.overides", "unknown key", "'overrides'"),
        ("trainer: {overrides: [a]}", 22, "trainer.overrides", "must be a mapping", ""),
        ("trainer: native", 10, "trainer", "must be a mapping", "backend"),
        ("resources: {gpu: 1}", 13, "resources.gpu", "unknown key", "'gpus'"),
        ("resources: {cpus: 0}", 19, "resources.cpus", "above 0; got 0", ""),
        ("resources: {nodes: 0}", 20, "resources.nodes", "at least 1; got 0", ""),
        ("resources: {nodes: 2}", 20, "resources.nodes", "runs on one machine, got 2", "nodes: 1"),
        ("resources: {memory: 64 gigs}", 21, "resources.memory", "64 gigs", "64GiB"),
        ("require: x > 1", 10, "require", "must be a list", "["),
        ("require: [lr = 1]", 11, "require[0]", "cannot be read", "=="),
        ("require: ['lr > 0', 'lr > 9**9']", 21, "require[1]", "'9**9' is not allowed", "Powers"),
        ("constraints: [kl/actor_ref < 1]", 15, "constraints[0]", "is not a constraint", "kl/actor_ref <= 0.12"),
        ("constraints: ['a <= 1', 'a >= 2']", 25, "constraints[1]", "never both hold", ""),
        ("sampler: {name: tpee}", 17, "sampler.name", "known are tpe, gp", "'tpe'"),
        ("sampler: {seed: -1}", 17, "sampler.seed", "at least 0", ""),
        ("prune: [ahsa]", 9, "prune[0]", "unknown pruner 'ahsa'", "'asha'"),
        ("prune: [asha]", 9, "prune[0].asha.min_steps", "'min_steps' is missing", "min_steps: 20"),
        ("prune: [{kl_ceiling: {above: 1, patiance: 3}}]", 33, "prune[0].kl_ceiling.patiance", "unknown", "'patience'"),
        ("prune: [{kl_ceiling: {above: 0}}]", 30, "prune[0].kl_ceiling.above", "above 0; got 0", ""),
        ("prune: [{reward_collapse: {drop: 2}}]", 34, "prune[0].reward_collapse.drop", "at most 1; got 2", ""),
        ("prune: [{asha: {min_steps: 5, mode: promot}}]", 37, "prune[0].asha.mode", "promote, stop", "'promote'"),
        ("prune: [percentile]", 9, "prune[0].percentile.keep", "'keep' is missing", "keep: 75"),
        ("prune: [{plateau: {min_gain: 2}}]", 30, "prune[0].plateau.min_gain", "at most 1; got 2", ""),
        ("prune: [not_finite, not_finite]", 21, "prune[1]", "given twice", "Remove"),
        ("prune: [{asha: {}, not_finite: {}}]", 9, "prune[0]", "one name with its options", ""),
        ("finalists: {top: 0}", 18, "finalists.top", "at least 1", ""),
        ("finalists: {tops: 2}", 13, "finalists.tops", "unknown key 'tops'", "'top'"),
        ("retry: {on: [out_of_memory]}", 14, "retry.on[0]", "failure that can", "to blame"),
        ("retry: {on: [nod]}", 14, "retry.on[0]", "known are node", "'node'"),
        ("retry: {attempts: -1}", 19, "retry.attempts", "at least 0", ""),
        ("start_from: [defualt]", 14, "start_from[0]", "the word default", ""),
        ("start_from: [default, default]", 23, "start_from[1]", "the same as 'default'", "Remove"),
        ("start_from: [{lrr: 1e-6}]", 15, "start_from[0].lrr", "not a searched parameter", "'trainer.optim.lr'"),
        ("start_from: [{lr: 1}]", 19, "start_from[0].trainer.optim.lr", "1e-06 to 1e-05", "Widen"),
        ("start_from: [{lr: 1e-6, learning_rate: 2e-6}]", 25, "start_from[0].learning_rate", "given twice", ""),
        ("trainer: {overrides: {lr: 1}}", 23, "trainer.overrides.trainer.optim.lr", "searched too", "Remove"),
    ],
)
def test_a_section_that_cannot_be_used_says_where_and_why(line, column, path, message, fix):
    problem = next(p for p in problems(HEAD + SEARCH + line + "\n") if p.line == 5)
    assert (problem.line, problem.column, problem.path) == (5, column, path)
    assert message in problem.message
    assert fix in problem.hint


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        (HEAD + "search: {}\n", 4, 9, "nothing to search"),
        (HEAD + "search:\n", 4, 8, "nothing to search"),
        (HEAD, 1, 1, "nothing to search"),
        (HEAD + "search: [lr]\n", 4, 9, "must be a mapping"),
        ("name: mine\nbudget: {trials: 1}\n" + SEARCH, 1, 1, "'objective' is missing"),
        ("name: mine\nobjective: {}\nbudget: {trials: 1}\n" + SEARCH, 2, 12, "'metric' is missing"),
        ("name: mine\nobjective: {metric: a, direction: maximise}\nbudget: {trials: 1}\n" + SEARCH, 2, 35, "maximise"),
        ("name: mine\nobjective: {metric: a}\n" + SEARCH, 1, 1, "'budget' is missing"),
        ("name: mine\nobjective: {metric: a}\nbudget: {trials: 0}\n" + SEARCH, 3, 18, "at least 1; got 0"),
        ("name: mine\nobjective: {metric: a}\nbudget: {trials: 1, steps: 0}\n" + SEARCH, 3, 28, "at least 1; got 0"),
        ("name: mine\nobjective: {metric: a}\nbudget: {trials: 1, parallel: 0}\n" + SEARCH, 3, 31, "at least 1; got 0"),
        ("name: mine\nobjective: {metric: a}\nbudget: {trials: 1, wall_clock: 24}\n" + SEARCH, 3, 33, "with its unit"),
        ("name: mine\nobjective: {metric: a}\nbudget: {trials: 1, wall_clock: 0h}\n" + SEARCH, 3, 33, "above 0"),
        ("name: mine\nobjective: {metric: a}\nbudget: {trials: 1, gpu_hours: 2}\n" + SEARCH, 3, 32, "occupies no GPU"),
        ("name: mine\nobjective: {metric: a}\nbudget: {trials: ten}\n" + SEARCH, 3, 18, 'got "ten"'),
        ("name: mine\nobjective: {metric: a}\nbudget: {}\n" + SEARCH, 3, 9, "'trials' is missing"),
        ("objective: {metric: a}\nbudget: {trials: 1}\n" + SEARCH, 1, 1, "'name' is missing"),
        (HEAD + "search:\n  lr: {float: [1, 2]}\n  trainer.optim.lr: {float: [1, 2]}\n", 6, 3, "'lr' on line 5"),
        (HEAD + SEARCH + SEARCH, 5, 1, "given twice"),
        (
            HEAD.replace("4", "1") + SEARCH + "start_from: [default, {lr: 1e-6}]\n",
            5,
            13,
            "do not fit into a budget of 1",
        ),
    ],
)
def test_a_file_that_lacks_or_repeats_something_says_where(text, line, column, message):
    problem = problems(text)[0]
    assert (problem.line, problem.column) == (line, column)
    assert message in problem.message


@pytest.mark.parametrize("name", ["My Search", "a/b", "..", "-a", "a-", "ümlaut", "a" * 64, "a.b", "''", "../../etc"])
def test_a_name_that_is_no_directory_name_is_refused_with_a_better_one(name):
    found = problems(f"name: {name}\n" + HEAD.split("\n", 1)[1] + SEARCH)
    assert found[0].path == "name"
    assert (found[0].line, found[0].column) == (1, 7)
    if "for example name: " in found[0].hint:
        better = found[0].hint.removeprefix("Write for example name: ")
        load_space(f"name: {better}\n" + HEAD.split("\n", 1)[1] + SEARCH)


def test_a_circle_of_conditions_is_named_once():
    text = HEAD + (
        "search:\n"
        "  a: {int: [1, 2], when: 'b == 1'}\n"
        "  b: {int: [1, 2], when: 'c == 1'}\n"
        "  c: {int: [1, 2], when: 'a == 1'}\n"
        "  d: {int: [1, 2], when: 'a == 1'}\n"
        "  e: {int: [1, 2], when: 'e == 1'}\n"
    )
    found = problems(text)
    assert [(p.line, p.path) for p in found] == [(5, "search.a.when"), (9, "search.e.when")]
    assert "a -> b -> c -> a" in found[0].message


def test_all_problems_are_reported_at_once_in_the_order_of_the_file():
    text = (
        "name: Bad Name\n"
        "search:\n"
        "  clip_ratio: {float: [0.3, 0.1]}\n"
        "  kl_coef: {float: [0, 1], log: true}\n"
        "objective: {metric: eval/reward, direktion: maximize}\n"
        "sampler: {name: tpee}\n"
        "budget: {trials: 0}\n"
    )
    with pytest.raises(InvalidSpaceError) as caught:
        load_space(text, file="bad.yaml")
    assert [(p.line, p.column) for p in caught.value.problems] == [(1, 7), (3, 23), (4, 20), (5, 34), (6, 17), (7, 18)]
    assert caught.value.exit_code == 3
    assert "6 problems" in caught.value.message


def test_one_mistake_is_not_reported_as_several():
    text = HEAD + "search: {lr: {float: [2, 1]}}\nstart_from: [default, {lr: 1}]\n"
    assert len(problems(text)) == 1
    assert len(problems("extends: quickstrat\n")) == 1
    assert len(problems(parameter("{flaot: [0.1, 0.3]}"))) == 1
    assert len(problems(HEAD.replace("4", "0") + SEARCH + "start_from: [default, {lr: 1e-6}]\n")) == 1
