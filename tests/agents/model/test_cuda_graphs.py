"""Recorded passes: the numbers of the plain ones, whatever the batch; nothing stale, nothing lost.

A CPU has no graphs: there a stand-in "plays back" by doing the recorded work again at the same
places, so that all but the recording itself is tested everywhere, and the rest on a GPU.
"""

import copy
from contextlib import contextmanager
from unittest.mock import Mock

import pytest
import torch

from llm_gym_agents.config import TrainingConfig
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.model import cuda_graphs
from llm_gym_agents.model.cuda_graphs import BucketSize, can_capture
from llm_gym_agents.model.packed_attention import Packing
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.model.shared_prefix import share_prefixes
from tests.agents.learn.test_ppo import data
from tests.agents.model.test_policy_value import batch
from tests.agents.tiny import WIDE, tiny_model

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@contextmanager
def nothing(*_):
    yield


def done_again(work, pool, stream):
    work()

    def replay():
        with torch.enable_grad():
            work()

    return replay


@pytest.fixture(params=DEVICES)
def device(request, monkeypatch):
    """Where to record; on a CPU with the stand-in."""
    if request.param == "cpu":
        monkeypatch.setattr(cuda_graphs, "capture", done_again)
        monkeypatch.setattr(cuda_graphs, "in_stream", nothing)
        monkeypatch.setattr(cuda_graphs, "new_pool", lambda: None)
        monkeypatch.setattr(cuda_graphs, "new_stream", lambda device: None)
    yield request.param
    torch.set_float32_matmul_precision("highest")  # a learner on a GPU asks for less


def pair(device, **settings):
    """Return two equal models, the second of which records."""
    lm = tiny_model(**WIDE).to(device)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    plain = PolicyValueModel(lm, compute_dtype=dtype, **settings)
    recording = copy.deepcopy(plain)
    recording.use_cuda_graphs()
    return plain, recording


def inputs(device, seed=0):
    """Return a batch of the same size, with other ids for each seed."""
    ids, lengths, positions, _ = batch()
    more = torch.randint(0, 16, ids.shape, generator=torch.Generator().manual_seed(seed))
    return more.to(device), lengths, positions.to(device), more[positions + 1].to(device)


