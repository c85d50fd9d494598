"""``TokenStream``: the input of every estimator, a flat stream of sampled tokens.

It contains only sampled tokens. So observations need no discount, memory or mask, and no value
outside a mask can leak in. Episodes follow one another. The reward of a turn is on its last sampled
token; other tokens may have a reward too, such as a KL penalty.

Shapes: T sampled tokens of all episodes, E episodes, K turns of all episodes, B visits of states
in branches.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from llm_gym_agents.algo.tensor_ops import (
    StreamError,
    segment_ids,
    segment_starts,
    segment_sum,
    spread,
    widen,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenStream:
    """Sampled tokens of E episodes, checked once on construction.

    An episode may be empty; it then has no score and is in no group.
    """

    reward_T: Tensor
    lengths_E: Tensor
    """Sampled tokens of each episode."""
    value_T: Tensor | None = None
    """V at the position that predicts each token, from before the update."""
    turn_ends_T: Tensor = None  # type: ignore[assignment]  # None only until it is constructed
    """True on the last token of each turn; without it each episode is one turn."""
    terminated_E: Tensor | None = None
    """False for a truncated episode; None means that none was truncated."""
    bootstrap_E: Tensor | None = None
    """V after the final observation; used only if ``terminated_E`` is false."""
    group_E: Tensor | None = None
    """Equal for episodes that started from the same prompt or seed."""
    state_K: Tensor | None = None
    """Equal for turns of one group that were taken in the same state."""
    potential_K: Tensor | None = None
    """The game's potential before each turn; NaN if the game has none."""
    branch_state_B: Tensor | None = None
    """The state of each visit in a branch, numbered as in ``state_K``."""
    branch_return_B: Tensor | None = None
    """The discounted reward-to-go of each visit in a branch."""
    branch_turn_B: Tensor | None = None
    """The turn from whose state the branch starts; -1 for later visits of the branch."""

    def __post_init__(self) -> None:
        _check_shapes(self)
        _check_finite("reward_T", self.reward_T, self.lengths_E)
        if self.value_T is not None:
            _check_finite("value_T", self.value_T, self.lengths_E)
        ends_T = self.last_T if self.turn_ends_T is None else self.turn_ends_T.bool()
        object.__setattr__(self, "turn_ends_T", ends_T)
        _check_turns(self)
        _check_bootstrap(self)
        for name in ("state_K", "potential_K"):
            each = getattr(self, name)
            if each is not None and each.shape != self.turn_lengths_K.shape:
                raise StreamError(
                    f"{name} must have one number for each of {self.turn_lengths_K.numel()} turns, "
                    f"got {tuple(each.shape)}"
                )

    @cached_property
    def last_T(self) -> Tensor:
        """True on the last token of each episode."""
        played_E = self.lengths_E > 0
        last_T = torch.zeros_like(self.reward_T, dtype=torch.bool)
        last_T[(self.lengths_E.cumsum(0) - 1)[played_E]] = True
        return last_T

    @cached_property
    def turn_lengths_K(self) -> Tensor:
        ends_K = self.turn_ends_T.nonzero().squeeze(-1)
        before_first = ends_K.new_full((min(1, ends_K.numel()),), -1)
        return ends_K.diff(prepend=before_first)

    @cached_property
    def turns_E(self) -> Tensor:
        return segment_sum(self.turn_ends_T.long(), self.lengths_E)

    @cached_property
    def turn_starts_K(self) -> Tensor:
        """The position of each turn's first token."""
        return segment_starts(self.turn_lengths_K)

    @cached_property
    def scores_E(self) -> Tensor:
        """The undiscounted sum of each episode's rewards, in float64."""
        return segment_sum(widen(self.reward_T), self.lengths_E)

    def where(self, kept_E: Tensor) -> TokenStream:
        """The stream of the episodes in ``kept_E``, without branches from other episodes."""
        kept = {"T": self.on_tokens(kept_E), "E": kept_E, "K": spread(kept_E, self.turns_E)}
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        for name, each in fields.items():
            if each is not None and name[-1] in kept:
                fields[name] = each[kept[name[-1]]]
        if (turn_B := self.branch_turn_B) is not None:
            place_K = torch.where(kept["K"], kept["K"].cumsum(0) - 1, -1)
            fields["branch_turn_B"] = torch.where(turn_B < 0, -1, place_K[turn_B])
        return TokenStream(**fields)

    def on_tokens(self, values_E: Tensor) -> Tensor:
        """Each episode's value on every one of its tokens."""
        return spread(values_E, self.lengths_E)


def _check_shapes(stream: TokenStream) -> None:
    lengths_E = stream.lengths_E
    if lengths_E.ndim != 1 or lengths_E.is_floating_point() or bool((lengths_E < 0).any()):
        raise StreamError(
            "lengths_E must be a vector of non-negative integers, "
            f"got shape {tuple(lengths_E.shape)} of {lengths_E.dtype}"
        )
    tokens, episodes = int(lengths_E.sum()), len(lengths_E)
    for name, tensor in vars(stream).items():
        if tensor is None or name.endswith(("_K", "_B")):
            continue
        expected = tokens if name.endswith("_T") else episodes
        if tensor.shape != (expected,):
            raise StreamError(
                f"{name} must have shape ({expected},), got {tuple(tensor.shape)}; "
                f"lengths_E holds {episodes} episodes of {tokens} tokens in all"
            )
        if tensor.device != stream.reward_T.device:
            raise StreamError(
                "a stream must lie on one device, "
                f"got reward_T on {stream.reward_T.device} and {name} on {tensor.device}"
            )


def _check_finite(name: str, tensor_T: Tensor, lengths_E: Tensor) -> None:
    if bool((broken_T := ~tensor_T.isfinite()).any()):
        position = int(broken_T.nonzero()[0])
        raise StreamError(
            f"{name} must be finite, got {tensor_T[position].item()} in episode "
            f"{int(segment_ids(lengths_E)[position])}"
        )


def _check_turns(stream: TokenStream) -> None:
    open_T = stream.last_T & ~stream.turn_ends_T
    if bool(open_T.any()):
        episode = int(segment_ids(stream.lengths_E)[open_T][0])
        raise StreamError(
            f"turn_ends_T must be true on the last token of every episode, got episode {episode} "
            "with an open turn; a cut turn ends on its last sampled token"
        )


def _check_bootstrap(stream: TokenStream) -> None:
    if stream.bootstrap_E is None:
        return
    if stream.terminated_E is None:
        raise StreamError(
            "bootstrap_E needs terminated_E, got only bootstrap_E; without it every episode "
            "counts as terminated and the bootstrap would be ignored"
        )
    used_E = ~stream.terminated_E.bool() & (stream.lengths_E > 0)
    broken_E = used_E & ~stream.bootstrap_E.isfinite()
    if bool(broken_E.any()):
        episode = int(broken_E.nonzero()[0])
        raise StreamError(
            "bootstrap_E must be finite where an episode was truncated, "
            f"got {stream.bootstrap_E[episode].item()} for episode {episode}"
        )
