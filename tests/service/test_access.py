"""Who gets in, and what a caller may do: each role against each use case, over the real store."""

import re

import pytest

from autotune.access import LOCAL, Caller, Role
from autotune.errors import (
    AutotuneError,
    ConflictError,
    NotAllowedError,
    NotFoundError,
    UnauthenticatedError,
    UsageError,
)
from autotune.service.doorkeeper import Doorkeeper
from autotune.service.service import Service
from autotune.service.spaces import resolve_document
from autotune.settings import load_settings
from autotune.views import TeamView

VIEWER = Caller(name="vera", role=Role.VIEWER, token="v")
ALICE = Caller(name="alice", role=Role.OPERATOR, team="rl", token="a")
BOB = Caller(name="bob", role=Role.OPERATOR, team="vision", token="b")
CAROL = Caller(name="carol", role=Role.OPERATOR, team="rl", token="c")
ADMIN = Caller(name="ada", role=Role.ADMIN, token="d")


@pytest.fixture
def doors(service):
    return service.access


@pytest.fixture
def admin(doors):
    return doors.issue(LOCAL, "ada", Role.ADMIN)


def test_the_door_stands_open_until_a_token_is_given_out_and_never_again(service, doors):
    assert doors.let_in(None) == LOCAL
    issued = doors.issue(LOCAL, "ada", Role.ADMIN)
    with pytest.raises(UnauthenticatedError, match="asks for a token"):
        doors.let_in(None)
    doors.revoke(LOCAL, issued.about.id)
    with pytest.raises(UnauthenticatedError, match="asks for a token"):
        Doorkeeper(service.store, service.clock).let_in(None)


def test_a_token_names_its_holder(doors, admin):
    issued = doors.issue(LOCAL, "alice", Role.OPERATOR, "rl")
    caller = doors.let_in(issued.token)
    assert (caller.name, caller.role, caller.team) == ("alice", Role.OPERATOR, "rl")
    assert not caller.is_local


def test_the_secret_is_kept_nowhere(service, doors, admin):
    secret = admin.token.rpartition("_")[2]
    data = b"".join(path.read_bytes() for path in service.settings.root.glob("autotune.db*"))
    assert admin.about.id.encode() in data
    assert secret.encode() not in data
    assert secret not in repr(doors.tokens(LOCAL))


@pytest.mark.parametrize("text", ["x", "at_", "at_000000000000_" + "A" * 43, "Bearer at_1_2", "at_1_2; drop table"])
def test_what_is_no_token_opens_nothing(doors, admin, text):
    with pytest.raises(UnauthenticatedError):
        doors.let_in(text)


def test_another_secret_with_a_right_id_opens_nothing(doors, admin):
    with pytest.raises(UnauthenticatedError, match="unknown"):
        doors.let_in(f"at_{admin.about.id}_{'A' * 43}")


def test_a_token_expires_to_the_second(service, doors, admin):
    issued = doors.issue(LOCAL, "alice", Role.OPERATOR, expires_s=60.0)
    service.clock.advance(59.0)
    doors.let_in(issued.token)
    service.clock.advance(1.0)
    with pytest.raises(UnauthenticatedError, match="has expired"):
        doors.let_in(issued.token)


def test_a_revoked_token_opens_nothing_at_once(doors, admin):
    issued = doors.issue(LOCAL, "alice", Role.OPERATOR)
    doors.let_in(issued.token)
    doors.revoke(LOCAL, issued.about.id)
    with pytest.raises(UnauthenticatedError, match="was revoked"):
        doors.let_in(issued.token)
    with pytest.raises(ConflictError, match="revoked already"):
        doors.revoke(LOCAL, issued.about.id)
    with pytest.raises(NotFoundError):
        doors.revoke(LOCAL, "nothing")


def test_the_last_use_is_remembered_by_the_minute(service, doors, admin):
    doors.let_in(admin.token)
    first = doors.tokens(LOCAL)[0].used_at
    service.clock.advance(30.0)
    doors.let_in(admin.token)
    assert doors.tokens(LOCAL)[0].used_at == first
    service.clock.advance(31.0)
    doors.let_in(admin.token)
    assert doors.tokens(LOCAL)[0].used_at == first + 61.0


