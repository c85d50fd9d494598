"""Commands that are refused."""

from llm_gym.cli import main


def refused(capsys, *arguments):
    """Run ``llm-gym`` with arguments that it must refuse; return its error, which is one line."""
    assert main(list(arguments)) == 2, arguments
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error
