"""A learner over processes loses one of them while players are on Ray: all begin again."""

import pytest

from tests.agents.distributed.test_lost_rank import rows, torchrun

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
PLAYERS = ("--ray.use-ray", "--ray.num-actors", "2")


def test_players_and_learners_begin_again_from_the_checkpoint(tmp_path):
    done = torchrun(tmp_path / "again", restarts=1, flags=PLAYERS)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again" / "killed").exists()
    found = rows(tmp_path / "again")
    assert [row["iteration"] for row in found] == [1, 2, 3, 4]
    assert all(row["ray/actors"] == 2 and row["ray/restarts"] == 0 for row in found)
    alone = torchrun(tmp_path / "alone", restarts=0, rank=9)
    assert alone.returncode == 0, alone.stderr
    for ours, theirs in zip(found, rows(tmp_path / "alone"), strict=True):
        kept = {name: ours[name] for name in theirs if not name.startswith("engine/")}
        wanted = {name: theirs[name] for name in kept}
        assert kept == pytest.approx(wanted, abs=1e-5)
