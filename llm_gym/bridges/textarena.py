"""TextArena's games, alone or against others: ``llm_gym/TextArena-v0``.

An opponent is a function from everything it has been shown, as one text, to its reply; a TextArena
agent is such a function.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from llm_gym.bridges import base
from llm_gym.core.errors import ConfigError, LLMGymError, WorkerError, error_words
from llm_gym.core.outcome import StopReason
from llm_gym.registry.user_code import import_object

if TYPE_CHECKING:
    from llm_gym.evaluate.endpoint.client import ChatClient

Opponent = Callable[[str], str]
OpponentSetting = str | Mapping[str, Any] | Opponent
_BRACKETS = re.compile(r"\[[^\[\]\n]{1,40}\]")
_SPEAKERS = re.compile(r"\[(?:GAME|Player[^\]]*|[A-Z][A-Z ]+)\]")
_LEGAL = re.compile(
    r"\b(?:available|legal|valid|possible|your) (?:moves|actions|options|choices|columns)\b"
    r"[^:\n]{0,40}:(.*)",
    re.IGNORECASE,
)
# "[Raise N]", "[idx]", "[Offer: $X]": the form of a move, and no move.
_PLACEHOLDER = re.compile(
    r"[<>$_.]|\b(?:[KNXYZ]|[MN]umber|(?i:amount|id|idx|index|row|cols?|columns?|word|letter|guess"
    r"|move|action|your|message|text|name|value|source|target|from|to|macro|micro|player|card|item"
    r"|quantity|price|bid|piece|coord\w*))\b"
)
_ILLEGAL = re.compile(r"\b(?:invalid|illegal|not (?:a )?(?:valid|legal))\b", re.IGNORECASE)
_TRIES = 5  # replies of an opponent in one turn


def _moves_in(text: str) -> list[str]:
    found = _BRACKETS.findall(text)
    return [one for one in found if not (_SPEAKERS.fullmatch(one) or _PLACEHOLDER.search(one))]


def legal_moves(text: str) -> list[str]:
    r"""Return the moves that a game lists as legal, in the last line that lists some.

    >>> legal_moves("[GAME] Write '[4]' for the middle.\nAvailable Moves: '[0]', '[8]'")
    ['[0]', '[8]']
    >>> legal_moves("Play as '[idx]'."), legal_moves("Your options: [draw], [peek X Y]")
    ([], ['[draw]'])
    """
    for listed in reversed(_LEGAL.findall(text)):
        if moves := _moves_in(listed):
            return moves
    return []


def random_reply(text: str, rng: np.random.Generator) -> str:
    """Return a legal move, or what ``text`` last shows as a move, or else a number."""
    shown = (_moves_in(line) for line in reversed(text.splitlines()))
    moves = legal_moves(text) or next(filter(None, shown), [f"[{number}]" for number in range(10)])
    return moves[int(rng.integers(len(moves)))]


class RandomOpponent:
    """Plays one of the legal moves that it was last shown, at random."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def seed(self, seed: int) -> None:
        """Begin anew, so that an episode follows from its seed."""
        self.rng = np.random.default_rng(seed)

    def __call__(self, text: str) -> str:
        if moves := legal_moves(text):
            return moves[int(self.rng.integers(len(moves)))]
        raise ConfigError(
            "opponent='random' needs a game that lists its legal moves, and this one does not: "
            "give a function from text to text, or url and model of a served one"
        )


class _ServedOpponent:
    """Plays as a served model does, over connections of its own.

    Args:
        settings: Arguments of ``ChatClient``.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)
        self._client: ChatClient | None = self._connect()  # refuses a wrong setting now

    def __call__(self, text: str) -> str:
        self._client = client = self._client or self._connect()
        return client.reply([{"role": "user", "content": text}]).text

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy without the connections: they are those of one environment."""
        return type(self), (self._settings,)

    def close(self) -> None:
        """Close the connections; the next call opens another one."""
        client, self._client = self._client, None
        if client is not None:
            client.stop()

    def _connect(self) -> "ChatClient":
        from llm_gym.evaluate.endpoint.client import ChatClient

        try:
            return ChatClient(**self._settings)
        except TypeError as error:
            raise ConfigError(f"opponent must have url and model: {error}") from error


def ask(opponent: Opponent, text: str) -> str:
    """Return an opponent's reply; raise ``WorkerError`` if it fails."""
    try:
        reply = opponent(text)
    except LLMGymError:
        raise
    except Exception as error:
        raise WorkerError(f"the opponent raised {error_words(error)}") from error
    if not isinstance(reply, str):
        raise WorkerError(f"the opponent must reply with a str, got {type(reply).__name__}")
    return reply


def make_opponent(given: OpponentSetting) -> Opponent:
    """Return the opponent that a setting stands for.

    ``random``; ``module:function``, which may be a class to be called without arguments; a
    dictionary with ``url`` and ``model`` and whatever else ``ChatClient`` takes; or a function.
    """
    if given == "random":
        return RandomOpponent()
    if isinstance(given, Mapping):
        return _ServedOpponent(given)
    if callable(given):
        return given
    found = import_object(given) if ":" in given else None
    found = found() if isinstance(found, type) else found
    if not callable(found):
        raise ConfigError(
            "opponent must be 'random', 'module:function', a dictionary with url and model, or a "
            f"function from text to text, got {given!r}"
        )
    return found  # type: ignore[no-any-return]


