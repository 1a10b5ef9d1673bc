import jsonschema
import pytest
import yaml

from autotune.errors import InvalidSpaceError
from autotune.spec.json_schema import space_schema
from autotune.spec.loader import load_space
from autotune.spec.types import AdvisorSpec


def problems(text):
    with pytest.raises(InvalidSpaceError) as caught:
        load_space(text)
    return "\n".join(str(problem) for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("written", "share"),
    [("enqueue", 0.25), ({"enqueue": {}}, 0.25), ({"enqueue": {"share": 0.1}}, 0.1)],
)
def test_an_advisor_is_read_and_meets_the_schema(text, written, share):
    document = text(advisor=written)
    assert load_space(document).advisor == AdvisorSpec(share=share)
    jsonschema.validate(yaml.safe_load(document), space_schema())


def test_without_the_key_no_advice_is_followed(text):
    assert load_space(text()).advisor is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"advisor": "enqueu"}, ["advisor", "enqueue"]),
        ({"advisor": True}, ["advisor", "enqueue"]),
        ({"advisor": ["enqueue"]}, ["advisor"]),
        ({"advisor": {}}, ["advisor", "enqueue"]),
        ({"advisor": {"enqeue": {}}}, ["'enqeue'", "enqueue"]),
        ({"advisor": {"enqueue": {"share": 0}}}, ["share", "above 0"]),
        ({"advisor": {"enqueue": {"share": 1.1}}}, ["share", "at most 1"]),
        ({"advisor": {"enqueue": {"part": 0.1}}}, ["'part'", "share"]),
        ({"advisor": "enqueue", "strategy": {"pbt": {"interval": 5}}}, ["population", "Remove `advisor`"]),
    ],
)
def test_what_does_not_work_is_said_with_its_fix(text, changes, words):
    said = problems(text(**changes))
    assert all(word in said for word in words), said


def test_each_stage_has_an_advisor_of_its_own(text):
    stage = {"budget": {"trials": 4}, "objective": {"metric": "eval/reward"}, "search": {"lr": {"float": [1e-6, 1e-5]}}}
    stages = [{"name": "a", "advisor": "enqueue", **stage}, {"name": "b", **stage}]
    space = load_space(yaml.safe_dump({"name": "two", "stages": stages}))
    assert [one.space.advisor for one in space.stages] == [AdvisorSpec(), None]
    beside = yaml.safe_dump({"name": "two", "advisor": "enqueue", "stages": stages})
    assert "advisor" in problems(beside)
