"""A checkpoint brings everything back bit by bit, or is refused in one sentence."""

import json
import os
import shutil

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from llm_gym_agents.run.checkpoints import (
    Checkpoints,
    TrainerState,
    load_checkpoint,
    model_folder,
    restore_lm,
    save_checkpoint,
)
from llm_gym_agents.run.state import CheckpointError, Part
from tests.agents.checks import copied, is_one_line, same
from tests.agents.run.checkpoint_run import tiny_lm

IDS = torch.tensor([[1, 5, 9, 2]])


def word_tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: number for number, word in enumerate(["<end>", "go", "north", "take"])}
    made = Tokenizer(models.WordLevel(words, unk_token="<end>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")


@pytest.fixture
def place(tmp_path):
    state = TrainerState(iteration=7, parts={"note": Part(values="hello")}, success=0.5)
    return save_checkpoint(tmp_path / "here", state, lm=tiny_lm())


# --- what comes back ---------------------------------------------------------------------


def test_a_state_comes_back_as_it_was(tmp_path):
    tensors = {
        "a.b/c": torch.randn(3, 2),
        "half": torch.randn(5).to(torch.bfloat16),
        "wide": torch.randn(2, dtype=torch.float64),
        "count": torch.tensor(3),
        "bytes": torch.arange(256, dtype=torch.uint8),
        "flags": torch.tensor([True, False]),
        "none": torch.zeros(0, 4),
    }
    values = {"x": [1, 2.5, None, True, "text"], "big": 2**100, "tiny": 5e-324, "inf": float("inf")}
    state = TrainerState(
        iteration=12,
        config={"training": {"gamma": 0.1 + 0.2}},
        parts={"many": Part(tensors=tensors, values=values), "empty": Part()},
        success=1 / 3,
    )
    save_checkpoint(tmp_path / "a", state, lm=tiny_lm())
    again = load_checkpoint(tmp_path / "a")
    assert (again.iteration, again.config, again.success) == (12, state.config, 1 / 3)
    assert again.parts["many"].values == values
    assert sorted(again.parts) == ["empty", "many"]
    assert same(again.parts["many"].tensors, tensors)


def test_tensors_that_share_memory_are_saved_apart(tmp_path):
    base = torch.arange(6.0)
    part = Part(
        tensors={"whole": base, "same": base, "view": base[2:4], "turned": base.view(2, 3).T}
    )
    save_checkpoint(tmp_path / "a", TrainerState(iteration=1, parts={"p": part}), lm=tiny_lm())
    found = load_checkpoint(tmp_path / "a").parts["p"].tensors
    assert same(found, part.tensors)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tied", [True, False])
def test_the_model_loads_in_plain_transformers_and_comes_back_in_place(tmp_path, dtype, tied):
    lm = tiny_lm(tie_word_embeddings=tied).to(dtype)
    save_checkpoint(tmp_path / "a", TrainerState(iteration=1), lm=lm, tokenizer=word_tokenizer())
    state = load_checkpoint(tmp_path / "a")
    plain = AutoModelForCausalLM.from_pretrained(model_folder(state))
    assert plain.dtype == dtype
    assert torch.equal(plain(IDS).logits, lm.eval()(IDS).logits)
    tokenizer = AutoTokenizer.from_pretrained(model_folder(state))
    assert tokenizer("go north").input_ids == [1, 2]
    other = tiny_lm(seed=1, tie_word_embeddings=tied).to(dtype)
    weights = other.get_input_embeddings().weight
    restore_lm(other, state)
    assert same(dict(other.state_dict()), dict(lm.state_dict()))
    assert other.get_input_embeddings().weight is weights, "an engine holds these very weights"
    assert (other.get_output_embeddings().weight is weights) == tied


def test_nothing_is_pickled_and_file_modes_follow_the_umask(place):
    mask = os.umask(0)
    os.umask(mask)
    files = [path for path in place.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".safetensors"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o666 & ~mask}


def test_saving_changes_neither_the_model_nor_the_progress_bars(tmp_path, capfd):
    transformers_logging.enable_progress_bar()
    lm = tiny_lm()
    before = copied(lm)
    save_checkpoint(tmp_path / "a", TrainerState(iteration=1), lm=lm)
    restore_lm(lm, load_checkpoint(tmp_path / "a"))
    assert same(before, dict(lm.state_dict()))
    assert transformers_logging.is_progress_bar_enabled()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("how", ["injected", "added", "wrapped"])
def test_adapters_come_back_exactly_and_the_model_in_the_folder_is_merged(tmp_path, how):
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(
        r=2, lora_alpha=8, target_modules=["q_proj", "down_proj"], init_lora_weights=False
    )

    def adapted(seed, adapter_seed):
        lm = tiny_lm(seed)
        torch.manual_seed(adapter_seed)
        if how == "wrapped":
            return peft.get_peft_model(lm, settings)
        if how == "injected":
            return peft.inject_adapter_in_model(settings, lm)
        lm.add_adapter(settings)
        return lm

    lm = adapted(0, 1)
    before = copied(lm)
    save_checkpoint(tmp_path / "a", TrainerState(iteration=1), lm=lm)
    assert same(before, dict(lm.state_dict())), "saving changes nothing"
    state = load_checkpoint(tmp_path / "a")
    merged = AutoModelForCausalLM.from_pretrained(model_folder(state))
    assert not any("lora" in name for name in merged.state_dict())
    assert torch.allclose(merged(IDS).logits, lm.eval()(IDS).logits, atol=1e-6)
    assert not torch.allclose(merged(IDS).logits, tiny_lm(0).eval()(IDS).logits, atol=1e-3)
    loaded = peft.PeftModel.from_pretrained(tiny_lm(0), model_folder(state) / "adapter").eval()
    torch.testing.assert_close(loaded(IDS).logits, lm(IDS).logits, atol=1e-4, rtol=1e-4)
    again = adapted(0, 2)
    restore_lm(again, state)
    assert same(dict(again.state_dict()), dict(lm.state_dict()))
    with pytest.raises(CheckpointError, match="trained on"):
        restore_lm(adapted(5, 2), state)
    with pytest.raises(CheckpointError, match=r"model\.lora_rank"):
        restore_lm(tiny_lm(0), state)


def test_adapters_are_not_loaded_from_a_checkpoint_without_adapters(place):
    peft = pytest.importorskip("peft")
    lm = tiny_lm()
    lm.add_adapter(peft.LoraConfig(r=2, target_modules=["q_proj"]))
    with pytest.raises(CheckpointError, match="LoRA"):
        restore_lm(lm, load_checkpoint(place))


# --- what is refused ---------------------------------------------------------------------


def test_a_value_that_is_not_json_is_named_with_its_path(tmp_path):
    state = TrainerState(iteration=1, parts={"extra": Part(values={"a": [1, {"b": {2}}]})})
    with pytest.raises(CheckpointError, match=r"extra.a\[1\].b"):
        save_checkpoint(tmp_path / "a", state, lm=tiny_lm())
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_cut_changed_or_lost_is_named(place):
    names = ["trainer.json", "trainer.safetensors", "model/model.safetensors", "model/config.json"]
    for name in names:
        whole = (place / name).read_bytes()
        (place / name).write_bytes(whole[:-1])
        with pytest.raises(CheckpointError, match=name):
            load_checkpoint(place)
        (place / name).write_bytes(whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:])
        with pytest.raises(CheckpointError, match=name):
            load_checkpoint(place)
        (place / name).unlink()
        with pytest.raises(CheckpointError, match=name):
            load_checkpoint(place)
        (place / name).write_bytes(whole)
    assert load_checkpoint(place).iteration == 7