def test_the_first_token_must_be_an_administrators(doors):
    with pytest.raises(ConflictError, match="no administrator yet"):
        doors.issue(LOCAL, "alice", Role.OPERATOR)
    assert not doors.shut()


def test_an_administrator_cannot_lock_everybody_out(doors, admin):
    caller = doors.let_in(admin.token)
    with pytest.raises(ConflictError, match="last token of an administrator"):
        doors.revoke(caller, admin.about.id)
    assert doors.let_in(admin.token) == caller


@pytest.mark.parametrize("name", ["", " ", "a b", "../x", "a" * 64, "é"])
def test_a_name_that_could_be_misread_is_refused(doors, name):
    with pytest.raises(UsageError, match="allowed are"):
        doors.issue(LOCAL, name, Role.ADMIN)


@pytest.mark.parametrize("caller", [VIEWER, ALICE])
def test_only_administrators_give_out_tokens_and_quotas(doors, caller):
    for act in (
        lambda: doors.issue(caller, "mallory", Role.ADMIN),
        lambda: doors.tokens(caller),
        lambda: doors.revoke(caller, "x"),
        lambda: doors.teams(caller),
        lambda: doors.put_team(caller, TeamView(name="rl")),
    ):
        with pytest.raises(NotAllowedError, match="needs the role admin"):
            act()


ACTS = {
    "pause": lambda service, job: service.pause(job),
    "resume": lambda service, job: service.resume(job),
    "stop": lambda service, job: service.stop(job),
    "cancel": lambda service, job: service.cancel(job),
    "edit": lambda service, job: service.edit(job, budget={"trials": 5}),
    "enqueue": lambda service, job: service.enqueue(job, {"lr": 1e-4}),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    ("caller", "may"), [(VIEWER, False), (BOB, False), (ALICE, True), (CAROL, True), (ADMIN, True), (LOCAL, True)]
)
def test_a_job_is_acted_on_by_its_owner_its_team_and_administrators(
    service: Service, source: str, act: str, caller: Caller, may: bool
):
    job = service.as_caller(ALICE).submit(source, "space.yaml")[0]
    assert (job.owner, job.team) == ("alice", "rl")
    before = service.events(job.id)
    if may:
        ACTS[act](service.as_caller(caller), job.id)
    else:
        with pytest.raises(NotAllowedError, match=r"needs the role operator|belongs to 'alice' of team 'rl'"):
            ACTS[act](service.as_caller(caller), job.id)
        assert service.events(job.id) == before


def test_everybody_who_gets_in_may_look(service, source):
    job = service.as_caller(ALICE).submit(source, "space.yaml")[0]
    for caller in (VIEWER, BOB):
        assert service.as_caller(caller).job(job.id).id == job.id
        assert service.as_caller(caller).plan(source, "space.yaml").name == "small"


def test_a_viewer_submits_nothing(service, source):
    with pytest.raises(NotAllowedError, match="submitting a job needs the role operator; 'vera' is viewer"):
        service.as_caller(VIEWER).submit(source, "space.yaml")
    assert service.jobs().items == []


COMMAND = """
name: own
trainer: {backend: command, command: [python3, -c, "print(1)", "{x}"], parameters: {x: 1.0},
          metrics: {read: jsonl, names: [loss]}, steps: 2}
search: {x: {float: [0.0, 1.0]}}
objective: {metric: loss, direction: minimize}
budget: {trials: 2}
"""


def own_code(source: str, line: str) -> str:
    return re.sub(r"overrides: \{", f"overrides: {{{line}, ", source)


@pytest.mark.parametrize(
    ("word", "change"),
    [
        ("command", lambda source: COMMAND),
        ("reward_functions", lambda source: own_code(source, "reward.name: null, reward.function: 'os:system'")),
        ("remote_code", lambda source: own_code(source, "reward.model.trust_remote_code: true")),
        (
            "remote_code",
            lambda source: source.replace(
                "search:", "search:\n  reward.model.trust_remote_code: {choice: [false, true]}"
            ),
        ),
    ],
)
def test_a_space_of_a_token_holder_becomes_code_only_where_the_operator_allows_it(service, source, word, change):
    space = change(source)
    with pytest.raises(NotAllowedError, match="would run") as caught:
        service.as_caller(ALICE).submit(space, "space.yaml")
    assert f"AUTOTUNE_ALLOW={word}" in caught.value.hint
    assert service.jobs().items == []
    service.submit(space, "space.yaml")
    service.settings = service.settings.model_copy(update={"allow": word})
    assert service.as_caller(ALICE).submit(space.replace("name: ", "name: x", 1), "space.yaml")[1]


