"""Hashes that runs and splits depend on never change."""

from llm_gym.core.splits import digest, stable_hash
from llm_gym.evaluate.endpoint.http import jitter
from llm_gym.evaluate.endpoint.play import reply_seed


def test_hashes_are_stable_and_accept_surrogates():
    assert stable_hash("episode 0/3") == 3910902201237229323
    assert stable_hash("0/1/2/0") == 453923624483662167
    assert reply_seed(0, 1, 2) == 1721969440
    assert digest("X") == "ff914fd1c552e395"
    assert jitter(1, 2) == 0.9438541695773658
    assert stable_hash("\ud800") != stable_hash("\ud801")
