"""Do the rejects of a finished run again: ``python jobs/replay_rejects.py OUTPUT --reason TIMEOUT``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

if __package__ in (None, ""):  # run as a file: the package lies beside this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from jobs.extract import guarded, run_job
from pipeline.data import RejectReason
from pipeline.errors import ConfigError
from pipeline.replay import REPLAYABLE, check_replayable, left_alone

REASONS = sorted(map(str, RejectReason))

EPILOG = """\b
Examples:
  spark-submit jobs/replay_rejects.py out/orders
  python jobs/replay_rejects.py s3a://bucket/contracts --reason TRUNCATED --reason TIMEOUT

\b
Exit codes: 0 done, 1 failed, 2 wrong usage or no run there, 3 more rejects than the run's own --max-reject-rate.
"""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("output", type=click.Path())
@click.option("--reason", "reasons", multiple=True, type=click.Choice(REASONS), help="Only these; repeatable.")
@click.option("--quiet", is_flag=True, help="No progress, no table; errors only.")
@click.option("--verbose", is_flag=True, help="Log what happens, with tracebacks.")
def main(output: str, reasons: tuple[str, ...], quiet: bool, verbose: bool) -> None:
    """Run the rejects of the run in OUTPUT again, with its own settings; all other outcomes stay as they are.

    A document that was rejected for killing the engine gets a clean record first. Rejects that no replay changes are
    told apart: the input is at fault (EMPTY_INPUT, UNDECODABLE_INPUT), or a record is there and was refused when it was
    written (UNGROUNDED, PROFILE_LOSS): then other settings help, without a GPU.
    """
    with guarded(verbose=verbose):
        from pipeline.run_folder import forget_suspects, load_run, rejects_before

        check_replayable(reasons)
        config = load_run(output)
        if config.input.path is None:
            raise ConfigError(
                f"the run in {output} was started from Python", hint="call pipeline.extract with retry_rejects=True"
            )
        if not reasons or str(RejectReason.REFUSED_BY_ENGINE) in reasons:
            forget_suspects(output)
        for line in () if quiet or reasons else left_alone(rejects_before(output)):
            click.echo(line, err=True)
        run_job(config.model_copy(update={"quiet": quiet}), retry_reasons=reasons or REPLAYABLE)


if __name__ == "__main__":
    main()
