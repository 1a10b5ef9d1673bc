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
