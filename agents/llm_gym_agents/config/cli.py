"""Every setting on the command line, as ``--training.learning-rate 1e-5``."""

import contextlib
import copy
import io
import itertools
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, field, make_dataclass
from functools import partial
from typing import Any

from llm_gym.cli.common import settings
from llm_gym.core.errors import ConfigError
from llm_gym.core.text import closest
from llm_gym_agents.config.schema import SECTIONS
from llm_gym_agents.config.store import ConfigStore

_HINT = "llm-gym train ENV --help-settings lists every setting"


def parse_args(
    argv: Sequence[str], default: ConfigStore | None = None, options: Collection[str] = ()
) -> ConfigStore:
    """Return a copy of ``default`` with the changes in ``argv``.

    An unknown setting or a wrong value raises ``ConfigError``; ``--help`` prints a page and exits.
    ``options`` are other flags of the command, which an error may suggest.
    """
    _check_names(argv, options)
    config = ConfigStore() if default is None else default.model_copy(deep=True)
    if not argv:
        return config
    import tyro

    errors = io.StringIO()
    # Tyro takes a fifth of a second to read all settings, so it reads only those in ``argv``.
    kind: Any = ConfigStore if "--help" in argv else _only(sorted(flags(argv)), config)
    how: dict[str, Any] = {"default": config} if kind is ConfigStore else {}
    try:
        try:
            with contextlib.redirect_stderr(errors):
                given = tyro.cli(
                    kind,
                    args=list(argv),
                    prog="llm-gym train",
                    description="Every setting, with its default.",
                    registry=_registry(),
                    **how,
                )
        except SystemExit as ended:
            if not ended.code:
                raise
            raise ConfigError(_reworded(_sentence(errors.getvalue()))) from None
        config.update(asdict(given))
    except ConfigError as error:
        raise ConfigError(f"{error}; {_HINT}") from None
    return config


def flags(argv: Sequence[str]) -> set[str]:
    """Return the names of the settings on a command line.

    >>> sorted(flags(["--training.learning-rate", "1", "--ray.no-use-ray", "--model.dtype=x"]))
    ['model.dtype', 'ray.use_ray', 'training.learning_rate']
    """
    named = (word[2:].partition("=")[0].replace("-", "_") for word in argv if word[:2] == "--")
    return {name.replace(".no_", ".") for name in named if "." in name}


def _only(names: Iterable[str], config: ConfigStore) -> Any:
    """Return a dataclass of some settings, by section, with the values of ``config``."""
    fields: dict[str, list[Any]] = {}
    for name in names:
        section, _, setting = name.partition(".")
        made = partial(copy.copy, getattr(getattr(config, section), setting))
        kind = SECTIONS[section].model_fields[setting].annotation
        fields.setdefault(section, []).append((setting, kind, field(default_factory=made)))
    kinds = {section: make_dataclass(section, own) for section, own in fields.items()}
    whole = [(section, kind, field(default_factory=kind)) for section, kind in kinds.items()]
    return make_dataclass("Given", whole)


def _check_names(argv: Sequence[str], options: Collection[str]) -> None:
    """Refuse a flag that is not a setting, before tyro is imported."""
    known = {
        f"--{name}.{each}".replace("_", "-"): own.annotation
        for name, cls in SECTIONS.items()
        for each, own in cls.model_fields.items()
    }
    switches = {flag for flag, kind in known.items() if kind is bool}
    for word, after in itertools.zip_longest(argv, argv[1:], fillvalue="--"):
        flag, is_given, value = word.partition("=")
        flag = flag.replace("_", "-")
        on = flag.replace(".no-", ".")
        if flag.startswith("--") and flag not in known and on not in {*switches, "--help"}:
            given = word.partition("=")[0]
            raise ConfigError(f"there is no setting {given}{_meant(flag, known, options)}; {_HINT}")
        if on in switches and (is_given or not after.startswith("--")):
            off = on.replace(".", ".no-", 1)
            got = value if is_given else after
            raise ConfigError(f"{flag} takes no value, got {got!r:.100}: {on} or {off}; {_HINT}")


