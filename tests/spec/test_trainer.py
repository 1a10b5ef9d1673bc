"""The trainer section of a command: what is read from it, and every mistake at its place."""

import textwrap
from pathlib import Path

import jsonschema
import pytest
import yaml

from autotune.errors import InvalidSpaceError
from autotune.spec.json_schema import space_schema
from autotune.spec.loader import load_space
from autotune.spec.placeholders import fill, placeholders

TOP = "name: mine\nobjective: {metric: loss, direction: minimize}\nbudget: {trials: 4}\n"
SEARCH = "search: {lr: {float: [1e-4, 1], log: true}}\n"
TRAINER = {
    "backend": "command",
    "command": '[python3, train.py, "--lr={lr}", "--steps={steps}"]',
    "parameters": "{lr: 0.001}",
    "metrics": "{read: jsonl, names: [loss]}",
    "steps": "20",
}


def space_text(**changes):
    lines = {**TRAINER, **changes}
    body = "".join(f"  {key}: {value}\n" for key, value in lines.items() if value is not None)
    return f"{TOP}{SEARCH}trainer:\n{body}"


def problems(text):
    with pytest.raises(InvalidSpaceError) as caught:
        load_space(text, file="bad.yaml")
    return caught.value.problems


def test_a_command_is_read_with_its_parameters_metrics_and_steps():
    trainer = load_space(space_text(env="{DEBUG: 1, RUN: 'x-{lr}'}", workdir="/tmp")).trainer
    assert trainer.command == ("python3", "train.py", "--lr={lr}", "--steps={steps}")
    assert (trainer.parameters, trainer.steps, trainer.workdir) == ({"lr": 0.001}, 20, "/tmp")
    assert trainer.env == {"DEBUG": "1", "RUN": "x-{lr}"}
    assert (trainer.metrics.read, trainer.metrics.step, dict(trainer.metrics.names)) == (
        "jsonl",
        "step",
        {"loss": "loss"},
    )


def test_a_command_may_be_one_text_without_a_shell():
    trainer = load_space(space_text(command="python3 train.py --lr={lr} --name 'two words'")).trainer
    assert trainer.command == ("python3", "train.py", "--lr={lr}", "--name", "two words")


def test_short_names_of_other_trainers_mean_nothing_to_a_command():
    space = load_space(space_text() + "require: ['lr < 1']\nstart_from: [{lr: 0.01}]\n")
    assert list(space.search) == ["lr"]
    assert space.require[0].names == {"lr"}
    assert space.start_from[0].values == {"lr": 0.01}


def test_the_backend_of_a_file_below_decides_about_short_names_too(tmp_path):
    (tmp_path / "base.yaml").write_text(space_text())
    space = load_space("extends: ./base.yaml\nsearch: {lr: {float: [0.1, 0.2]}}\n", directory=tmp_path)
    assert list(space.search) == ["lr"]
    assert space.search["lr"].domain.low == 0.1


def test_numbers_that_yaml_reads_as_texts_are_numbers():
    trainer = load_space(space_text(parameters="{lr: 1e-3, tag: '10'}", command="[x, '{lr}{tag}']")).trainer
    assert trainer.parameters == {"lr": 0.001, "tag": "10"}


def test_the_record_of_a_space_names_its_directory_so_that_it_means_the_same_elsewhere():
    space = load_space(space_text())
    assert space.document["trainer"]["workdir"] == str(Path.cwd())
    assert load_space(space_text(workdir="sub")).trainer.workdir == str(Path.cwd() / "sub")


def test_renamed_metrics_keep_the_place_they_are_read_from():
    trainer = load_space(
        space_text(metrics="{read: csv, file: log.csv, step: epoch, names: {loss: , acc: val_acc}}")
    ).trainer
    assert dict(trainer.metrics.names) == {"loss": "loss", "acc": "val_acc"}
    assert (trainer.metrics.file, trainer.metrics.step) == ("log.csv", "epoch")


