"""Configs go to YAML and JSON and come back; what a file says wrongly is named with the file."""

import json

import pytest

from llm_gym.errors import ConfigError
from llm_gym_agents.config import ConfigStore
from tests.agents.config.config_values import everything_changed


@pytest.mark.parametrize("name", ["run.json", "run.yaml", "run.yml"])
def test_a_config_comes_back_from_a_file_as_it_was(tmp_path, name):
    config = everything_changed()
    config.environment.env_kwargs = {"text": "grün: {yes} # no", "no": None, "on": [True, 1e-300]}
    config.training.learning_rate = 1e-5
    config.training.gamma = 0.1 + 0.2
    config.save(tmp_path / "new" / name)
    again = ConfigStore.load(tmp_path / "new" / name)
    assert again == config
    assert again.to_dict() == config.to_dict()
    assert [path.name for path in (tmp_path / "new").iterdir()] == [name]


def test_a_dictionary_is_json_and_comes_back():
    config = everything_changed()
    assert ConfigStore.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    config.to_dict()["training"]["gamma"] = 0
    config.to_dict()["environment"]["env_kwargs"]["rooms"] = 0
    assert config == everything_changed(), "the dictionary is a copy"


def test_what_a_file_leaves_out_has_its_default(tmp_path):
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
    ("name", "text", "sentence"),
    [
        ("a.yaml", "training: {lerning_rate: 1}", "no setting 'lerning_rate' (did you mean 'lear"),
        ("a.json", '{"trainin": {}}', "config has no section 'trainin' (did you mean 'training'?)"),
        ("a.json", '{"training": {"gamma": "1"}}', "training.gamma must be a number of at least 0"),
        ("a.yaml", "training: 3", "training must be a mapping of names to values, got 3"),
        ("a.yaml", "- 1", "a config must be a mapping of names to values, got [1]"),
        ("a.yaml", "training:\n  gamma: 1\n  gamma: 0", "'gamma' is there twice"),
        ("a.json", '{"training": {"gamma": 1, "gamma": 0}}', "'gamma' is there twice"),
        ("a.yaml", "training: [", "cannot read"),
        ("a.json", "{", "cannot read"),
        ("a.yaml", "model: {model_name: !!python/object:os.system x}", "cannot read"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path, name, text, sentence):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        ConfigStore.load(tmp_path / name)
    assert sentence in str(caught.value)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_of_another_kind_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*missing.yaml: .*No such file"):
        ConfigStore.load(tmp_path / "missing.yaml")
    for act in (ConfigStore.load, ConfigStore().save):
        with pytest.raises(ConfigError, match=r"must end in .json, .yaml or .yml, got 'run.toml'"):
            act(tmp_path / "run.toml")


def test_a_config_that_is_saved_again_is_never_half_there(tmp_path):
    path = tmp_path / "run.json"
    ConfigStore().save(path)
    path.parent.chmod(0o755)
    before = path.read_text()
    everything_changed().save(path)
    assert path.read_text() != before
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]
    assert path.stat().st_mode & 0o044, "readable by others, as the umask says"


def test_differences_are_told_from_any_other_config():
    base, config = everything_changed(), everything_changed()
    assert config.diff(base) == {}
    config.training.gamma = 0.125
    assert config.diff(base) == {"training": {"gamma": 0.125}}
    assert base.diff(config) == {"training": {"gamma": base.training.gamma}}


def test_settings_are_updated_from_a_dictionary_and_the_others_stay():
    config = everything_changed()
    before = config.training.learning_rate
    config.update({"training": {"gamma": 0.125}})
    assert (config.training.gamma, config.training.learning_rate) == (0.125, before)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("deep.json", '{"training": ' + "[" * 9000 + "]" * 9000 + "}", "nested too deeply"),
        ("deep.yaml", "training: " + "[" * 3000 + "]" * 3000, "nested at most 50 deep"),
        (
            "bomb.yaml",
            "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]",
            "aliases",
        ),
        ("large.json", '{"training": "' + "x" * (1 << 20) + '"}', "at most 1 MiB"),
        ("large.yaml", "# " + "x" * (1 << 20), "at most 1 MiB"),
        ("odd.yaml", "training: &a {b: *a}", "aliases"),
    ],
)
def test_a_config_of_a_stranger_is_refused_in_a_short_sentence(tmp_path, name, text, why):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=why) as caught:
        ConfigStore.load(tmp_path / name)
    assert len(str(caught.value)) < 500
