"""Training with tools: the tokens of a call are trained on, those of its result never are."""

import pytest

from llm_gym.core.env import TextEnv
from llm_gym.core.outcome import go_on, lose, reject, win
from llm_gym.tools import Tool, ToolDefinition
from llm_gym.wrappers import ToolUse
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.rollout_data import assemble
from llm_gym_agents.rollouts.sampler import Sampler
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.text.tokenizers import word_tokenizer
from tests.agents.scripted import ScriptedEngine

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


@pytest.fixture
def played():
    """Episodes of a player that calls the tool or guesses, and its tokenizer."""
    results = [f"Observation : it was {colour}" for colour in COLOURS]
    tokenizer = word_tokenizer([QUESTION, *REPLIES, *results, "Yes .", "No colour ."])
    chat = ChatFormat.from_tokenizer(tokenizer)
    engine = ScriptedEngine(say=lambda request: chat.reply(REPLIES[request.seed % len(REPLIES)]))
    sampler = Sampler(
        LLMPolicy(engine, chat, system_prompt="", run_seed=0), TextEnvPool(make_env, 16)
    )
    yield sampler.play([EpisodeTask(at, seed=at) for at in range(64)]), tokenizer
    sampler.close()


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


def test_the_tokens_of_a_call_are_trained_on_and_those_of_its_result_never_are(played):
    rollout, tokenizer = played
    calls = 0
    for episode, (ids, trained) in zip(rollout.episodes, split(assemble(rollout)), strict=True):
        stretches = [
            (flag, tokenizer.decode(own, skip_special_tokens=True))
            for flag, own in runs(ids, trained)
        ]
        replies = [text for flag, text in stretches if flag]
        read = [text for flag, text in stretches if not flag]
        assert replies == episode.actions
        for turn, info in enumerate(episode.infos):
            for call in filter(lambda call: call["success"], info["tool_calls"]):
                calls += 1
                assert replies[turn] == CALL
                assert call["result"] not in replies[turn]
                assert call["result"] in read[turn + 1]
    assert calls >= 20