def gradients(model, *batches):
    model.zero_grad(set_to_none=True)
    for each in batches:
        scores = model(*each)
        (scores.log_prob_T.sum() + scores.value_T.square().sum() + scores.value_T.sum()).backward()
    return {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


def close(found, wanted, device):
    rounding = 1e-5 if device == "cpu" else 5e-2
    allowed = rounding * (1e-2 + float(wanted.detach().abs().max()))
    torch.testing.assert_close(found, wanted, rtol=0, atol=allowed)


def check_gradients(plain, recording, batches, device):
    wanted, found = gradients(plain, *batches), gradients(recording, *batches)
    assert found.keys() == wanted.keys()
    for name in wanted:
        close(found[name], wanted[name], device)


def test_log_probs_and_values_are_those_of_the_plain_pass(device):
    plain, recording = pair(device)
    with torch.no_grad():
        for seed in range(4):
            check_scores(plain, recording, device, seed)
    assert len(recording.graph_caches["policy"]) == 1


def test_gradients_add_up_over_micro_batches(device):
    plain, recording = pair(device)
    for seed in (0, 10, 20):  # read as usual, recorded, played back
        batches = [inputs(device, seed), inputs(device, seed + 1)]
        check_gradients(plain, recording, batches, device)
    assert len(recording.graph_caches["policy"]) == 1


def check_scores(plain, recording, device, seed=0):
    found, wanted = recording(*inputs(device, seed)), plain(*inputs(device, seed))
    close(found.log_prob_T, wanted.log_prob_T, device)
    close(found.value_T, wanted.value_T, device)


def test_recorded_passes_read_the_updated_weights(device):
    plain, recording = pair(device)
    for _ in range(3):
        for model in (plain, recording):
            gradients(model, inputs(device))
            with torch.no_grad():
                for each in model.lm.parameters():
                    each -= 0.05 * each.grad
        check_scores(plain, recording, device)
        assert len(recording.graph_caches["policy"]) == 1  # from the first step on


def test_weights_that_were_moved_are_recorded_anew(device):
    plain, recording = pair(device)
    for _ in range(3):
        recording(*inputs(device))
    assert len(recording.graph_caches["policy"]) == 1
    for model in (plain, recording):
        for each in model.lm.parameters():
            each.data = each.data * 0.5
    kept = []
    for _ in range(3):
        check_scores(plain, recording, device)
        kept.append(len(recording.graph_caches["policy"]))
    assert kept == [0, 1, 1]  # forgotten, recorded, played back


def test_a_pass_whose_memory_was_used_again_does_not_go_back(device):
    _, recording = pair(device)
    for _ in range(2):
        recording(*inputs(device))
    first = recording(*inputs(device))
    recording(*inputs(device, 1))
    with pytest.raises(RuntimeError, match="backward"):
        first.log_prob_T.sum().backward()


def test_a_pass_that_cannot_be_recorded_runs_plainly_and_is_logged_once(
    monkeypatch, caplog, device
):
    error = RuntimeError("operation not permitted when stream is capturing")
    monkeypatch.setattr(cuda_graphs, "capture", Mock(side_effect=error))
    plain, recording = pair(device)
    for seed in range(4):
        check_scores(plain, recording, device, seed)
    assert caplog.text.count("operation not permitted") == 1


def read(recording, device, ids, times=1):
    """Read one sequence of ``ids`` ids; return which sizes are recorded then."""
    at, token = torch.tensor([3], device=device), torch.tensor([1], device=device)
    zeros = torch.zeros(ids, dtype=torch.int64, device=device)
    for _ in range(times):
        recording(zeros, torch.tensor([ids]), at, token)
    return {size.ids for size, _ in recording.graph_caches["policy"]._made}


def test_sizes_that_are_in_use_are_kept_and_others_run_as_usual(monkeypatch, device):
    monkeypatch.setattr(cuda_graphs, "MAX_GRAPHS", 2)
    monkeypatch.setattr(cuda_graphs, "IDLE", 8)
    _, recording = pair(device)
    read(recording, device, 40, times=2)
    for _ in range(10):  # in turns: to record each again would take longer than to read it
        for ids in (300, 600, 40):
            found = read(recording, device, ids)
    assert found == {128, 512}


def test_sizes_of_shrinking_batches_replace_those_of_before(monkeypatch, device):
    monkeypatch.setattr(cuda_graphs, "MAX_GRAPHS", 2)
    monkeypatch.setattr(cuda_graphs, "IDLE", 8)
    plain, recording = pair(device)
    assert read(recording, device, 600, times=4) == {1024}
    assert read(recording, device, 300, times=4) == {1024, 512}
    assert read(recording, device, 40, times=2) == {1024, 512}  # not idle for long enough
    assert read(recording, device, 40, times=6) == {128, 512}
    check_scores(plain, recording, device)


def test_small_passes_share_few_graphs_and_large_ones_are_padded_little():
    few, many = set(), set()
    dice = torch.Generator().manual_seed(0)
    for _ in range(200):
        rows = int(torch.randint(20, 60, (), generator=dice))
        packing = Packing.of(torch.randint(20, 60, (rows,), generator=dice))
        few.add(BucketSize.of(packing, few=True))
        many.add(BucketSize.of(packing))
    assert len(few) == 3  # 1,024, 2,048 and 4,096 ids
    assert len(many) > 8


def test_a_cpu_has_nothing_to_record():
    assert not can_capture(tiny_model(), torch.bfloat16)
    learner = Learner(tiny_model(), TrainingConfig())
    learner.use_cuda_graphs()
    assert not learner.model.graph_caches


def test_an_update_with_recorded_passes_ends_with_the_same_weights(device):
    ended = []
    for records in (False, True):
        learner = Learner(tiny_model(**WIDE).to(device), TrainingConfig(ppo_epochs=4))
        if records:
            learner.model.use_cuda_graphs()
        torch.manual_seed(0)
        learner.ppo.update(data())
        ended.append([each.detach().clone() for each in learner.lm.parameters()])
        assert not records or len(learner.model.graph_caches["policy"])
    for one, two in zip(*ended, strict=True):
        close(one, two, device)


@pytest.mark.parametrize("critic", ["shared", "separate"])
def test_shared_prefixes_are_read_once_in_a_recorded_pass(critic, device):
    plain, recording = pair(device, critic=critic)
    for seed in range(4):
        dice = torch.Generator().manual_seed(seed)
        rows = 12 + seed  # another number of sequences, and of keys, in the same bucket
        ids = torch.randint(0, 16, (rows, 40), generator=dice)
        ids[:, :30] = ids[0, :30]
        at = (torch.arange(rows) * 40 + 35).to(device)
        given = ids.flatten(), torch.full((rows,), 40), at, ids[:, 36].to(device)
        check_gradients(plain, recording, [given], device)
    caches = recording.graph_caches.values()
    assert [[size.keys > 0 for size, _ in each._made] for each in caches] == [[True]] * len(caches)


@pytest.mark.parametrize("shares", [False, True], ids=["whole", "shared prefixes"])
@pytest.mark.parametrize("few", [False, True], ids=["many", "few"])
@pytest.mark.parametrize("seed", range(40))
def test_a_bucket_size_fits_its_packing(seed, few, shares):
    dice = torch.Generator().manual_seed(seed)
    rows = int(torch.randint(2, 200, (), generator=dice))
    lengths = torch.randint(1, 4 ** (1 + seed % 6), (rows,), generator=dice)
    packing = Packing.of(lengths)
    if shares:
        found = share_prefixes(lengths.new_zeros(int(lengths.sum())), lengths, pads=False)
        packing = found.packing
    size, own = BucketSize.of(packing, few=few), len(packing.slot_S)
    filled = size.fill(packing)
    for each in (filled, size.empty()):
        assert each.rows == size.rows
        assert int(each.starts[-1]) == len(each.slot_S) == size.ids
        assert int(each.starts.diff().max()) <= size.longest == each.longest
    assert torch.equal(filled.position_S[:own], packing.position_S)
    assert torch.equal(filled.starts[: packing.rows + 1], packing.starts)
    assert size.ids <= max(own + 127, (2 if few else 1.25) * own + 1)
    if not shares:
        return
    for each in (filled.shared, size.empty().shared):
        used = int(each.starts[-1])
        assert len(each.index_K) == size.keys
        assert int(each.starts.diff().max()) <= size.most_keys == each.longest
        assert int(each.index_K[:used].max()) < size.ids
        assert (each.index_K[used:] == size.ids).all()
    keys = packing.shared.index_K
    assert torch.equal(filled.shared.index_K[: len(keys)], keys)
