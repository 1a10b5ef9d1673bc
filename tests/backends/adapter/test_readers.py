import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.backends.adapter.follow import Follow
from autotune.backends.adapter.numbers import number, whole
from autotune.backends.adapter.readers import CsvRows, JsonLines, Patterns
from autotune.backends.adapter.steps import Steps


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5", 0.5),
        (" -1e-3 ", -0.001),
        ("np.float64(0.5)", 0.5),
        ("tensor(0.25, device='cuda:0')", 0.25),
        ("numpy.float32(-inf)", -math.inf),
        (3, 3.0),
        (10**400, math.inf),
        ("12%", None),
        ("", None),
        (True, None),
        (None, None),
        ([1], None),
    ],
)
def test_a_number_is_read_as_programs_print_it(text, value):
    assert number(text) == value


def test_not_a_number_is_read_as_one():
    assert math.isnan(number("nan"))
    assert math.isnan(number("np.float64(nan)"))


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), (3.0, 3), ("3.5", None), (-1, None), ("inf", None), (True, None)]
)
def test_a_step_is_a_whole_number(text, value):
    assert whole(text) == value


@pytest.mark.parametrize("line", ["loss: 3", "{broken", "[1, 2]", '{"other": 1}', '{"loss": null}', "[" * 5000])
def test_a_line_without_a_metric_is_passed_over(line):
    assert JsonLines("step", {"loss": "loss"}).read(line) is None


def test_a_repeated_header_begins_the_table_anew():
    rows = CsvRows("step", {"loss": "loss"})
    assert rows.read("step,loss") is None
    assert rows.read("1,0.5").values == {"loss": 0.5}
    assert rows.read("loss,step") is None
    assert rows.read("0.25,2").step == 2
    assert rows.read("0.25").step is None


def test_a_pattern_is_not_searched_in_a_whole_dump():
    reader = Patterns("step", {"loss": "loss"}, [r"loss (?P<loss>\S+)"])
    assert reader.read("x" * 5000 + " loss 3") is None
    assert reader.read("loss 3").values == {"loss": 3.0}


def collect(names, numbered=None):
    out = []
    return Steps(names, lambda step, values: out.append((step, values)), numbered=numbered), out


def test_values_of_one_step_come_together_even_from_several_lines():
    steps, out = collect({"loss", "acc"})
    steps.add(1, {"loss": 1.0})
    steps.add(None, {"acc": 0.5})
    assert out == [(1, {"loss": 1.0, "acc": 0.5})]
    steps.add(2, {"loss": 0.5})
    assert len(out) == 1
    steps.add(3, {"loss": 0.25})
    steps.flush()
    assert out[1:] == [(2, {"loss": 0.5}), (3, {"loss": 0.25})]


def test_what_comes_before_the_first_numbered_step_belongs_to_step_zero():
    steps, out = collect({"loss", "acc"}, numbered=True)
    steps.add(None, {"acc": 0.1})
    steps.add(1, {"loss": 1.0})
    steps.flush()
    assert out == [(0, {"acc": 0.1}), (1, {"loss": 1.0})]


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=30))
def test_no_value_is_lost_or_moved_to_another_step(rows):
    names = ("a", "b", "c")
    steps, out = collect(set(names), numbered=True)
    sent = {}
    for step, present in enumerate(rows, start=1):
        values = {name: float(step) for name, given_here in zip(names, present, strict=True) if given_here}
        for name, value in values.items():
            steps.add(step, {name: value})
        if values:
            sent[step] = values
    steps.flush()
    assert dict(out) == sent
    assert len(out) == len(sent)


@given(st.lists(st.text(alphabet="ab\u00e9", min_size=1, max_size=5), max_size=20), st.integers(1, 7))
def test_a_file_is_read_whole_however_its_bytes_arrive(tmp_path_factory, lines, size):
    path = tmp_path_factory.mktemp("follow") / "log"
    follow, got = Follow(path), []
    data = "".join(f"{line}\n" for line in lines).encode()
    for start in range(0, len(data), size):
        with path.open("ab") as file:
            file.write(data[start : start + size])
        got += follow.lines()
    assert got + follow.lines(ended=True) == lines


def test_a_file_that_was_there_before_is_read_from_its_end_and_from_its_start_when_replaced(tmp_path):
    path = tmp_path / "log"
    path.write_text("head\nold\n")
    follow = Follow(path)
    assert follow.earlier() == "head\n"
    assert follow.lines() == []
    with path.open("a") as file:
        file.write("new\nunfinished")
    assert follow.lines() == ["new"]
    path.write_text("again\n")
    assert follow.lines() == ["again"]
    (tmp_path / "other").write_text("a third and longer file\n")
    (tmp_path / "other").replace(path)
    assert follow.lines(ended=True) == ["a third and longer file"]