@pytest.mark.parametrize(
    ("changes", "line", "column", "path", "message", "fix"),
    [
        ({"command": None}, 6, 3, "trainer.command", "'command' is missing", "train.py"),
        ({"command": "3"}, 7, 12, "trainer.command", "must be a list", "train.py"),
        ({"command": "[]"}, 7, 12, "trainer.command", "names no program", ""),
        ({"command": "python3 'train.py {lr}"}, 7, 12, "trainer.command", "No closing quotation", "list"),
        ({"command": "[x, {lr}]"}, 7, 16, "trainer.command[1]", "must be a text", "quotes"),
        ({"command": '[x, "{lr}", "{lrr}"]'}, 7, 24, "trainer.command[2]", "{lrr} is not a declared", "'lr'"),
        ({"command": '[x, "{step}", "{lr}"]'}, 7, 16, "trainer.command[1]", "{step}", "'steps'"),
        ({"command": "[x]"}, 8, 16, "trainer.parameters.lr", "reaches the program nowhere", "--lr={lr}"),
        ({"parameters": None}, 6, 3, "trainer.parameters", "missing", "lr: 0.001"),
        ({"parameters": "{lr: [1]}"}, 8, 20, "trainer.parameters.lr", "must be a number", ""),
        ({"parameters": "{lr: 1, steps: 3}"}, 8, 23, "trainer.parameters.steps", "meaning of its own", "steps of the"),
        ({"parameters": "{lr: 1, a b: 3}"}, 8, 23, "trainer.parameters.a b", "is not a name", "a_b"),
        ({"parameters": "{lr: 1, lr.x: 3}"}, 8, 23, "trainer.parameters.lr.x", "inside the other", "Rename"),
        ({"metrics": None}, 6, 3, "trainer.metrics", "missing", "names: [loss]"),
        ({"metrics": "{read: jsonl}"}, 9, 12, "trainer.metrics.names", "missing", "No metric is declared"),
        ({"metrics": "{read: jsonl, names: []}"}, 9, 33, "trainer.metrics.names", "no metric is declared", "[loss]"),
        ({"metrics": "{read: json, names: [loss]}"}, 9, 19, "trainer.metrics.read", "unknown reader", "'jsonl'"),
        ({"metrics": "{reed: csv, names: [a]}"}, 9, 13, "trainer.metrics.reed", "unknown key", "'read'"),
        ({"metrics": "{read: csv, names: [loss]}"}, 9, 12, "trainer.metrics.file", "missing", "{output_dir}/log.csv"),
        ({"metrics": "{read: csv, file: /a/b, names: [loss]}"}, 9, 30, "trainer.metrics.file", "within", "log.csv"),
        ({"metrics": "{read: csv, file: ../b, names: [loss]}"}, 9, 30, "trainer.metrics.file", "within", "log.csv"),
        (
            {"metrics": "{read: jsonl, names: [a b]}"},
            9,
            34,
            "trainer.metrics.names[0]",
            "name of a metric",
            "eval/loss",
        ),
        ({"metrics": "{read: jsonl, names: {a: 3}}"}, 9, 37, "trainer.metrics.names.a", "field, group or", ""),
        ({"metrics": "{read: regex, names: [loss]}"}, 9, 12, "trainer.metrics.patterns", "missing", "(?P<loss>"),
        (
            {"metrics": "{read: regex, names: [loss], patterns: ['loss (.*)']}"},
            *(9, 52, "trainer.metrics.patterns[0]", "no named group", "(?P<loss>"),
        ),
        (
            {"metrics": "{read: regex, names: [loss], patterns: ['(?P<loss>']}"},
            *(9, 52, "trainer.metrics.patterns[0]", "not a regular expression", ""),
        ),
        (
            {"metrics": "{read: regex, names: {loss: val}, patterns: ['(?P<vall>.)']}"},
            *(9, 34, "trainer.metrics.names.loss", "no pattern has a group 'val'", "'vall'"),
        ),
        ({"metrics": "{read: jsonl, names: [a], patterns: [x]}"}, 9, 48, "trainer.metrics.patterns", "regex", "Remove"),
        ({"env": "{A-B: 1}"}, 11, 9, "trainer.env.A-B", "environment variable", ""),
        ({"env": "{A: '{lrr}'}"}, 11, 12, "trainer.env.A", "{lrr}", "'lr'"),
        ({"steps": None}, 6, 3, "trainer.steps", "missing", "steps: 100"),
        ({"steps": "0"}, 10, 10, "trainer.steps", "at least 1", ""),
        ({"stall": "30"}, 11, 10, "trainer.stall", "with its unit", "30m"),
        ({"python": "x"}, 11, 3, "trainer.python", "does not go with backend 'command'", "verl"),
        ({"config": "x"}, 11, 3, "trainer.config", "does not go with backend 'command'", "native"),
        (
            {"backend": "native", "steps": None, "command": "[a]"},
            7,
            3,
            "trainer.command",
            "does not go with",
            "command",
        ),
    ],
)
def test_a_mistake_in_the_trainer_section_says_where_and_what_to_write(changes, line, column, path, message, fix):
    problem = problems(space_text(**changes))[0]
    assert (problem.path, problem.line, problem.column) == (path, line, column)
    assert message in problem.message
    assert fix in problem.hint