def _meant(flag: str, known: Iterable[str], options: Collection[str]) -> str:
    """Return a hint for a flag that is neither a setting nor one of ``options``, or ""."""
    if flag in ("--gpus", "--num-gpus"):
        return "; several GPUs are started with torchrun --nproc-per-node N (docs/scale.md)"
    if flag == "--set":
        return f" ({_OF_ENVIRONMENT})"
    section, dot, end = flag[2:].rpartition(".")
    section = f"--{section}." if dot else "--"
    near = [each for each in (known if dot else options) if each.startswith(section)]
    own = {each.removeprefix(section): each for each in near}
    names = {each.partition(".")[2]: each for each in known} | own
    begins = next((each for each in names if each.startswith(f"{end}-")), "")
    like = closest(end, own) or closest(end, names)
    for name in (end, f"num-{end}", _SHORT.get(end, ""), begins, like):
        if name in names:
            return f" (did you mean {names[name]}?)"
    return ""


_SHORT = {
    "lr": "learning-rate",
    "iters": "num-iters-per-epoch",
    "iterations": "num-iters-per-epoch",
}
"""What other trainers call a setting."""

_OF_ENVIRONMENT = "settings of the environment: --environment.env-kwargs NAME=VALUE ..."
_SET, _VALUE = r"--(?P<name>[\w.-]+)", r"['\"](?P<value>.*)['\"]"
_WRONG = (
    rf"{_SET}: invalid literal for int\(\) with base 10: {_VALUE}",
    rf"{_SET}: could not convert string to float: {_VALUE}",
    rf"{_SET}: no type matching .* \[{_VALUE}\]",
    rf"invalid choice {_VALUE} for argument '{_SET}'.*",
)
"""What tyro says about a wrong value."""


def _reworded(message: str) -> str:
    """Return tyro's sentence in our words; the schema says what a wrong value must be."""
    for pattern in _WRONG:
        if found := re.fullmatch(pattern, message):
            section, name = found["name"].replace("-", "_").split(".")
            setattr(getattr(ConfigStore(), section), name, found["value"])
    if found := re.fullmatch(rf"Missing value for argument '{_SET}'.*", message):
        return f"--{found['name']} needs a value"
    if found := re.fullmatch(r"Unrecognized options: (.*)", message):
        return f"no setting takes {found[1]!r} ({_OF_ENVIRONMENT})"
    return message


def _sentence(box: str) -> str:
    r"""Return tyro's error box as one sentence.

    >>> _sentence("╭─ X ─╮\n│ Error parsing it must │\n│ be small │\n│ ── │")[:16]
    'it must be small'
    >>> _sentence("Error\n-----\nIt must\nbe small.\n-----\nSee --help")[:16]
    'It must be small'
    """
    lines = [line.strip(" │") for line in box.strip().splitlines()]
    if lines and "─" not in lines[0]:  # without a frame, its title has a line and a rule
        lines = lines[1:]
    lines = lines[1:]
    body = list(itertools.takewhile(lambda line: line.strip("─-"), lines))
    message = " ".join(body).removeprefix("Error parsing ").rstrip(".")
    return message or box.strip()


def _registry() -> Any:
    """Let tyro read a dictionary as ``rooms=8 style=terse``."""
    from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

    registry = ConstructorRegistry()

    @registry.primitive_rule
    def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[dict[str, Any]] | None:
        if info.type != dict[str, Any]:
            return None
        return PrimitiveConstructorSpec(
            nargs="*",
            metavar="[NAME=VALUE ...]",
            instance_from_str=partial(settings, option="a setting"),
            is_instance=lambda value: isinstance(value, dict),
            str_from_instance=lambda value: [
                f"{name}={each if isinstance(each, str) else json.dumps(each)}"
                for name, each in value.items()
            ],
        )

    return registry
