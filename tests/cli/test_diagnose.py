from dataclasses import replace

from autotune.views import AdvisedView
from tests.fakes import finished_job, finished_trials


def test_a_job_is_summed_up_by_rule_with_an_example(cli):
    cli.service.add(finished_job(), finished_trials())
    done = cli("diagnose", "demo-1")
    assert done.exit_code == 0, done.stderr
    assert "kl_too_high" in done.stdout
    assert "trial 0: the KL to the reference was above 0.15" in done.stdout
    assert "trainer.optim.lr 3e-05 -> 1e-05" in done.stdout
    assert "autotune diagnose demo-1 TRIAL" in done.stderr


def test_a_trial_is_told_its_findings_changes_and_their_source(cli):
    cli.service.add(finished_job(), finished_trials())
    lines = cli("diagnose", "demo-1", "0").stdout.splitlines()
    assert lines[0].startswith("kl_too_high: the KL to the reference")
    assert lines[1] == "  try: trainer.optim.lr 3e-05 -> 1e-05"
    assert lines[2] == "  from: a guide"


def test_a_trial_that_is_not_there_exits_with_4(cli):
    cli.service.add(finished_job(), finished_trials())
    assert cli("diagnose", "demo-1", "999").exit_code == 4


def test_a_job_without_findings_says_so(cli):
    cli.service.add(finished_job(), [])
    done = cli("diagnose", "demo-1")
    assert done.exit_code == 0
    assert done.stdout == ""
    assert "nothing stands out" in done.stderr


def test_show_says_in_one_line_what_the_curves_advise(cli):
    cli.service.add(finished_job(), finished_trials())
    count = len(finished_trials())
    done = cli("show", "demo-1")
    assert f"the curves show: kl_too_high in {count} trials; what to change: autotune diagnose demo-1" in done.stderr


def test_show_says_how_often_advice_that_was_followed_helped(cli):
    advised = [
        AdvisedView(rule="kl_too_high", trials=[3, 5, 8], better=1, open=1),
        AdvisedView(rule="clip_idle", trials=[6], better=0, open=0),
    ]
    cli.service.add(finished_job(advised=advised), finished_trials())
    shown = cli("show", "demo-1").stdout
    assert (
        "advice:      1 of 3 trials from advice did better than the trial before, 1 not ended "
        "(kl_too_high 1 of 2, clip_idle 0 of 1)"
    ) in shown


def test_a_plan_says_what_advice_may_get(cli, space, monkeypatch):
    plain = cli("plan", "space.yaml").stdout
    plan = cli.service.plan
    monkeypatch.setattr(cli.service, "plan", lambda *given: replace(plan(*given), advisor_share=0.25))
    assert "advisor:     advice on finished trials gets up to 25% of the trials" in cli("plan", "space.yaml").stdout
    assert "advisor" not in plain
