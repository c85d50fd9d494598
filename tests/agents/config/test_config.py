"""A config takes what it can use and names the setting that it cannot."""

import copy
import importlib.util
import json
import pickle
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from llm_gym import BaseEnvironment
from llm_gym.core.errors import ConfigError, LLMGymError
from llm_gym.core.legacy import DEFAULT_MAX_STEPS
from llm_gym.core.splits import SPLITS
from llm_gym_agents.algo import ADVANTAGES, AGGREGATIONS, POLICY_LOSSES
from llm_gym_agents.config import (
    ConfigStore,
    EnvConfig,
    TrainingConfig,
    UnknownSettingError,
)
from llm_gym_agents.config.rules import unused_settings
from llm_gym_agents.config.schema import SECTIONS
from llm_gym_agents.config.value_types import ESTIMATORS, LOSSES, Aggregation, Split
from llm_gym_agents.text.chat import Context
from tests.agents.checks import is_one_line
from tests.agents.config.config_values import SETTINGS, everything_changed


def test_the_quick_start_works():
    config = ConfigStore()
    config.model.model_name = "meta-llama/Llama-2-7b-hf"
    config.model.dtype = "bfloat16"
    config.inference.backend = "vllm"
    config.inference.max_tokens = 256
    config.inference.temperature = 0.7
    config.training.learning_rate = 1e-5
    config.training.num_epochs = 10
    config.training.batch_size = 32
    config.training.clip_ratio = 0.2
    config.checkpoint.output_dir = "./checkpoints"
    config.checkpoint.save_interval = 5
    config.check()
    assert unused_settings(config, config.diff()) == []


def test_the_defaults_can_be_trained_with_and_all_have_an_effect():
    ConfigStore().check()
    assert unused_settings(ConfigStore(), {}) == []
    assert ConfigStore().diff() == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("training.learning_rate", value) for value in (-1, "1e-5", 10**400, True, None)),
        *(("training.kl_coef", value) for value in (float("nan"), float("inf"))),
        *(("training.batch_size", value) for value in (2.0, True, np.True_, 0)),
        ("training.gamma", 1.5),
        ("environment.stop_at_success", 1.5),
        ("training.normalise_values", 1),
        ("model.device", "gpu"),
        *(("model.model_name", value) for value in ("  ", 3)),
        *(("environment.env_kwargs", value) for value in ([1], {"a": {1}}, {1: 2})),
        ("environment.train_split", "val"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_in_one_sentence(name, value):
    config = ConfigStore()
    section, setting = name.split(".")
    with pytest.raises(ConfigError, check=is_one_line) as caught:
        setattr(getattr(config, section), setting, value)
    assert str(caught.value).startswith(f"{name} must be ")
    assert len(str(caught.value)) < 400
    assert config == ConfigStore(), "a refused value changes nothing"


def test_equal_values_are_converted_to_the_type_of_the_setting():
    config = ConfigStore()
    config.training.gamma = 1
    config.training.learning_rate = np.float32(0.5)
    config.training.batch_size = np.int64(8)
    config.training.normalise_values = np.False_
    config.checkpoint.output_dir = Path("runs") / "a"
    training = config.training
    taken = (training.gamma, training.learning_rate, training.batch_size)
    taken += (training.normalise_values, config.checkpoint.output_dir)
    assert taken == (1.0, 0.5, 8, False, "runs/a")
    assert [type(value) for value in taken] == [float, float, int, bool, str]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("training.learning_rat", "'learning_rate'"),
        ("training.temperature", "'inference.temperature'"),
        ("model.lerning_rate", "'training.learning_rate'"),
        ("ray.xyzzy", ""),
    ],
)
def test_a_setting_that_does_not_exist_is_refused_with_the_one_that_was_meant(name, meant):
    section, setting = name.split(".")
    own = getattr(ConfigStore(), section)
    for act in (
        lambda: setattr(own, setting, 1),
        lambda: getattr(own, setting),
        lambda: SECTIONS[section](**{setting: 1}),
    ):
        with pytest.raises(UnknownSettingError) as caught:
            act()
        assert meant in str(caught.value)
        assert repr(setting) in str(caught.value)
    assert not hasattr(own, setting)


