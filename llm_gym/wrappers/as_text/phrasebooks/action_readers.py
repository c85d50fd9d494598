"""Readers of discrete, text and composite action spaces, and ``make_reader``, which picks one."""

import json
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from llm_gym.core.errors import ConfigError
from llm_gym.core.spaces import AnyText
from llm_gym.wrappers.as_text.phrasebooks.discover import distinct, tidy
from llm_gym.wrappers.as_text.phrasebooks.readers import (
    FEW,
    NumberReader,
    Reader,
    Unusable,
    allowed_at,
)

_IDLE = re.compile(
    r"no.?op|(?:do )?nothing|(?:do not|don't) \w+|stay|wait|idle|none|stand|stick|hold|done|"
    r"(?:torque|force) 0|no \w+"
)
"""Names of choices that leave things as they are."""
_INTEGER = re.compile(r"[-+]?[0-9]{1,20}")


class ChoiceReader(Reader):
    """Reads one of some numbered choices by its name or its number.

    >>> reader = ChoiceReader(spaces.Discrete(2), ["Push left", "push right"])
    >>> int(reader.read("PUSH left.")), int(reader.read("1")), reader.write(1)
    (0, 1, 'push right')
    """

    def __init__(
        self,
        space: spaces.Discrete,
        names: Sequence[str] | None = None,
        aliases: Mapping[str, int] | None = None,
    ) -> None:
        self.low, self.high = int(space.start), int(space.start + space.n - 1)
        self._type = np.dtype(space.dtype).type
        self.named = names is not None
        self.names: list[str] | None = None
        if names is not None:
            self.names = distinct(names, int(space.n))
            if self.names is None:
                raise ConfigError(f"{space} needs {space.n} different names, got {list(names)}")
        elif space.n <= FEW:
            self.names = [str(choice) for choice in range(self.low, self.high + 1)]
        self.table: dict[str, Any] = {}
        """From every way to write a choice to the action."""
        if self.names is not None:
            for choice, name in enumerate(self.names, self.low):
                self.table.setdefault(str(choice), self._type(choice))
                self.table[name] = self._type(choice)
        for alias, choice in (aliases or {}).items():
            if self._holds(choice):
                self.table.setdefault(tidy(alias), self._type(choice))

    def read(self, text: str) -> Any:
        word = tidy(text)
        if word in self.table:
            return self.table[word]
        if self.names is None and _INTEGER.fullmatch(word) and self._holds(int(word)):
            return self._type(int(word))
        raise Unusable(f"Your move must be {self.how()}.")

    def _holds(self, choice: int) -> bool:
        return self.low <= choice <= self.high

    def write(self, action: Any) -> str:
        return str(int(action)) if self.names is None else self.names[int(action) - self.low]

    def draw(self, rng: np.random.Generator) -> Any:
        return self._type(int(rng.integers(self.low, self.high, endpoint=True)))

    def how(self) -> str:
        if self.named and self.names is not None:
            return f"one of: {', '.join(self.names)}"
        return f"a whole number from {self.low} to {self.high}"

    def pattern(self) -> str:
        if self.names is not None:
            return "|".join(map(re.escape, self.names))
        return rf"{'-?' * (self.low < 0)}[0-9]{{1,{max(len(str(self.low)), len(str(self.high)))}}}"

    def moves(self) -> Sequence[str] | None:
        return self.names

    def aliases(self) -> Mapping[str, str]:
        words = {word: self.write(action) for word, action in self.table.items()}
        return {word: move for word, move in words.items() if word != move}

    def fallback(self) -> Any:
        idle = [name for name in self.names or () if _IDLE.fullmatch(name)]
        return self.table[idle[0]] if idle else self._type(self.low)

    def allowed(self, mask: Any) -> Sequence[str] | None:
        if self.names is None or (at := allowed_at(mask, len(self.names))) is None:
            return None
        return [self.names[choice] for choice in at]


class WordsReader(Reader):
    """Reads a text as it stands.

    >>> WordsReader(spaces.Text(5)).how()
    'a text of 1 to 5 characters'
    >>> WordsReader(spaces.Text(5, charset="UDLR")).how()
    'a text of 1 to 5 characters among DLRU'
    """

    def __init__(self, space: spaces.Text) -> None:
        self.space = space

    def read(self, text: str) -> str:
        if not self.space.contains(text):
            raise Unusable(f"Your move must be {self.how()}.")
        return text

    def write(self, action: Any) -> str:
        return str(action)

    def draw(self, rng: np.random.Generator) -> str:
        space = self.space
        if isinstance(space, AnyText) and space.examples:
            return space.examples[int(rng.integers(len(space.examples)))]
        letters = string.ascii_letters if isinstance(space, AnyText) else space.character_list
        length = int(rng.integers(space.min_length, min(space.max_length, 32), endpoint=True))
        return "".join(letters[int(at)] for at in rng.integers(len(letters), size=length))

    def how(self) -> str:
        words = f"a text of {self.space.min_length} to {self.space.max_length} characters"
        if isinstance(self.space, AnyText):
            return words
        letters = sorted(self.space.character_list)
        everyday = set(string.ascii_letters + string.digits)
        many = len(letters) > 64 or everyday <= set(letters)
        return words if many else f"{words} among {''.join(letters)}"

    def pattern(self) -> str:
        least, most = self.space.min_length, min(self.space.max_length, 10_000)
        if isinstance(self.space, AnyText):
            return rf"[^\n]{{{least},{most}}}"
        letters = "".join(map(re.escape, self.space.character_list))
        return f"[{letters}]{{{least},{most}}}"


