import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.spec.document import MAX_BYTES, read_document
from autotune.spec.nodes import places, plain

_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcxyz._-", min_size=1, max_size=6), inner),
    max_leaves=12,
)


def read(text):
    table, problems = read_document(text, "f.yaml")
    return (None if table is None else plain(table)), problems


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), _json, min_size=1))
def test_json_is_read_as_it_is(document):
    import json

    assert read(json.dumps(document, indent=1)) == (document, [])


def test_numbers_and_words_follow_yaml_1_2():
    text = "a: [1e-6, 5e-7, 1E3, .5, 5., 0x10, -3]\non: [yes, off, 12:30, 2020-01-01, 1_000]\nn: [null, ~, ]\nt: true"
    value, problems = read(text)
    assert problems == []
    assert value == {
        "a": [1e-6, 5e-7, 1000.0, 0.5, 5.0, 16, -3],
        "on": ["yes", "off", "12:30", "2020-01-01", "1_000"],
        "n": [None, None],
        "t": True,
    }


def test_every_key_and_value_knows_its_place():
    table, _ = read_document("a: 1\nb:\n  c: [x, {d: 2}]\n", "f.yaml")
    marks = dict(places(table))
    assert marks["a"] == ("f.yaml", 1, 1)
    assert marks["a:"] == ("f.yaml", 1, 4)
    assert marks["b.c"] == ("f.yaml", 3, 3)
    assert marks["b.c[1].d"] == ("f.yaml", 3, 11)
    assert marks["b.c[1].d:"] == ("f.yaml", 3, 14)


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join('*' + below for _ in range(9))}]\n"
    for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a: 1\nb: 2\na: 3", 3, 1, "'a' is given twice; the first one stands on line 1"),
        ("a:\n\tb: 1", 2, 1, "tabs"),
        ("a: [1, 2", 1, 9, "not valid YAML"),
        ("a: b: c", 1, 5, "not valid YAML"),
        ("", 1, 1, "empty"),
        ("# nothing\n", 1, 1, "empty"),
        ("- a\n- b", 1, 1, "mapping of keys"),
        ("a: 1\n---\nb: 2", 2, 1, "single document"),
        ("a: 1\nx: !!python/object/apply:os.system [id]", 2, 4, "not allowed"),
        ("a: &x [*x]", 1, 4, "alias to itself"),
        ("? [a]\n: b", 1, 3, "a key must be a word"),
        ("a: .inf", 1, 4, "not a finite number"),
        ("a: " + "9" * 5000, 1, 4, "too large"),
        ("a: 1e999", 1, 4, "not a finite number"),
        ("a: 1\nb: \x07", 2, 4, "not allowed"),
        ("[" * 500, 1, 21, "20 levels deep"),
        ("a: !!int abc", 1, 4, "not a number"),
    ],
)
def test_a_document_that_cannot_be_used_says_where(text, line, column, words):
    _, problems = read(text)
    assert (problems[0].file, problems[0].line) == ("f.yaml", line)
    assert problems[0].column == column or "levels" in words
    assert words in problems[0].message + problems[0].hint


def test_aliases_work_but_cannot_explode():
    assert read("a: &x [1, 2]\nb: *x")[0] == {"a": [1, 2], "b": [1, 2]}
    _, problems = read(BOMB)
    assert any("expands to more than" in problem.message for problem in problems)
    assert len(problems) == 1


def test_a_huge_file_is_refused_unread():
    _, problems = read("a: " + "x" * MAX_BYTES)
    assert "128 KiB" in problems[0].message


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text):
    table, problems = read_document(text, "f.yaml")
    assert table is not None or problems
