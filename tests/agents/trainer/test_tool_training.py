"""Training with tools: the tokens of a call are trained on, those of its result never are."""

import copy
import functools

import pytest
import torch

from llm_gym.core.env import TextEnv
from llm_gym.core.outcome import go_on, lose, reject, win
from llm_gym.tools import Tool, ToolDefinition
from llm_gym.wrappers import ToolUse
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.learn.imitation import Example, imitate
from llm_gym_agents.model.load import tiny_llama
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.rollouts.rollout_data import assemble
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.text.tokenizers import word_tokenizer

COLOURS = ("red", "green", "blue", "white")
QUESTION = "Which colour ?"
CALL = "Action : peek"
REPLIES = (CALL, *(f"Action : {colour}" for colour in COLOURS))


class ColourEnv(TextEnv):
    """Name the hidden colour: a guess without the tool, certain with it."""

    max_turns = 2
    has_splits = False

    def new_game(self, rng):
        self.colour = COLOURS[int(rng.random() * len(COLOURS))]

    def apply(self, move):
        if move not in COLOURS:
            return reject("No colour .")
        if move == self.colour:
            return win("Yes .")
        return lose("No .") if self.turns_left == 1 else go_on("No .")

    def describe(self):
        return QUESTION

    def rules_text(self):
        return "Name the colour."

    def example_moves(self):
        return COLOURS


class Peek(Tool):
    """Tells the colour."""

    definition = ToolDefinition("peek", "Tell the colour.")

    def __init__(self, env):
        self.env = env

    def execute(self, /, **params):
        return f"it was {self.env.colour}"


def make_env():
    env = ColourEnv(rules="system")
    return ToolUse(env, [Peek(env)], "react", max_calls=2)


@functools.cache
def player():
    """Return a model that writes one of the replies, at random, and its tokenizer."""
    said = [f"Observation : it was {colour}" for colour in COLOURS]
    tokenizer = word_tokenizer([QUESTION, *REPLIES, *said, "Yes .", "No colour ."])
    chat = ChatFormat.from_tokenizer(tokenizer)
    lm = tiny_llama(tokenizer, hidden_size=32, layers=1, context_length=256)
    opening = chat.opening("", QUESTION)
    turns = [Example(opening, chat.reply(reply)) for reply in REPLIES]
    for reply in REPLIES:
        after = [*opening, *chat.reply(CALL), *chat.following(chat.reply(CALL), said[0])]
        turns.append(Example(after, chat.reply(reply)))
    imitate(PolicyValueModel(lm.train(), critic="none"), turns, steps=60, learning_rate=5e-3)
    return lm, tokenizer


@pytest.fixture(scope="module")
def rollouts(tmp_path_factory):
    """Train for three iterations; return the batches that were trained on, and the tokenizer."""
    lm, tokenizer = player()
    lm = copy.deepcopy(lm)
    config = ConfigStore.from_dict(
        {
            "inference": {"num_envs": 16, "max_tokens": 5, "max_turns": 4, "system_prompt": ""},
            "training": {
                "num_epochs": 1,
                "num_iters_per_epoch": 3,
                "batch_size": 32,
                "mini_batch_size": 32,
                "learning_rate": 1e-3,
            },
            "environment": {"eval_interval": 0},
        }
    )
    config.checkpoint.output_dir = str(tmp_path_factory.mktemp("run"))
    trainer = PPOTrainer(config, make_env, model=lm, tokenizer=tokenizer)
    before = copy.deepcopy(lm.state_dict())
    collect, seen = trainer.sampler.collector.collect, []
    trainer.sampler.collector.collect = lambda tasks: seen.append(collect(tasks)) or seen[-1]
    trainer.fit()
    trainer.cleanup()
    assert any(not torch.equal(before[name], weight) for name, weight in lm.state_dict().items())
    return seen, tokenizer


def split(data):
    """Yield the ids of each episode and which of them are trained on."""
    trained = set((data.position_T + 1).tolist())
    start = 0
    for length in data.sequence_lengths_Q.tolist():
        ids = data.ids_S[start : start + length].tolist()
        yield ids, [start + at in trained for at in range(length)]
        start += length


def runs(ids, trained):
    """Return the stretches of tokens that are, or are not, trained on: (trained, ids)."""
    found = []
    for id, flag in zip(ids, trained, strict=True):
        if not found or found[-1][0] != flag:
            found.append((flag, []))
        found[-1][1].append(id)
    return found


def decode(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=True)


def test_the_tokens_of_a_call_are_trained_on_and_those_of_its_result_never_are(rollouts):
    batches, tokenizer = rollouts
    assert len(batches) == 3
    calls = 0
    for rollout in batches:
        for episode, (ids, trained) in zip(rollout.episodes, split(assemble(rollout)), strict=True):
            stretches = runs(ids, trained)
            said = [decode(tokenizer, own) for flag, own in stretches if flag]
            read = [decode(tokenizer, own) for flag, own in stretches if not flag]
            # What is trained on is what was said, and nothing else: the replies, in order.
            assert said == episode.actions
            for turn, info in enumerate(episode.infos):
                for call in info["tool_calls"]:
                    if not call["success"]:
                        continue
                    calls += 1
                    assert said[turn] == CALL
                    assert call["result"] not in said[turn]
                    assert call["result"] in read[turn + 1]
    assert calls >= 20
