"""A game in the four-value shape, as people write them."""

from typing import Any

from llm_gym.core.legacy import BaseEnvironment

Step = tuple[str, float, bool, dict[str, Any]]


class TextGame(BaseEnvironment):
    """The seed's example: no constructor, a flag that reset forgets, steps not counted."""

    def reset(self) -> str:
        self.score = 0.0
        self.inventory: list[str] = []
        return "Welcome to the game! You are in a room."

    def step(self, action: str) -> Step:
        reward = 0.0
        if "take" in action.lower():
            self.inventory.append("item")
            reward = 1.0
        elif "attack" in action.lower():
            reward = 5.0
            self._done = True
        else:
            reward = -0.1
        self.score += reward
        return self.get_state_description(), reward, self._done, {}

    def get_state_description(self) -> str:
        return f"Score: {self.score}, Inventory: {self.inventory}"