def test_a_section_that_does_not_exist_is_refused_with_what_was_meant():
    config = ConfigStore()
    with pytest.raises(UnknownSettingError, match="did you mean 'training'"):
        config.trainin = 1
    with pytest.raises(UnknownSettingError, match=r"did you mean 'training.learning_rate'"):
        config.learning_rate = 1e-5
    with pytest.raises(UnknownSettingError, match="model, inference, warm_start, training"):
        _ = config.xyzzy
    with pytest.raises(ConfigError, match="TrainingConfig, got dict"):
        config.training = {"learning_rate": 1}
    config.training = TrainingConfig(learning_rate=1)
    assert config.diff() == {"training": {"learning_rate": 1.0}}


def test_errors_are_those_of_llm_gym_and_survive_a_process_boundary():
    with pytest.raises(UnknownSettingError) as caught:
        ConfigStore().training.lerning_rate = 1
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, LLMGymError)
    assert isinstance(again, ValueError)
    assert str(again) == str(caught.value)


def test_configs_copy_pickle_compare_and_share_nothing():
    config = everything_changed()
    for same in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert same == config
        same.training.learning_rate = 123
        same.environment.env_kwargs["rooms"] = 99
        assert same != config
    assert ConfigStore() == ConfigStore()
    ConfigStore().environment.env_kwargs["rooms"] = 1
    assert ConfigStore().environment.env_kwargs == {}
    given = {"rooms": [1]}
    config.environment.env_kwargs = given
    given["rooms"].append(2)
    assert config.environment.env_kwargs == {"rooms": [1]}


def test_configs_survive_to_dict_and_updates_leave_other_settings_alone():
    config = everything_changed()
    assert ConfigStore.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    config.to_dict()["training"]["gamma"] = 0
    config.to_dict()["environment"]["env_kwargs"]["rooms"] = 0
    assert config == everything_changed(), "the dictionary is a copy"
    base, config = everything_changed(), everything_changed()
    assert config.diff(base) == {}
    config.update({"training": {"gamma": 0.125}})
    assert config.diff(base) == {"training": {"gamma": 0.125}}
    assert base.diff(config) == {"training": {"gamma": base.training.gamma}}


def test_the_environment_section_is_the_config_of_a_base_environment():
    class Maze(BaseEnvironment):
        def __init__(self, config: EnvConfig) -> None:
            super().__init__(config)
            self.rooms = config.rooms

        def reset(self):
            return f"{self.rooms} rooms"

        def step(self, action):
            return "", 0.0, True, {}

        def get_state_description(self):
            return ""

    config = ConfigStore()
    config.environment.max_steps = 7
    config.environment.env_kwargs = {"rooms": 4}
    env = Maze(config.environment)
    assert (env.max_steps, env.reset()) == (7, "4 rooms")
    assert ConfigStore().environment.max_steps == DEFAULT_MAX_STEPS
    with pytest.raises(UnknownSettingError, match="'rooms'"):
        Maze(ConfigStore().environment)


def test_names_that_were_copied_to_keep_the_config_light_are_those_of_the_trainer():
    assert get_args(Aggregation) == AGGREGATIONS
    assert get_args(Split) == SPLITS
    assert get_args(SECTIONS["inference"].model_fields["context"].annotation) == get_args(Context)
    assert set(ESTIMATORS) <= set(ADVANTAGES.names())  # other tests may have added some
    assert set(LOSSES) <= set(POLICY_LOSSES.names())


