"""A verifiers environment of several turns, which draws from the generator of the process."""

import random

import verifiers as vf
from datasets import Dataset


class GuessEnv(vf.MultiTurnEnv):
    async def setup_state(self, state):
        state["secret"] = random.randint(1, 10)

    async def env_response(self, messages, state, **_):
        guess = messages[-1]["content"].strip()
        if guess == "crash":
            raise vf.Error("the game is broken")
        if guess == "boom":
            raise KeyError(guess)
        if guess == str(state["secret"]):
            state["final_env_response"] = [{"role": "user", "content": "You found it!"}]
        return [{"role": "user", "content": f"Not {guess[:20]}. Roll: {random.randint(1, 100)}"}]


def found(state, **_):
    return float(state["final_env_response"] is not None)


def load_environment(max_turns=5):
    data = Dataset.from_list([{"question": "Guess a number from 1 to 10.", "answer": ""}] * 3)
    return GuessEnv(dataset=data, rubric=vf.Rubric(funcs=[found]), max_turns=max_turns)
