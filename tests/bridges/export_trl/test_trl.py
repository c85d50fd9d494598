"""TRL trains on environments of ours."""

import math
import sys

import pytest

pytest.importorskip("trl", reason="needs trl: make test-exports")
pytest.importorskip("datasets", reason="needs datasets: make test-exports")
from trl import GRPOConfig, GRPOTrainer

from llm_gym.core.errors import ConfigError
from llm_gym_agents.export.trl import TRLGame, environment_factory
from tests.agents.tiny import tiny_model, tiny_tokenizer

ECHO = "llm_gym/Echo-v0"


def settings(folder, **more):
    return GRPOConfig(
        output_dir=str(folder), per_device_train_batch_size=4, num_generations=4, max_steps=2,
        max_completion_length=48, logging_steps=1, report_to=[], use_cpu=True, bf16=False,
        save_strategy="no", learning_rate=1e-2, seed=0, **more,
    )  # fmt: skip


def logged(trainer, name):
    return [row[name] for row in trainer.state.log_history if name in row]


def test_two_steps_of_grpo_on_a_game_with_a_loss_and_a_reward(tmp_path, capsys):
    tokenizer = tiny_tokenizer()
    game = TRLGame("llm_gym/GuessTheNumber-v0", max_turns=3, penalty=0.25)
    played = []

    def rollout(prompts, trainer):
        played.append(game.rollout_func(prompts, trainer))
        return played[-1]

    trainer = GRPOTrainer(
        model=tiny_model(vocab_size=len(tokenizer)),
        processing_class=tokenizer,
        reward_funcs=game.reward_func,
        rollout_func=rollout,
        train_dataset=game.dataset(range(8)),
        args=settings(tmp_path),
    )
    before = [weight.detach().clone() for weight in trainer.model.parameters()]
    trainer.train()
    losses, rewards = logged(trainer, "loss"), logged(trainer, "reward")
    with capsys.disabled():
        sys.stdout.write(f"\nTRL, two steps: loss {losses}, reward {rewards}\n")
    assert len(losses) == len(rewards) == 2
    assert all(map(math.isfinite, losses + rewards))
    # A tiny random model writes nothing usable: each unusable reply costs a quarter.
    assert all(-0.75 <= reward <= 1.0 for reward in rewards)
    assert rewards[0] == pytest.approx(sum(played[0]["env_reward"]) / 4)
    moved = any(
        (one != other).any() for one, other in zip(before, trainer.model.parameters(), strict=True)
    )
    assert moved == any(len(set(batch["env_reward"])) > 1 for batch in played)
    for batch in played:
        for ids, mask, turns in zip(
            batch["completion_ids"], batch["env_mask"], batch["env_turns"], strict=True
        ):
            assert len(ids) == len(mask)
            assert 1 <= turns <= 3
            assert mask[0] == 1
            assert (0 in mask) == (turns > 1 or mask[-1] == 0)


def test_a_group_plays_the_seed_of_its_prompt():
    game = TRLGame("llm_gym/GuessTheNumber-v0", max_turns=2)
    data = game.dataset([5, 9])
    assert [row["prompt"][-1]["seed"] for row in data] == [5, 9]
    assert data[0]["prompt"][-1]["content"] == data[1]["prompt"][-1]["content"]
    tokenizer = tiny_tokenizer()

    class Scripted:
        processing_class, max_completion_length = tokenizer, 10_000

        def _generate_single_turn(self, prompts, images, fields, n):
            return [tokenizer.encode("3<|im_end|>") for _ in prompts], None

    prompts = [data[0]["prompt"]] * 2 + [data[1]["prompt"]] * 2
    played = game.rollout_func(prompts, Scripted())
    assert played["completion_ids"][0] == played["completion_ids"][1]
    assert played["logprobs"] is None
    assert game.reward_func(**played) == played["env_reward"]
    with pytest.raises(ConfigError, match="dataset"):
        game.rollout_func(["a text"], Scripted())


def test_the_environment_of_a_factory_is_a_tool_with_a_reward_of_its_own():
    env = environment_factory("llm_gym/GuessTheNumber-v0")()
    assert "from 1 to 20" in env.reset(seed=3, prompt="unused")
    assert "higher or lower" not in env.play("a cat")
    assert env.get_reward() == 0.0
    assert env.play("2") == "Yes, the number is 2."
    assert (env.get_reward(), env.play("3")) == (1.0, "The episode is over.")
    env.reset(seed=4)
    assert env.get_reward() == 0.0


def test_two_steps_of_grpo_with_an_environment_factory(tmp_path):
    from trl.chat_template_utils import qwen3_chat_template

    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = qwen3_chat_template
    trainer = GRPOTrainer(
        model=tiny_model(vocab_size=len(tokenizer), max_position_embeddings=4096),
        processing_class=tokenizer,
        environment_factory=environment_factory(ECHO),
        train_dataset=TRLGame(ECHO).dataset(range(8)).remove_columns("split"),
        args=settings(tmp_path),
    )
    trainer.train()
    assert len(logged(trainer, "loss")) == 2
    assert logged(trainer, "reward") == [0.0, 0.0]  # it never calls the tool
