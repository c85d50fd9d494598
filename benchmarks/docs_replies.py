"""The table of ``docs/replies.md``, from the result of ``replies.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from doc_tables import TEXT, table

PAGE = Path(__file__).parents[1] / "docs" / "replies.md"
BEGIN, END = "<!-- replies -->", "<!-- /replies -->"


def write_page(result: dict[str, Any], page: Path = PAGE) -> None:
    """Put the table of ``result`` into the page."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    page.write_text(f"{before}{begin}\n{write_table(result)}\n{end}{after}")


def write_table(result: dict[str, Any]) -> str:
    """Return the shares, the formats, the recorded replies and every phrasing as Markdown."""
    shares, model = result["shares"], result["smollm2"]
    count = result["phrasings"]
    halves = {"": TEXT, "tuned half": "{:.1%}", "untouched half": "{:.1%}"}
    kinds = ("accepted", "refused")
    lines = [
        f"{count['accepted']} phrasings that name one move and {count['refused']} that name none, "
        f"two, or deny, in {result['games']} games:",
        "",
        table(halves, [(k, shares[f"{k} tuned"], shares[f"{k} untouched"]) for k in kinds]),
    ]
    strict = result["shares_strict"]
    told = " and ".join(f"{strict[f'accepted {half}']:.0%}" for half in ("tuned", "untouched"))
    lines += ["", f"With `strict=True` the two halves of the first row are {told}."]
    names = ", ".join(f"{name} {share:.1%}" for name, share in result["formats"].items())
    lines += [
        "",
        f"Accepted under each format, whatever it asks for: {names}.",
        "",
        f"Of {model['replies']} recorded replies of SmolLM2-135M-Instruct (first and second "
        "turns), "
        f"{model['usable_strict']:.1%} can be played strictly and {model['usable']:.1%} as they "
        "are read now; most of the others quote the board.",
        "",
        table(
            {"phrasing": TEXT, "wanted": TEXT, "half": TEXT, "games that read it so": "{:.0%}"},
            [
                (
                    _shown(row["phrasing"]),
                    row["wanted"],
                    "tuned" if row["tuned"] else "untouched",
                    row["right"],
                )
                for row in result["by_phrasing"]
            ],
        ),
    ]
    return "\n".join(lines)


def _shown(phrasing: str) -> str:
    """Return a phrasing as code in a cell."""
    said = phrasing.replace("{{", "{").replace("}}", "}").replace("\n", "⏎")
    return (f"`` {said} ``" if "`" in said else f"`{said or ' '}`").replace("|", "\\|")
