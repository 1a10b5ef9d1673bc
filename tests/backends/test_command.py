import dataclasses

import pytest

from autotune.backends import get_backend
from autotune.errors import InvalidConfigError
from autotune.spec.types import MetricsSpec, TrainerSpec


@pytest.fixture
def good(tmp_path):
    (tmp_path / "train.py").write_text("")
    return TrainerSpec(
        backend="command",
        config="",
        command=("python3", "train.py", "--lr={lr}"),
        parameters={"lr": 0.001, "layers": 2, "name": "adam", "flag": False, "free": None},
        metrics=MetricsSpec(read="csv", file="log.csv", names={"eval/loss": "val"}),
        workdir=str(tmp_path),
        steps=5,
    )


def describe_problems(trainer, **changes):
    with pytest.raises(InvalidConfigError) as caught:
        get_backend("command").describe(dataclasses.replace(trainer, **changes))
    return caught.value.problems


def test_the_declared_parameters_are_the_base_configuration(good):
    description = get_backend("command").describe(dataclasses.replace(good, overrides={"layers": 3}))
    config = {key: value for key, value in description.config.items() if not key.startswith("backend.")}
    assert config == {"steps": 5, "seed": 0, "lr": 0.001, "layers": 3, "name": "adam", "flag": False, "free": None}
    assert description.metrics == {"eval/loss": "column 'val' of log.csv, in the program's own unit"}


@pytest.mark.parametrize(
    ("changes", "path", "message", "fix"),
    [
        (
            {"command": ("no-such-program",)},
            "trainer.command[0]",
            "no program 'no-such-program' on the PATH",
            "install",
        ),
        ({"command": ("./train.py",)}, "trainer.command[0]", "no program './train.py' in", ""),
        ({"command": ("python3", "trian.py")}, "trainer.command[1]", "no file 'trian.py'", "'train.py'"),
        ({"command": ()}, "trainer.command", "names no program", "train.py"),
        ({"workdir": "/no/such/place"}, "trainer.workdir", "/no/such/place does not exist", "absolute"),
        ({"env": {"PATH": "/no/such/place"}}, "trainer.command[0]", "no program 'python3'", ""),
        ({"searched": ("steps",)}, "search.steps", "no parameter of the program", "Remove"),
        ({"searched": ("lr", "backend.stall_s")}, "search.backend.stall_s", "no parameter", "Remove"),
        ({"overrides": {"steps": 3}}, "trainer.overrides.steps", "key of their own", "trainer.steps"),
        ({"overrides": {"layer": 3}}, "trainer.overrides.layer", "not a declared parameter", "'layers'"),
        ({"overrides": {"layers": 1.5}}, "trainer.overrides.layers", "a whole number", "default"),
        ({"overrides": {"flag": 1}}, "trainer.overrides.flag", "true or false", "default"),
        ({"overrides": {"name": 1}}, "trainer.overrides.name", "a text", "default"),
    ],
)
def test_what_cannot_run_on_this_machine_is_a_problem_of_its_key(good, changes, path, message, fix):
    problem, *more = describe_problems(good, **changes)
    assert more == []
    assert problem.path == path
    assert message in problem.message
    assert fix in problem.hint


def test_a_whole_number_passes_for_a_fraction_and_anything_for_a_parameter_without_a_type(good):
    backend = get_backend("command")
    config = backend.describe(good).config
    assert backend.check({**config, "lr": 1, "free": "anything"}) == ()
    assert [problem.path for problem in backend.check({**config, "lr": "1", "layers": True})] == ["lr", "layers"]


def test_a_placeholder_may_stand_where_a_program_would(good):
    assert get_backend("command").describe(dataclasses.replace(good, command=("python3", "{name}.py")))


def test_the_command_line_to_run_by_hand_has_its_environment(good):
    trainer = dataclasses.replace(good, env={"RATE": "{lr}"}, command=("python3", "train.py", "{output_dir}", "{lr}"))
    backend = get_backend("command")
    words = backend.command_line(trainer, {**backend.describe(trainer).config, "lr": 0.5})
    assert words == ["env", "RATE=0.5", "python3", "train.py", "output", "0.5"]