def test_all_problems_of_a_command_are_reported_at_once():
    text = space_text(command='[x, "{lrr}"]', metrics="{read: regex, patterns: ['a'], names: [loss]}", steps="0")
    found = problems(text)
    assert [problem.line for problem in found] == [7, 8, 9, 10]


def test_the_schema_knows_which_keys_go_with_which_backend():
    validator = jsonschema.Draft202012Validator(space_schema())
    assert validator.is_valid(yaml.safe_load(space_text()))
    assert validator.is_valid(yaml.safe_load("extends: other\ntrainer: {parameters: {lr: 1}}\n"))
    assert not validator.is_valid(yaml.safe_load(space_text(backend="native")))
    assert not validator.is_valid(yaml.safe_load(space_text(config="x")))
    assert not validator.is_valid(yaml.safe_load(space_text(metrics="{read: xml, names: [a]}")))


def test_every_key_of_the_trainer_is_described_in_the_schema():
    properties = space_schema()["properties"]["trainer"]["properties"]
    assert all(len(schema["description"]) > 10 for schema in properties.values())


def test_only_names_in_braces_are_placeholders():
    text = textwrap.dedent("""{lr} {"a": 1} {{lr}} {} {optim.lr} { lr }""")
    assert placeholders(text) == ["lr", "optim.lr"]
    filled = fill(text, {"lr": 1e-05, "optim.lr": True})
    assert filled == """1e-05 {"a": 1} {lr} {} true { lr }"""


def test_verl_takes_an_interpreter_and_an_environment_and_keeps_the_short_names():
    space = load_space(
        f"{TOP}{SEARCH}trainer: {{backend: verl, python: /opt/verl/bin/python, env: {{A: '{{lr}}'}}, stall: 2h}}\n"
    )
    trainer = space.trainer
    assert (trainer.python, trainer.config, trainer.env) == ("/opt/verl/bin/python", "ppo_trainer", {"A": "{lr}"})
    assert trainer.stall_s == 7200
    assert trainer.searched == ("trainer.optim.lr",)


def test_an_interpreter_is_a_name_on_the_path_or_a_place_of_its_own():
    def python_of(written):
        return load_space(f"{TOP}{SEARCH}trainer: {{backend: verl, python: {written}}}\n")

    assert python_of("python3").trainer.python == "python3"
    relative = python_of("env/bin/python")
    assert relative.trainer.python == str(Path.cwd() / "env/bin/python")
    assert relative.document["trainer"]["python"] == relative.trainer.python
