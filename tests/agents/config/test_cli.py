"""Every setting is on the command line, on top of whatever config a recipe gives."""

import json

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym_agents.config import ConfigStore, parse_args
from tests.agents.checks import is_one_line
from tests.agents.config.config_values import SETTINGS, everything_changed


def words(section, name, value):
    """Return what somebody types to set a setting."""
    flag = name.replace("_", "-")
    default = getattr(getattr(ConfigStore(), section), name)
    if isinstance(value, bool) and isinstance(default, bool):
        return [f"--{section}.{flag}" if value else f"--{section}.no-{flag}"]
    if isinstance(value, dict):
        pairs = ((key, v if isinstance(v, str) else json.dumps(v)) for key, v in value.items())
        return [f"--{section}.{flag}", *(f"{key}={text}" for key, text in pairs)]
    if isinstance(value, list):
        return [f"--{section}.{flag}", *map(str, value)]
    return [f"--{section}.{flag}", str(value)]


def test_every_setting_can_be_typed():
    config = everything_changed()
    typed = [
        word
        for section, name in SETTINGS
        for word in words(section, name, getattr(getattr(config, section), name))
    ]
    assert parse_args(typed) == config


def test_none_can_be_typed_and_other_settings_come_from_the_base():
    base = everything_changed()
    assert parse_args(["--training.importance-cap", "None"], base).training.importance_cap is None
    assert parse_args(["--training.loss-agg", "None"], base).training.loss_agg is None
    base = everything_changed()
    config = parse_args(["--training.learning-rate", "3e-4"], base)
    assert base == everything_changed()
    assert config.diff(base) == {"training": {"learning_rate": 3e-4}}
    config.environment.env_kwargs["rooms"] = 99
    assert base == everything_changed()


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (["--training.learning-rate", "-1"], "training.learning_rate must be "),
        (["--training.lerning-rate", "1"], "did you mean --training.learning-rate?"),
        (["--training.gamma"], "--training.gamma"),
        (["--ray.use-ray", "yes"], "yes"),
        (["--training.adv-estimator", "grop"], "did you mean 'grpo'?"),
        (["--training.lr-schedule", "falls"], "falls"),
        (["--training.batch-size", "many"], "training.batch_size must be a whole number"),
        (["--training.learning-rate", "high"], "training.learning_rate must be a number"),
        (["--epochs", "3"], "--training.num-epochs"),
        (["--training.lr", "1"], "did you mean --training.learning-rate?"),
        (["--environment.timout", "1"], "did you mean --environment.timeout?"),
        (["--environment.gamma", "1"], "did you mean --training.gamma?"),
        (["--set", "rooms=8"], "--environment.env-kwargs"),
        (["rooms=8"], "--environment.env-kwargs"),
        (["--training.clip-ratio", "none"], "training.clip_ratio must be a number or None"),
        (["--training.lr-schedule", "linaer"], "did you mean 'linear'?"),
        (["--gpus", "2"], "torchrun"),
        (["--environment.env-kwargs", "rooms"], "kwargs: a setting must be NAME=VALUE"),
        (["--environment.env-kwargs", "=3"], "kwargs: a setting must be NAME=VALUE"),
    ],
)
def test_a_wrong_argument_gives_a_one_line_error_with_a_reason(capsys, typed, sentence):
    with pytest.raises(ConfigError, check=is_one_line) as caught:
        parse_args(typed)
    assert sentence in str(caught.value)
    assert str(caught.value).endswith("--help-settings lists every setting")
    assert capsys.readouterr() == ("", ""), "the caller prints the error"


def test_help_shows_every_setting_with_the_default_of_the_base(capsys):
    base = ConfigStore()
    base.training.learning_rate = 0.123
    with pytest.raises(SystemExit) as ended:
        parse_args(["--help"], base)
    assert ended.value.code == 0
    page = capsys.readouterr().out
    assert "usage: llm-gym train" in page
    assert "0.123" in page
    missing = [n for s, n in SETTINGS if f"--{s}.{n}".replace("_", "-") not in page]
    assert missing == []