_MOST_PLAYERS = 15
_OTHERS_TURNS = 200
_DOWNLOADS = (
    "python -m nltk.downloader words averaged_perceptron_tagger_eng, once, where there is a network"
)


class TextArenaEnv(base.BridgeEnv):
    """A game of TextArena.

    Description:
        Any game that ``textarena.make`` makes, from one seat. The others are played by
        ``opponent``. A turn shows what is new since the last one: the game's own wrappers would
        repeat the whole conversation at every turn, and that of the last episode with it.

    Actions:
        As the game's own rules say, mostly a word or a number in square brackets. What has no
        brackets gets them where the game's default version gives them.

    Observations:
        The game's prompt, then its messages and the moves of others, as they come.

    Rewards:
        TextArena's own, at the end: 1 for a win, -1 for a loss, 0 for a draw, a share of the task
        in some games for one player.

    Episode end:
        By the game's rules; a second unusable move in a row is one of them. Won is a reward above
        0 against others, and the full reward of 1 alone. If an opponent makes no legal move in
        five tries, or crashes the game, the episode is truncated as ``error`` without a reward.

    Info:
        The common keys; ``foreign`` has ``reason`` at the end, in the game's words, ``rewards`` of
        all seats, and ``role``.

    Args:
        env_id: A game of TextArena's, such as ``TicTacToe-v0``.
        players: How many play; by default as few as the game allows.
        seat: Which of them the model is.
        opponent: Who plays the other seats: ``random`` picks one of the legal moves that the game
            lists, and is refused where it lists none; ``module:function``; a dictionary with
            ``url`` and ``model`` of a served model; or a function from text to text, such as an
            agent of TextArena's.
        splits: Whether ``reset`` takes a ``split``, which the state at the beginning decides. Only
            for games with hundreds of beginnings, such as Wordle's.
        env_kwargs: Settings of the game.
        **common: See ``BridgeEnv``.
    """

    examples = ("[0]", "[1]", "[up]", "[pass]")

    def __init__(
        self,
        *,
        env_id: str = "TicTacToe-v0",
        players: int | None = None,
        seat: int = 0,
        opponent: OpponentSetting = "random",
        splits: bool = False,
        env_kwargs: Mapping[str, Any] | None = None,
        **common: Unpack[base.BridgeArgs],
    ) -> None:
        arena = base.need_package("textarena")
        registry = base.need_package("textarena", "textarena.envs.registration").ENV_REGISTRY
        base.choose("env_id", env_id, registry)
        if players is not None and not 1 <= players <= _MOST_PLAYERS:
            raise ConfigError(f"players must be 1 to {_MOST_PLAYERS}, got {players}")
        if not 0 <= seat < (players or _MOST_PLAYERS):
            raise ConfigError(f"seat must be below the number of players, got {seat}")
        self.env_id, self.players, self.seat, self.has_splits = env_id, players, seat, splits
        self.opponent = make_opponent(opponent)
        super().__init__(**common)
        with self._rng_guard, base.building(f"TextArena cannot make {env_id} here"):
            made = _make(arena, env_id, env_kwargs)
        # Outermost first, which is the order that a reply passes them in.
        self._action_wrappers: list[Any] = []
        while isinstance(made, arena.Wrapper):
            if isinstance(made, arena.ActionWrapper):
                self._action_wrappers.append(made)
            made = made.env
        self._made = self._game = made
        self._transcripts: dict[int, str] = {}

    def begin(self, seed: int) -> str:
        if self.players is None:
            self.players = self._fewest_players(seed)
        self._game = base.fresh_copy(self._made)
        self._game.reset(num_players=self.players, seed=seed)
        if self.seat >= self.players:
            raise ConfigError(f"seat must be below {self.players} players, got {self.seat}")
        self._transcripts = dict.fromkeys(range(self.players), "")
        self.instance = self.env_id, base.stable(self._state.game_state)
        if callable(reseed := getattr(self.opponent, "seed", None)):
            reseed(seed)
        self._failed = ""
        if self._others() is StopReason.ERROR:
            raise WorkerError(f"{self.env_id} cannot begin: {self._failed}")
        news = self._new_messages()
        if self.players > 1 and isinstance(self.opponent, RandomOpponent):
            # A game without a list of legal moves is refused now, not in the middle.
            self.opponent(self._transcripts[self.seat])
            self.opponent.seed(seed)
        return news

    def play(self, text: str) -> base.BridgeStep:
        state, seat = self._state, self.seat
        before = len(state.observations[seat])
        self._step(text)
        refused = any(
            "invalid move" in message and kind.name == "GAME_ADMIN"
            for _, message, kind in state.observations[seat][before:]
        )
        stop = self._others()
        if stop is StopReason.ERROR:
            news = "\n".join(filter(None, [self._new_messages(), self._failed]))
            return base.BridgeStep(news, 0.0, stop, not refused, {"reason": self._failed})
        if not state.done:
            return base.BridgeStep(self._new_messages(), valid=not refused)
        rewards = state.rewards or {}
        own_info = state.game_info[seat]
        reward, reason = float(rewards.get(seat, 0.0)), own_info.get("reason") or ""
        news = "\n".join(filter(None, [self._new_messages(), str(reason)]))
        everyone = [rewards.get(player) for player in self._transcripts]
        foreign = {"reason": reason, "rewards": everyone, "role": own_info.get("role")}
        if own_info.get("invalid_move"):
            return base.BridgeStep(news, reward, StopReason.INVALID, False, foreign)
        alone = self.players == 1
        stop = base.verdict(True, reward >= 1.0 if alone else reward > 0.0)
        if reward == 0.0 and not alone:
            stop = StopReason.DRAWN
        return base.BridgeStep(news, reward, stop, True, foreign)

    def random_move(self, rng: np.random.Generator) -> str:
        return random_reply(self._transcripts[self.seat], rng)

    def quitting_cost(self) -> float:
        """A game that is given up is a lost one."""
        return -1.0 if (self.players or 1) > 1 else 0.0

    def close(self) -> None:
        super().close()
        if isinstance(self.opponent, _ServedOpponent):  # any other one is its caller's
            self.opponent.close()

    # --- the game ------------------------------------------------------------------------

    @property
    def _state(self) -> Any:
        return self._game.state

    def _fewest_players(self, seed: int) -> int:
        refused: Exception | None = None
        for players in range(1, _MOST_PLAYERS + 1):
            try:
                base.fresh_copy(self._made).reset(num_players=players, seed=seed)
            except (AssertionError, LookupError, TypeError, ValueError) as error:
                refused = refused or error
            else:
                return players
        raise ConfigError(f"{self.env_id} begins with no number of players: {refused}")

    def _step(self, text: str) -> None:
        for wrapper in self._action_wrappers:
            text = wrapper.action(text)
        self._game.step(text)

    def _others(self) -> StopReason:
        """Let the other seats play until it is the model's turn or the game is over.

        An opponent without a legal move does not lose: the episode has failed.
        """
        state, own_errors = self._state, self._errors()
        for _ in range(_OTHERS_TURNS):
            if state.done or state.current_player_id == self.seat:
                self._set_errors(*own_errors)
                return StopReason.PLAYING
            if not self._other_moves(state.current_player_id):
                return StopReason.ERROR
        self._failed = f"it was not the model's turn in {_OTHERS_TURNS} turns"
        return StopReason.ERROR

    def _other_moves(self, other: int) -> bool:
        """Let an opponent move, in a few tries; if it makes no move, set ``_failed``."""
        state, refused = self._state, False
        for _ in range(_TRIES):
            self._take_messages(other)
            with self._rng_guard.outside():
                reply = ask(self.opponent, self._transcripts[other])
            self._set_errors(0, 1)  # the game asks again, where it would end at once
            before, _ = self._errors()
            try:
                self._step(reply)
            except LLMGymError:
                raise
            except Exception as error:  # noqa: BLE001 - the opponent's text crashed the game
                self._failed = f"the game died of the opponent's {reply!r:.60}: {error!r:.100}"
                return False
            refused = self._errors()[0] > before
            if state.done or not refused:
                break
        about = state.game_info.get(other) or {}
        why = str(about.get("reason") or "")
        forfeit = about.get("invalid_move") or (state.done and _ILLEGAL.search(why))
        if forfeit or (not state.done and refused):
            self._failed = f"the opponent made no legal move, but {reply!r:.60} {why}".rstrip()
            return False
        return True

    def _errors(self) -> tuple[int, int]:
        """Return how many illegal moves in a row the game has seen, and how many it allows."""
        return getattr(self._state, "error_count", 0), getattr(self._state, "error_allowance", 0)

    def _set_errors(self, count: int, allowed: int) -> None:
        if hasattr(self._state, "error_allowance"):
            self._state.error_count, self._state.error_allowance = count, allowed

    def _take_messages(self, player: int) -> str:
        """Return the messages to a player that are new, and add them to what it was shown."""
        messages = self._state.observations[player]
        self._state.observations[player] = []
        names = self._state.role_mapping
        own = player if player == self.seat else None  # the model knows its own messages
        lines = [
            text if speaker == -1 else f"[{names.get(speaker, f'Player {speaker}')}] {text}"
            for speaker, text, kind in messages
            if not (kind.name == "PLAYER_ACTION" and (speaker == own or self.players == 1))
        ]
        news = "\n".join(lines)
        self._transcripts[player] += f"{news}\n"
        return news

    def _new_messages(self) -> str:
        return self._take_messages(self.seat)


def _make(arena: Any, env_id: str, settings: Mapping[str, Any] | None) -> Any:
    try:
        return arena.make(env_id, **(settings or {}))
    except LookupError as error:  # of NLTK, which did not find its words
        raise ConfigError(f"{env_id} needs words that TextArena downloads: {_DOWNLOADS}") from error