def test_the_error_suggests_another_checkpoint_only_if_there_is_one(place):
    (place / "trainer.json").unlink()
    with pytest.raises(CheckpointError, match="begins again"):
        load_checkpoint(place)
    shutil.copytree(place, place.with_name("before"))
    with pytest.raises(CheckpointError, match="another"):
        load_checkpoint(place)


@pytest.mark.parametrize(
    ("manifest", "what"),
    [
        ("{", "manifest.json"),
        ("[]", "manifest.json"),
        ('{"format": "llm-gym checkpoint", "schema": 2}', "manifest.json"),
        ('{"format": "other", "schema": 2, "files": {}}', "not a checkpoint"),
        ('{"format": "llm-gym checkpoint", "schema": 3, "llm_gym": "9.1"}', "schema 2"),
        ('{"format": "llm-gym checkpoint", "schema": 0}', "schema 2"),
    ],
)
def test_a_manifest_of_another_kind_is_refused(place, manifest, what):
    (place / "manifest.json").write_text(manifest)
    with pytest.raises(CheckpointError, match=what, check=is_one_line):
        load_checkpoint(place)


def test_a_folder_that_is_no_checkpoint_is_refused_and_never_overwritten(tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint"):
        load_checkpoint(tmp_path / "nothing")
    tiny_lm().save_pretrained(tmp_path / "foreign")
    with pytest.raises(CheckpointError, match="manifest"):
        load_checkpoint(tmp_path / "foreign")
    with pytest.raises(CheckpointError, match="another folder"):
        save_checkpoint(tmp_path / "foreign", TrainerState(iteration=1), lm=tiny_lm())
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CheckpointError, match="another folder"):
        save_checkpoint(tmp_path / "file", TrainerState(iteration=1), lm=tiny_lm())
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    save_checkpoint(tmp_path / "empty", TrainerState(iteration=1), lm=tiny_lm())
    assert load_checkpoint(tmp_path / "empty").iteration == 1


