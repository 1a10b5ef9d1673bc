from pathlib import Path

from tests.fakes import finished_job, finished_trials


def test_the_command_goes_to_stdout_and_what_to_look_at_to_stderr(cli):
    cli.service.add(finished_job(), finished_trials())
    done = cli("export", "demo-1")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "python -m trainer lr=1e-4\n"
    assert "warning: look at it." in done.stderr


def test_it_is_written_to_a_file_and_the_file_is_named(cli):
    cli.service.add(finished_job(), finished_trials())
    done = cli("export", "demo-1", "--to", "yaml", "--trial", "0", "--output", "best.yaml")
    assert done.stdout.strip() == str(Path("best.yaml").absolute())
    assert Path("best.yaml").read_text() == "python -m trainer lr=1e-4\n"
    refused = cli("export", "demo-1", "-o", "nowhere/best.yaml")
    assert refused.exit_code == 6
    assert "--output" in refused.stderr


def test_an_unknown_form_job_or_trial_has_its_exit_code(cli):
    cli.service.add(finished_job(), finished_trials())
    assert cli("export", "demo-1", "--to", "toml").exit_code == 2
    assert cli("export", "demo-9").exit_code == 4
    assert cli("export", "demo-1", "--trial", "99").exit_code == 4


def test_over_a_real_connection_it_is_the_same(remote):
    remote.service.add(finished_job(), finished_trials())
    done = remote("export", "demo-1", "--to", "verl")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "python -m trainer lr=1e-4\n"
