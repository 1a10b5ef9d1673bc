"""What the command line says of a job's stages."""

from dataclasses import replace

from rich.console import Console

from autotune.cli.stages import stage_plan_facts
from autotune.cli.watch import Watch, progress_line
from autotune.views import StagePlanView
from tests.fakes import finished_trials, make_job, make_plan, make_stages, make_trial


def staged(**changes):
    return make_job(state="running", stage="effect", stages=make_stages(), **changes)


def test_show_lists_the_stages_with_what_each_winner_had_to_reach(cli):
    cli.service.add(staged(), finished_trials())
    shown = cli("show", "demo-1").stdout
    assert "1: fast" in shown
    assert "fast: perf/tokens_per_s >= 1.3 * default holds (default = 10, x = not measured)" in shown
    assert "effect: must reach eval/reward > 0" in shown


def test_the_trials_of_an_earlier_stage_are_shown_with_its_own_steps_and_objective(cli):
    cli.service.add(staged(), finished_trials())
    shown = cli("show", "demo-1", "--stage", "fast").stdout
    header = next(line for line in shown.splitlines() if line.startswith("trial "))
    assert "perf/tokens_per_s" in header
    assert "40/10" in shown


def test_the_log_of_a_trial_of_an_earlier_stage_is_asked_for_by_its_name(cli):
    cli.service.add(staged(), finished_trials())
    assert cli("logs", "demo-1", "--trial", "1", "--stage", "fast").exit_code == 0
    assert cli("logs", "demo-1", "--trial", "1", "--stage", "efect").exit_code == 4


def test_an_unknown_stage_is_not_found(cli):
    cli.service.add(staged(), finished_trials())
    done = cli("show", "demo-1", "--stage", "efect")
    assert done.exit_code == 4
    assert "fast, effect" in done.stderr


def test_a_job_without_stages_says_nothing_of_them(cli):
    cli.service.add(make_job(), finished_trials())
    assert "winner" not in cli("show", "demo-1").stdout


def test_the_progress_names_the_stage_and_its_place():
    assert progress_line(staged()).startswith("stage 2 of 2, effect, ")


class Client:
    def __init__(self, *looks):
        self._looks = list(looks)

    def job(self, _):
        return self._looks[0][0]

    def all_trials(self, _):
        return self._looks.pop(0)[1]


def test_watching_tells_when_a_stage_has_ended_and_counts_its_successors_trials_anew(capsys):
    first, second = make_stages()
    began = [replace(first, state="running", checks=[]), replace(second, state="queued")]
    trial = make_trial(3)
    client = Client(
        (replace(staged(), stage="fast", stages=began), [trial]),
        (staged(), [replace(trial, stage="effect")]),
    )
    watch = Watch(client, "demo-1", Console(force_terminal=False))
    watch.refresh()
    watch.refresh()
    said = capsys.readouterr().err
    assert said.count("trial 3 completed") == 2
    assert "stage fast passed with trial 3, perf/tokens_per_s 14; perf/tokens_per_s >= 1.3 * default holds" in said
    assert said.index("stage fast passed") < said.index("stage effect begins")


def test_a_plan_has_a_block_for_each_stage():
    stage = StagePlanView(
        name="fast", criteria=["loss < 1"], carry="the winner's values are fixed", on_fail="continue", plan=make_plan()
    )
    lines = [text for _, text in stage_plan_facts([stage])]
    assert lines[0] == "fast: 4 trials of 40 steps, 2 at a time"
    assert "must reach loss < 1, else it goes on all the same" in lines
    assert lines[-1] == "then the winner's values are fixed"