class PartsReader(Reader):
    """Reads a Dict as a JSON object and a Tuple as a JSON list.

    >>> reader = PartsReader(spaces.Dict(gear=spaces.Discrete(3), wheel=spaces.Box(-1, 1)))
    >>> reader.read('{"gear": 2, "wheel": 0.5}')
    {'gear': np.int64(2), 'wheel': array([0.5], dtype=float32)}
    """

    def __init__(self, space: spaces.Dict | spaces.Tuple[Any]) -> None:
        self.is_dict = isinstance(space, spaces.Dict)
        found = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        self.parts = {key: make_reader(part) for key, part in found}

    def _action(self, parts: Iterable[Any]) -> Any:
        """Return the action that consists of ``parts``, in their order."""
        return dict(zip(self.parts, parts, strict=True)) if self.is_dict else tuple(parts)

    def read(self, text: str) -> Any:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            data = None
        names = list(map(str, self.parts))
        if isinstance(data, list) and not self.is_dict and len(data) == len(names):
            given = data
        elif isinstance(data, dict) and self.is_dict and data.keys() == set(names):
            given = [data[name] for name in names]
        else:
            raise Unusable(f"Your move must be {self._kind()}.")
        return self._action(map(self._part, self.parts, given))

    def _part(self, key: Any, data: Any) -> Any:
        try:
            if isinstance(data, float) and data.is_integer():
                data = int(data)
            return self.parts[key].read(data if isinstance(data, str) else json.dumps(data))
        except (Unusable, RecursionError) as error:
            raise Unusable(f"In {self._title(key)}: {error}") from None

    def write(self, action: Any) -> str:
        return json.dumps(self.to_json(action), ensure_ascii=False)

    def to_json(self, action: Any) -> Any:
        """Return ``action`` as a JSON value."""
        written = {str(key): _to_json(part, action[key]) for key, part in self.parts.items()}
        return written if self.is_dict else list(written.values())

    def draw(self, rng: np.random.Generator) -> Any:
        return self._action([part.draw(rng) for part in self.parts.values()])

    def fallback(self) -> Any:
        found = [part.fallback() for part in self.parts.values()]
        return None if any(part is None for part in found) else self._action(found)

    def how(self) -> str:
        parts = [f"{self._title(key)} is {part.how()}" for key, part in self.parts.items()]
        return f"{self._kind()}; {'; '.join(parts)}"

    def _kind(self) -> str:
        if self.is_dict:
            return f"a JSON object with {', '.join(map(self._title, self.parts))}"
        return f"a JSON list of {len(self.parts)} part{'s' * (len(self.parts) != 1)}"

    def _title(self, key: Any) -> str:
        return json.dumps(str(key), ensure_ascii=False) if self.is_dict else f"part {key + 1}"

    def pattern(self) -> str:
        parts = [_json_pattern(part) for part in self.parts.values()]
        if self.is_dict:
            keys = [re.escape(self._title(key)) for key in self.parts]
            pairs = map(": ".join, zip(keys, parts, strict=True))
            return rf"\{{{', '.join(pairs)}\}}"
        return rf"\[{', '.join(parts)}\]"


def _to_json(part: Reader, action: Any) -> Any:
    if isinstance(part, PartsReader):
        return part.to_json(action)
    written = part.write(action)
    if isinstance(part, NumberReader):
        return json.loads(f"[{written.replace(' ', ', ')}]")
    return int(action) if isinstance(part, ChoiceReader) and not part.named else written


def _json_pattern(part: Reader) -> str:
    """Return a regex that ``_to_json`` matches when it is written as JSON."""
    if isinstance(part, WordsReader):
        return r'"(?:[^"\\\n]|\\.)*"'
    if isinstance(part, NumberReader):
        return rf"\[{part.pattern(', ')}\]"
    is_named = isinstance(part, ChoiceReader) and part.named
    return f'"(?:{part.pattern()})"' if is_named else f"(?:{part.pattern()})"


def make_reader(
    space: Space[Any], names: Sequence[str] | None = None, aliases: Mapping[str, int] | None = None
) -> Reader:
    """Return the reader of ``space``; ``names`` are of its choices, or of its numbers."""
    if isinstance(space, spaces.Discrete):
        return ChoiceReader(space, names, aliases)
    if isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)):
        return NumberReader(space, names)
    if isinstance(space, spaces.Text):
        return WordsReader(space)
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        return PartsReader(space)
    raise ConfigError(
        "AsText reads actions of Discrete, MultiDiscrete, MultiBinary, Box, Text, Dict and Tuple "
        f"spaces, got {space}; pass parse=, a function from text to action"
    )