def test_a_checkpoint_whose_writer_died_between_two_renames_is_found_and_put_back(place):
    aside = place.with_name(".here.aside")
    place.rename(aside)
    assert load_checkpoint(place).iteration == 7
    shutil.copytree(aside, place.with_name(".here.new-abc"))
    save_checkpoint(place, TrainerState(iteration=8), lm=tiny_lm())
    assert load_checkpoint(place).iteration == 8
    assert [path.name for path in place.parent.iterdir()] == ["here"]


def test_files_of_others_beside_a_checkpoint_are_left_alone(place):
    for name in (".here.new", ".there.new-abc", "here.aside", ".hidden", ".here2.new-abc"):
        (place.parent / name).mkdir()
    save_checkpoint(place, TrainerState(iteration=8), lm=tiny_lm())
    names = {path.name for path in place.parent.iterdir()}
    assert {".here.new", ".there.new-abc", "here.aside", ".hidden", ".here2.new-abc"} < names


def saved(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_last_few_and_the_best_are_kept(tmp_path):
    kept = Checkpoints(tmp_path, keep_last_n=2)
    assert (kept.latest(), kept.best()) == (None, None)
    lm = tiny_lm()
    for iteration, success in [(1, 0.1), (2, None), (3, 0.6), (4, 0.6), (10, 0.2), (11, None)]:
        assert success is None or kept.is_best(success) == (iteration in (1, 3))
        kept.save(TrainerState(iteration=iteration, success=success), lm=lm)
    assert saved(tmp_path) == ["best-000003", "iteration-000010", "iteration-000011"]
    assert kept.latest() == tmp_path / "iteration-000011"
    assert load_checkpoint(kept.best()).success == 0.6
    fresh = Checkpoints(tmp_path, keep_last_n=1)
    assert not fresh.is_best(0.6)
    fresh.save(TrainerState(iteration=1_000_000, success=0.7), lm=lm)
    assert saved(tmp_path) == ["best-1000000", "iteration-1000000"]
    assert fresh.latest() == tmp_path / "iteration-1000000"


def test_the_best_checkpoint_has_the_highest_lower_bound_then_the_highest_success(
    tmp_path,
):
    kept, lm, best = Checkpoints(tmp_path, keep_last_n=1), tiny_lm(), []
    for iteration, success, low in [(1, 0.8, 0.7), (2, 1.0, 0.5), (3, 0.9, 0.7)]:
        found = kept.is_best(success, low)
        kept.save(TrainerState(iteration=iteration, success=success, success_low=low), lm=lm)
        best.append((found, load_checkpoint(kept.best()).iteration))
    assert best == [(True, 1), (False, 1), (True, 3)]  # a few lucky episodes are no match for many


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", "null", "pipe", '{"success": "high"}'])
def test_a_checkpoint_with_broken_values_is_never_the_best(place, text):
    (place / "trainer.json").unlink()
    if text == "pipe":
        os.mkfifo(place / "trainer.json")
    else:
        (place / "trainer.json").write_text(text)
    manifest = json.loads((place / "manifest.json").read_text())
    (place / "manifest.json").write_text(json.dumps(manifest | {"files": {}}))  # as if it were so
    whole = place.rename(place.with_name("iteration-000001"))
    assert Checkpoints(whole.parent).best() is None
    assert Checkpoints(whole.parent).is_best(0.5)
    with pytest.raises(CheckpointError, match="json is broken"):
        load_checkpoint(whole)


def test_the_best_checkpoint_is_a_hard_link(tmp_path):
    state, lm = TrainerState(iteration=1, success=0.5), tiny_lm()
    place = Checkpoints(tmp_path / "with").save(state, lm=lm)
    links = (place / "model/model.safetensors").stat().st_nlink
    assert links == 2


def test_resuming_from_an_older_checkpoint_drops_the_later_ones(tmp_path):
    kept, lm = Checkpoints(tmp_path, keep_last_n=2), tiny_lm()
    for iteration in range(1, 5):
        kept.save(TrainerState(iteration=iteration, success=iteration / 10), lm=lm)
    kept.drop_after(3)
    assert saved(tmp_path) == ["iteration-000003"]
    kept.save(TrainerState(iteration=4), lm=lm)
    assert saved(tmp_path) == ["best-000003", "iteration-000003", "iteration-000004"]


def test_names_that_only_look_like_checkpoints_are_passed_over(tmp_path):
    kept = Checkpoints(tmp_path)
    kept.save(TrainerState(iteration=1), lm=tiny_lm())
    (tmp_path / "iteration-000009").mkdir()
    (tmp_path / "iteration-last").mkdir()
    assert kept.latest() == tmp_path / "iteration-000001"