@pytest.mark.parametrize(
    "search",
    [{"reward.model.trust_remote_code": {"choice": [False, True]}}, {"model.path": {"choice": ["tiny", "/etc/model"]}}],
)
def test_a_changed_space_becomes_no_code_and_reads_no_file_either(service, source, search):
    job, _ = service.as_caller(ALICE).submit(source, "space.yaml")
    service.as_caller(ALICE).cancel(job.id)
    before = service.document(job.id)
    with pytest.raises(NotAllowedError, match=r"of its own|of the service's machine"):
        service.as_caller(ALICE).edit_space(job.id, search)
    assert service.document(job.id) == before


FILES = "data: jsonl, data.train_file: {}, reward: exact_match, model: smollm2"


@pytest.mark.parametrize(
    "line",
    [
        FILES.format("/etc/passwd"),
        FILES.format("../../home/secret.jsonl"),
        FILES.format("~/secret.jsonl"),
        FILES.format("FREE/../secret.jsonl"),
        FILES.format("FREE/link/secret.jsonl"),
        FILES.format("train.jsonl") + ", data.eval_file: /var/secret.jsonl",
        "data: digits, model: hf, model.path: /srv/models/x",
        "data: digits, model: tiny, reward.model.path: /srv/models/x, reward.name: null",
    ],
)
def test_a_space_of_a_token_holder_reads_files_only_where_the_operator_allows_it(service, source, tmp_path, line):
    free, secret = tmp_path / "free", tmp_path / "private"
    free.mkdir()
    secret.mkdir()
    (free / "link").symlink_to(secret)
    service.settings = service.settings.model_copy(update={"allow_paths": str(free)})
    space = source.replace("{data: digits, model: tiny}", "{" + line.replace("FREE", str(free)) + "}")
    for ask in (service.as_caller(ALICE).submit, service.as_caller(ALICE).plan):
        with pytest.raises(NotAllowedError, match="reads files of the service's machine") as caught:
            ask(space, "space.yaml")
        assert str(free) in str(caught.value)
    assert service.jobs().items == []


@pytest.mark.parametrize("file", ["FREE/train.jsonl", "train.jsonl", "sub/train.jsonl"])
def test_what_lies_inside_may_be_read(service, source, tmp_path, file):
    service.settings = service.settings.model_copy(update={"allow_paths": f"/nowhere:{tmp_path}"})
    space = source.replace("{data: digits, model: tiny}", "{" + FILES.format(file.replace("FREE", str(tmp_path))) + "}")
    assert service.as_caller(ALICE).submit(space, "space.yaml")[1]


@pytest.mark.parametrize(
    "value", ["${oc.env:AUTOTUNE_SECRET}", "${oc.env:AUTOTUNE_SECRET,x}", "a${oc.env:AUTOTUNE_SECRET}"]
)
@pytest.mark.parametrize("key", ["model.path", "data.train_files", "reward.function"])
def test_no_value_of_a_space_reads_the_environment(service, source, monkeypatch, key, value):
    monkeypatch.setenv("AUTOTUNE_SECRET", "hunter2")
    said = []
    try:
        job, _ = service.submit(own_code(source, f'{key}: "{value}"'), "space.yaml")
        document = service.document(job.id)
        said += [document, resolve_document(document, "x").base]
    except AutotuneError as error:
        said += [error, error.hint, error.problems]
    assert said
    assert "hunter2" not in str(said)


def test_no_value_of_a_space_builds_an_object(service, source):
    with pytest.raises(AutotuneError):
        service.submit(own_code(source, "model.path: {_target_: os.system, command: ls}"), "space.yaml")
    assert service.jobs().items == []


def test_an_unknown_word_of_the_operator_is_refused(monkeypatch):
    monkeypatch.setenv("AUTOTUNE_ALLOW", " command, verl ,")
    assert load_settings().allowed == {"command", "verl"}
    monkeypatch.setenv("AUTOTUNE_ALLOW", "comand")
    with pytest.raises(UsageError, match=r"AUTOTUNE_ALLOW: .*'comand' is unknown; allowed are command, verl, remote"):
        load_settings()