def test_the_page_of_settings_is_current_and_each_has_a_meaning_and_a_user():
    folder = Path(__file__).parents[3] / "docs"
    spec = importlib.util.spec_from_file_location("draw_settings", folder / "draw_settings.py")
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    assert (folder / "settings.md").read_text() == draw.page(), "run docs/draw_settings.py"
    for section, name in SETTINGS:
        assert SECTIONS[section].model_fields[name].description, f"{section}.{name}"
        assert draw.users_of(section, name), f"{section}.{name}"
    assert 60 < len(SETTINGS) <= 87


@pytest.mark.parametrize("name", ["run.json", "run.yaml", "run.yml"])
def test_a_config_comes_back_from_a_file_as_it_was(tmp_path, name):
    path = tmp_path / "new" / name
    ConfigStore().save(path)
    config = everything_changed()
    config.environment.env_kwargs = {"text": "grün: {yes} # no", "no": None, "on": [True, 1e-300]}
    config.training.learning_rate = 1e-5
    config.training.gamma = 0.1 + 0.2
    config.save(path)
    again = ConfigStore.load(path)
    assert again == config
    assert again.to_dict() == config.to_dict()
    assert [each.name for each in path.parent.iterdir()] == [name]
    assert path.stat().st_mode & 0o044, "readable by others"


def test_settings_missing_in_a_file_have_their_defaults(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("training:\n  learning_rate: 3e-4\n  warmup_iters: 1_0\nmodel: {}\n")
    assert ConfigStore.load(path).diff() == {
        "training": {"learning_rate": 3e-4, "warmup_iters": 10}
    }
    path.write_text("")
    assert ConfigStore.load(path) == ConfigStore()


@pytest.mark.parametrize("number", ["1e-5", "1E-5", "+1e-5", ".1e-4", "1.e-5", "1.0e-5", "0.00001"])
def test_yaml_numbers_with_exponents_are_numbers(tmp_path, number):
    path = tmp_path / "run.yaml"
    path.write_text(f"training: {{learning_rate: {number}}}\nmodel: {{model_name: e5-1e}}\n")
    assert ConfigStore.load(path).training.learning_rate == pytest.approx(1e-5)


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("a.yaml", "training: {lerning_rate: 1}", "'learning_rate'"),
        ("a.json", '{"trainin": {}}', "'training'"),
        ("a.json", '{"training": {"gamma": "1"}}', "training.gamma"),
        ("a.yaml", "training: 3", "training must be a mapping"),
        ("a.yaml", "- 1", "must be a mapping"),
        ("a.yaml", "training:\n  gamma: 1\n  gamma: 0", "'gamma' is there twice"),
        ("a.json", '{"training": {"gamma": 1, "gamma": 0}}', "'gamma' is there twice"),
        ("a.yaml", "training: [", "cannot read"),
        ("a.json", "{", "cannot read"),
        ("a.yaml", "model: {model_name: !!python/object:os.system x}", "cannot read"),
        ("a.json", '{"training": ' + "[" * 200_000 + "]" * 200_000 + "}", "nested too deeply"),
        ("a.yaml", "training: " + "[" * 3000 + "]" * 3000, "nested too deeply"),
        ("a.yaml", "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]", "aliases"),
        ("a.yaml", "training: &a {b: *a}", "aliases"),
        ("a.json", '{"training": "' + "x" * (1 << 20) + '"}', "at most 1 MiB"),
        ("a.yaml", "# " + "x" * (1 << 20), "at most 1 MiB"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path, name, text, named):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, check=is_one_line) as caught:
        ConfigStore.load(tmp_path / name)
    assert named in str(caught.value)
    assert name in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_missing_file_or_an_unknown_extension_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"missing\.yaml"):
        ConfigStore.load(tmp_path / "missing.yaml")
    for act in (ConfigStore.load, ConfigStore().save):
        with pytest.raises(ConfigError, match=r"run\.toml"):
            act(tmp_path / "run.toml")


def test_a_file_that_is_not_there_is_told_without_a_number(tmp_path):
    with pytest.raises(ConfigError, match=r"^there is no file .*nofile\.yaml$"):
        ConfigStore.load(tmp_path / "nofile.yaml")
