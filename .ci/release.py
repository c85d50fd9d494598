"""Builds what an index would get, checks it, and installs it with every Python of this machine.

``python .ci/release.py --url https://host/owner/llm-gym`` builds the sdist and the wheel of the
last commit into dist/, with the README's links made absolute, and has twine check both. Each
Python, 3.11 to 3.14, installs them into an environment of its own and plays a game. What the GPU
image of docs/examples installs is resolved.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pythons

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TOOLS = ROOT / ".venv-release"
TOOL_PYTHON = str(TOOLS / "bin" / "python")
IMAGE = ROOT / "docs" / "examples" / "Dockerfile"
IMAGE_TARGET = ("--python-platform", "x86_64-manylinux_2_39", "--python-version", "3.12")
NOWHERE = "https://example.org/llm-gym"
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#|mailto:)([^)\s]+)\)")
URLS = """
[project.urls]
Homepage = "{0}"
Documentation = "{0}/tree/main/docs"
Changelog = "{0}/blob/main/CHANGELOG.md"
"""


def absolute(text: str, url: str) -> str:
    """Return Markdown whose links and images begin with ``url``."""

    def link(found: re.Match[str]) -> str:
        kind = "raw" if found[1] else "blob"
        return f"{found[1]}[{found[2]}]({url}/{kind}/main/{found[3]})"

    return LINK.sub(link, text)


def build(url: str) -> list[Path]:
    """Build the last commit, and return the wheel and the sdist."""
    shutil.rmtree(DIST, ignore_errors=True)
    if not (TOOLS / "bin" / "uv").exists():
        venv.create(TOOLS, with_pip=True)
        pythons.must(TOOL_PYTHON, "-m", "pip", "-q", "install", "build", "twine", "uv")
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        readme, project = Path(folder) / "README.md", Path(folder) / "pyproject.toml"
        readme.write_text(absolute(readme.read_text(), url))
        project.write_text(project.read_text() + URLS.format(url))
        pythons.must(TOOL_PYTHON, "-m", "build", "--outdir", str(DIST), folder)
    built = sorted(DIST.iterdir())
    pythons.must(TOOL_PYTHON, "-m", "twine", "check", "--strict", *map(str, built))
    return built


def check_wheel(wheel: Path) -> None:
    """End unless the wheel has types, a licence, addresses and a README without relative links."""
    with ZipFile(wheel) as files:
        names = files.namelist()
        (about,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        told = message_from_bytes(files.read(about))
    wrong = [name for name in ("llm_gym/py.typed", "llm_gym_agents/py.typed") if name not in names]
    wrong += [
        name for name in ("License-Expression", "Project-URL", "Classifier") if not told[name]
    ]
    wrong += [found[0] for found in LINK.finditer(str(told.get_payload()))]
    if wrong:
        sys.exit(f"{wheel.name} is not ready: {', '.join(wrong)}")


def check_image() -> None:
    """End unless the extras that the GPU image installs can be resolved for it."""
    [extras] = re.findall(r'"/src\[([\w,-]+)\]"', IMAGE.read_text())
    options = [word for extra in extras.split(",") for word in ("--extra", extra)]
    resolve = (TOOL_PYTHON, "-m", "uv", "pip", "compile", "--quiet", "--python", TOOL_PYTHON)
    pythons.must(*resolve, str(ROOT / "pyproject.toml"), *IMAGE_TARGET, *options)


def main() -> None:
    """Build, check and install."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", default=NOWHERE, help="where the project lives")
    url = parser.parse_args().url.rstrip("/")
    (ROOT / ".venv").mkdir(exist_ok=True)  # where pythons.must runs
    sdist, wheel = sorted(build(url), key=lambda path: path.suffix)
    check_wheel(wheel)
    print(f"{wheel.name} and {sdist.name} pass twine check; links lead to {url}")
    check_image()
    print(f"{IMAGE.name}: what it installs was resolved")
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for version, interpreter in ({here: sys.executable} | pythons.interpreters()).items():
        with tempfile.TemporaryDirectory() as folder:
            pythons.must(interpreter, "-m", "venv", folder)
            install = (f"{folder}/bin/python", "-m", "pip", "-q", "install")
            for package, options in ((wheel, ()), (sdist, ("--force-reinstall", "--no-deps"))):
                pythons.must(*install, *options, str(package))
                pythons.must(f"{folder}/bin/python", "-c", pythons.CHECK)
                pythons.must(f"{folder}/bin/llm-gym", "list")
                print(f"Python {version}: {package.name} is installed and plays", flush=True)
    if url == NOWHERE:
        print("no address was given, so nothing here is to be uploaded: --url")


if __name__ == "__main__":
    main()
