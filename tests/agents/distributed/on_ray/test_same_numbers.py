"""On a real cluster a run comes to the numbers of one process, to the bit."""

import pytest

from tests.agents.distributed.echo_run import echo_rows

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_actors_give_the_numbers_of_one_process(cluster, tmp_path):
    assert echo_rows(tmp_path / "ray", num_actors=3) == echo_rows(tmp_path / "alone")
