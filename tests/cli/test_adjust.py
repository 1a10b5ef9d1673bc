import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from autotune.cli.adjust import adjust

SCALARS = st.one_of(st.integers(-5, 5), st.booleans(), st.text("abc: #'\"\n{}[],é", max_size=8), st.none())
KEYS = st.sampled_from(["name", "seed", "trials", "parallel", "steps", "x"])
SECTIONS = st.dictionaries(KEYS, SCALARS, max_size=4)
DOCUMENTS = st.fixed_dictionaries(
    {}, optional={"name": SCALARS, "budget": SECTIONS, "sampler": SECTIONS, "search": SECTIONS, "note": SCALARS}
)
SETTINGS = st.fixed_dictionaries(
    {
        "name": st.one_of(st.none(), st.text("ab-c:# {\"'", max_size=8)),
        "sampler.seed": st.one_of(st.none(), st.integers(0, 99)),
        "budget.trials": st.one_of(st.none(), st.integers(1, 99)),
        "budget.parallel": st.one_of(st.none(), st.integers(1, 9)),
    }
)


def expected(document, settings):
    for path, value in settings.items():
        section, _, key = path.rpartition(".")
        if value is not None and section:
            document = {**document, section: {**document.get(section, {}), key: value}}
        elif value is not None:
            document = {**document, key: value}
    return document


@given(document=DOCUMENTS, settings=SETTINGS, flow=st.sampled_from([True, False, None]))
def test_the_settings_are_set_and_nothing_else_changes(document, settings, flow):
    text = yaml.safe_dump(document, default_flow_style=flow, allow_unicode=True)
    assert yaml.safe_load(adjust(text, settings)) == expected(document, settings)


@given(document=DOCUMENTS, settings=SETTINGS)
def test_json_stays_json(document, settings):
    text = json.dumps(document, indent=1)
    assert json.loads(adjust(text, settings)) == expected(document, settings)


def test_comments_and_lines_stay_where_they_were():
    text = "# mine\nname: a  # the name\nbudget: {trials: 3, parallel: 1} # small\nsearch:\n  x: {int: [1, 2]}\n"
    new = adjust(text, {"name": "b", "budget.trials": 9, "sampler.seed": 1})
    assert new.splitlines()[:5] == [
        "# mine",
        'name: "b"  # the name',
        "budget: {trials: 9, parallel: 1} # small",
        "search:",
        "  x: {int: [1, 2]}",
    ]


def test_a_sampler_by_its_name_alone_keeps_it():
    assert yaml.safe_load(adjust("sampler: random\n", {"sampler.seed": 4})) == {
        "sampler": {"name": "random", "seed": 4}
    }


@pytest.mark.parametrize("text", ["", "- a\n", "just text", "a: [", "a: b: c"])
def test_what_is_no_mapping_is_left_for_the_service_to_report(text):
    assert adjust(text, {"name": "b", "budget.trials": 3}) == text
