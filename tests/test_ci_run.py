"""What `.ci/run` makes of the exit codes of its stages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is for Linux")
RUN = Path(__file__).parents[1] / ".ci" / "run"
MAKE = """#!/bin/sh
echo "$1" >> made
code=$(sed -n 1p "plan/$1" 2>/dev/null)
[ -z "$code" ] || sed -i 1d "plan/$1"
exit "${code:-0}"
"""


def run(folder, minutes="65", LLM_GYM_CI_STRICT="0", **codes):
    """Run it with a make that ends with these codes, one after the other; return code and text."""
    (folder / "bin").mkdir()
    for name, text in {"make": MAKE, "chromium": "#!/bin/sh\n"}.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    for name in (".ci", "plan"):
        (folder / name).mkdir()
    shutil.copy(RUN, folder / ".ci" / "run")
    for name, plan in codes.items():
        (folder / "plan" / name.replace("_", "-")).write_text("\n".join(map(str, plan)))
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", ".ci/run"], cwd=folder, capture_output=True, text=True,
        env=os.environ | {"PATH": path, "LLM_GYM_CI_MINUTES": minutes,
                          "LLM_GYM_CI_STRICT": LLM_GYM_CI_STRICT},
    )  # fmt: skip
    return done.returncode, done.stdout, (folder / "made").read_text().split()


@pytest.mark.parametrize(
    ("codes", "code", "printed"),
    [
        ({}, 0, "seconds: test "),
        ({"test": [2], "test_ray": [2]}, 0, "test-ray failed; its failed tests run once more"),
        ({"test": [2, 2]}, 1, "failed: test\n"),
        ({"docs": [2, 2], "test_slow": [1, 2]}, 1, "failed: docs test-slow\n"),
        ({"test_ray": [2, 2], "test_slow": [1, 2]}, 0, "failed: test-ray test-slow\n"),
        ({"LLM_GYM_CI_STRICT": "1", "test_slow": [2, 2]}, 1, "failed: test-slow\n"),
        ({"test_vllm": [124], "docs": [137]}, 0, "test-vllm: cut off"),
        ({"test": [124]}, 1, "failed: test\n"),
        ({"test_view": [2, 124]}, 0, "test-view: failed, and its second try was cut off"),
        ({"test": [2, 124]}, 1, "failed: test\n"),
    ],
)
def test_any_stage_that_fails_twice_fails_the_run(tmp_path, codes, code, printed):
    found, text, made = run(tmp_path, **codes)
    assert (found, printed in text) == (code, True), text
    assert made[0] == "test"
    assert made[-1] == "test-slow", "a failure does not keep the other stages from running"


def test_without_time_only_the_commands_of_the_readme_run(tmp_path):
    code, text, made = run(tmp_path, minutes="0")
    assert (code, made) == (0, ["test", "demo"])
    assert "docs: not run, the 0 minutes of this run are over" in text
