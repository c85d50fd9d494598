"""Configs go to YAML and JSON and come back; what a file says wrongly is named with the file."""

import pytest

from llm_gym.core.errors import ConfigError
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
    with pytest.raises(ConfigError) as caught:
        ConfigStore.load(tmp_path / name)
    assert named in str(caught.value)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_file_that_is_not_there_or_of_another_kind_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"missing\.yaml"):
        ConfigStore.load(tmp_path / "missing.yaml")
    for act in (ConfigStore.load, ConfigStore().save):
        with pytest.raises(ConfigError, match=r"run\.toml"):
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
