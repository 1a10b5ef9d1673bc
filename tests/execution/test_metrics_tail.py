import json
import string

from hypothesis import given
from hypothesis import strategies as st

from autotune.execution.metrics_tail import CheckpointLine, Complaint, MetricsTail, StepLine, parse_line


def append(directory, text):
    with (directory / "metrics.jsonl").open("a") as file:
        file.write(text)


def step(number, **metrics):
    return json.dumps({"step": number, "time": 1.0, "metrics": metrics}) + "\n"


def test_only_what_this_attempt_appends_is_read(tmp_path):
    append(tmp_path, step(1, a=1.0))
    tail = MetricsTail(tmp_path)
    assert tail.read() == ()
    append(tmp_path, step(2, a=2.0))
    assert tail.read() == (StepLine(step=2, metrics={"a": 2.0}),)
    assert tail.read() == ()


def test_a_file_that_does_not_exist_yet_is_empty(tmp_path):
    tail = MetricsTail(tmp_path)
    assert tail.read() == ()
    append(tmp_path, step(1, a=1))
    assert tail.read() == (StepLine(step=1, metrics={"a": 1.0}),)


def test_a_partial_last_line_waits_until_it_is_complete(tmp_path):
    tail = MetricsTail(tmp_path)
    line = step(3, a=0.5)
    append(tmp_path, line[:10])
    assert tail.read() == ()
    append(tmp_path, line[10:-1])
    assert tail.read() == ()
    append(tmp_path, "\n")
    assert tail.read() == (StepLine(step=3, metrics={"a": 0.5}),)


def test_a_complete_last_line_without_its_break_counts_once_the_process_has_ended(tmp_path):
    tail = MetricsTail(tmp_path)
    append(tmp_path, step(3, a=0.5).rstrip())
    assert tail.read() == ()
    assert tail.read(ended=True) == (StepLine(step=3, metrics={"a": 0.5}),)


def test_a_line_that_an_earlier_attempt_left_half_written_swallows_nothing(tmp_path):
    append(tmp_path, '{"step": 4, "metr')
    tail = MetricsTail(tmp_path)
    append(tmp_path, step(3, a=1.0))
    assert tail.read() == (StepLine(step=3, metrics={"a": 1.0}),)


def test_values_that_are_not_finite_become_none():
    (line,) = parse_line(b'{"step": 1, "metrics": {"a": null, "b": NaN, "c": 1e999, "d": 2}, "nonfinite": ["a", "e"]}')
    assert line == StepLine(step=1, metrics={"a": None, "b": None, "c": None, "d": 2.0, "e": None})


def test_a_checkpoint_is_announced_alone_or_with_metrics():
    assert parse_line(b'{"step": 4, "checkpoint": "checkpoints/step_4"}') == (
        CheckpointLine(step=4, path="checkpoints/step_4"),
    )
    both = parse_line(b'{"step": 4, "metrics": {"a": 1}, "checkpoint": {"step": 3, "path": "checkpoints/step_3"}}')
    assert both == (StepLine(step=4, metrics={"a": 1.0}), CheckpointLine(step=3, path="checkpoints/step_3"))


def test_garbage_is_reported_and_the_rest_is_still_read(tmp_path):
    tail = MetricsTail(tmp_path)
    append(tmp_path, "oops\n[1]\n\n" + '{"step": -1}\n{"step": true}\n{"step": 1}\n{"step": 2, "metrics": 5}\n')
    append(tmp_path, '{"step": 3, "metrics": {"a": 1, "b": "x", "c": true}}\n{"step": 4, "checkpoint": 7}\n')
    lines = tail.read()
    assert [line.step for line in lines if isinstance(line, StepLine)] == [3]
    assert sum(isinstance(line, Complaint) for line in lines) == 9
    assert all(line.text for line in lines if isinstance(line, Complaint))


def test_a_file_that_shrinks_is_reported_once(tmp_path):
    tail = MetricsTail(tmp_path)
    append(tmp_path, step(1, a=1.0) + step(2, a=1.0))
    tail.read()
    (tmp_path / "metrics.jsonl").write_text(step(1, a=1.0))
    (complaint,) = tail.read()
    assert isinstance(complaint, Complaint)
    append(tmp_path, step(2, a=3.0))
    assert tail.read() == (StepLine(step=2, metrics={"a": 3.0}),)


@given(st.binary(max_size=200))
def test_no_line_whatsoever_raises(raw):
    parse_line(raw)


@given(
    cuts=st.lists(st.integers(1, 30), max_size=30),
    names=st.lists(st.text(string.ascii_letters + "/ü", min_size=1, max_size=8), min_size=1, max_size=6, unique=True),
)
def test_however_the_file_is_cut_every_step_arrives_once_and_in_order(tmp_path_factory, cuts, names):
    directory = tmp_path_factory.mktemp("tail")
    tail = MetricsTail(directory)
    steps = [StepLine(step=n, metrics={name: float(n)}) for n, name in enumerate(names)]
    data = "".join(step(line.step, **line.metrics) for line in steps).encode()
    seen = []
    for cut in [*cuts, len(data)]:
        with (directory / "metrics.jsonl").open("ab") as file:
            file.write(data[:cut])
        data = data[cut:]
        seen += tail.read()
    assert seen == steps
