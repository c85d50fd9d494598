"""A config takes what it can use and says in one sentence why it does not take the rest."""

import ast
import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from llm_gym import BaseEnvironment
from llm_gym.core.splits import SPLITS
from llm_gym.errors import ConfigError, LLMGymError
from llm_gym.legacy.base import DEFAULT_MAX_STEPS
from llm_gym_agents.algo import ADVANTAGES, AGGREGATIONS, POLICY_LOSSES
from llm_gym_agents.config import (
    ConfigStore,
    EnvironmentConfig,
    TrainingConfig,
    UnknownSettingError,
    sections,
    training,
)
from llm_gym_agents.rollouts.policy import Context
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
    assert config.without_effect() == []


def test_the_defaults_can_be_trained_with_and_all_have_an_effect():
    ConfigStore().check()
    assert ConfigStore().without_effect() == []
    assert ConfigStore().diff() == {}


@pytest.mark.parametrize(
    ("section", "name", "value", "sentence"),
    [
        (
            "training",
            "learning_rate",
            -1,
            "training.learning_rate must be a number above 0, got -1",
        ),
        ("training", "learning_rate", "1e-5", "must be a number above 0, got '1e-5'"),
        ("training", "learning_rate", float("nan"), "must be a number above 0, got nan"),
        ("training", "kl_coef", float("inf"), "must be a number above 0, got inf"),
        ("training", "learning_rate", 10**400, f"must be a number above 0, got 1{'0' * 199}"),
        ("training", "learning_rate", True, "must be a number above 0, got True"),
        ("training", "learning_rate", None, "must be a number above 0, got None"),
        ("training", "batch_size", 2.0, "must be a whole number of at least 1, got 2.0"),
        ("training", "batch_size", True, "must be a whole number of at least 1, got True"),
        ("training", "batch_size", np.True_, "must be a whole number of at least 1, got"),
        ("training", "batch_size", 0, "must be a whole number of at least 1, got 0"),
        ("training", "gamma", 1.5, "must be a number of at least 0 and at most 1, got 1.5"),
        ("environment", "curriculum", 1, "must be a number above 0 and below 1 or None, got 1"),
        ("training", "whiten_advantages", 1, "must be True or False, got 1"),
        ("training", "discount", "turns", "one of token, turn, got 'turns' (did you mean 'turn'?)"),
        ("training", "adv_estimator", "grop", "got 'grop' (did you mean 'grpo'?)"),
        ("training", "policy_loss", "pppo", "one of cispo, gpg, gspo, ppo, got 'pppo' (did you"),
        ("model", "device", "gpu", "must be auto, cpu, mps, cuda or cuda with a number (cuda:1)"),
        ("model", "dtype", "float23", "got 'float23' (did you mean 'float32'?)"),
        ("model", "model_name", "  ", "must be text that is not blank, got '  '"),
        ("model", "model_name", 3, "must be text that is not blank, got 3"),
        ("environment", "env_kwargs", [1], "must be a dictionary of JSON values, got [1]"),
        ("environment", "env_kwargs", {"a": {1}}, "must be a dictionary of JSON values, got {'a'"),
        ("environment", "env_kwargs", {1: 2}, "must be a dictionary of JSON values, got {1: 2}"),
        ("environment", "train_split", "val", "must be one of train, dev, test or None, got 'val'"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_in_one_sentence(section, name, value, sentence):
    config = ConfigStore()
    with pytest.raises(ConfigError) as caught:
        setattr(getattr(config, section), name, value)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(f"{section}.{name} must be ")
    assert config == ConfigStore(), "a refused value changes nothing"


def test_what_means_the_same_is_taken_as_the_type_of_the_setting():
    config = ConfigStore()
    config.training.gamma = 1
    config.training.learning_rate = np.float32(0.5)
    config.training.batch_size = np.int64(8)
    config.training.whiten_advantages = np.False_
    config.checkpoint.output_dir = Path("runs") / "a"
    taken = (
        config.training.gamma,
        config.training.learning_rate,
        config.training.batch_size,
        config.training.whiten_advantages,
        config.checkpoint.output_dir,
    )
    assert taken == (1.0, 0.5, 8, False, "runs/a")
    assert [type(value) for value in taken] == [float, float, int, bool, str]


@pytest.mark.parametrize(
    ("section", "name", "sentence"),
    [
        ("training", "learning_rat", "has no setting 'learning_rat' (did you mean 'learning_rate'"),
        ("training", "temperature", "training has no setting 'temperature' (did you mean 'infere"),
        ("model", "lerning_rate", "(did you mean 'training.learning_rate'?)"),
        ("ray", "xyzzy", "ray has no setting 'xyzzy'"),
    ],
)
def test_a_setting_that_does_not_exist_is_refused_with_the_one_that_was_meant(
    section, name, sentence
):
    with pytest.raises(UnknownSettingError) as caught:
        setattr(getattr(ConfigStore(), section), name, 1)
    assert sentence in str(caught.value)
    with pytest.raises(UnknownSettingError) as caught:
        getattr(getattr(ConfigStore(), section), name)
    assert sentence in str(caught.value)
    assert not hasattr(getattr(ConfigStore(), section), name)


def test_a_section_that_does_not_exist_is_refused_with_what_was_meant():
    config = ConfigStore()
    with pytest.raises(
        UnknownSettingError, match=r"no section 'trainin' \(did you mean 'training'"
    ):
        config.trainin = 1
    with pytest.raises(UnknownSettingError, match=r"\(did you mean 'training.learning_rate'\?\)"):
        config.learning_rate = 1e-5
    with pytest.raises(UnknownSettingError, match="it has model, inference, warm_start, training"):
        _ = config.xyzzy
    with pytest.raises(
        ConfigError, match="must be a TrainingConfig, got dict; assign its settings"
    ):
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


def test_a_dictionary_that_was_spoilt_after_its_assignment_is_found_before_the_run():
    config = ConfigStore()
    config.environment.env_kwargs["rooms"] = object()
    with pytest.raises(ConfigError, match=r"environment.env_kwargs must be a dictionary of JSON"):
        config.check()


def test_the_environment_section_is_the_config_of_a_base_environment():
    class Maze(BaseEnvironment):
        def __init__(self, config: EnvironmentConfig) -> None:
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
    with pytest.raises(UnknownSettingError, match="environment has no setting 'rooms'"):
        Maze(ConfigStore().environment)


def test_names_that_were_copied_to_keep_the_config_light_are_those_of_the_trainer():
    assert get_args(training.Aggregation) == AGGREGATIONS
    assert get_args(sections.Split) == SPLITS
    hints = {f"{section}.{name}": hint for section, name, hint in SETTINGS}
    assert get_args(hints["inference.context"]) == get_args(Context)
    for name in ADVANTAGES.names():
        ConfigStore().training.adv_estimator = name
    for name in POLICY_LOSSES.names():
        ConfigStore().training.policy_loss = name


def test_every_setting_says_what_it_does():
    silent = []
    for module in (sections, training):
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            if isinstance(node, ast.ClassDef):
                for field, after in zip(node.body, [*node.body[1:], None], strict=True):
                    documented = isinstance(after, ast.Expr) and isinstance(
                        after.value, ast.Constant
                    )
                    if isinstance(field, ast.AnnAssign) and not documented:
                        silent.append(field.target.id)
    assert silent == []
    assert len(SETTINGS) > 60


def test_a_config_needs_no_torch():
    code = (
        "import sys; from llm_gym_agents.config import ConfigStore, parse_args; "
        "config = parse_args(['--training.learning-rate', '1e-4']); "
        "ConfigStore.from_dict(config.to_dict()); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
