"""What the viewer finds in a file of episodes: whole, growing, torn, damaged, compressed."""

import json

import gymnasium as gym
import pytest

from llm_gym.episodes import EpisodeWriter, play_episode, read_episodes, write_episodes
from llm_gym.errors import RecordError
from llm_gym.view import sources
from llm_gym.view.sources import EpisodeIndex
from tests.view.records import hostile, played, with_tokens


def indexed(path):
    found = EpisodeIndex(path)
    found.refresh()
    return found


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_record_comes_back_byte_by_byte(tmp_path, name):
    episodes = [played(1), with_tokens(), hostile()]
    write_episodes(tmp_path / name, episodes)
    found = indexed(tmp_path / name)
    assert [row.line for row in found.rows] == [1, 2, 3]
    assert [found.raw(row.line).decode() for row in found.rows] == [e.to_json() for e in episodes]


def test_a_row_tells_what_the_record_says(tmp_path):
    write_episodes(tmp_path / "a.jsonl", [with_tokens()])
    row = indexed(tmp_path / "a.jsonl").rows[0]
    assert (row.success, row.stop, row.reward, row.turns, row.tokens) == (True, "won", 1.25, 2, 6)
    assert (row.group, row.seed, row.snippet) == ("0", None, "go home")


def test_a_row_counts_the_replies_that_could_not_be_used(tmp_path):
    env = gym.make("llm_gym/GuessTheNumber-v0", max_turns=3)
    replies = iter(["no idea", "1000", "1"])
    write_episodes(tmp_path / "a.jsonl", [play_episode(env, lambda _: next(replies), seed=0)])
    assert indexed(tmp_path / "a.jsonl").rows[0].invalid == 2


def test_a_growing_file_is_read_from_where_the_last_reading_ended(tmp_path):
    path = tmp_path / "a.jsonl"
    with EpisodeWriter(path) as writer:
        writer.write(played(1))
        found = indexed(path)
        first = found.rows[0]
        writer.write(played(2))
        assert found.refresh()
        assert not found.refresh()
    assert [row.seed for row in found.rows] == ["1", "2"]
    assert found.rows[0] is first  # it was not read a second time
    assert found.raw(2).decode() == played(2).to_json()


def test_half_a_record_appears_when_it_is_whole(tmp_path):
    path, line = tmp_path / "a.jsonl", played(1).to_json() + "\n"
    path.write_text(line + line[:50])
    found = indexed(path)
    assert (len(found.rows), found.problems) == (1, [])
    path.write_text(line + line)
    found.refresh()
    assert (len(found.rows), found.problems) == (2, [])


def test_what_is_no_episode_is_named_and_the_rest_is_shown(tmp_path):
    path, line = tmp_path / "a.jsonl", played(1).to_json() + "\n"
    path.write_bytes(b"nonsense\n" + line.encode() + b"\xff\xfe\n\n" + b'{"schema": 99}\n')
    found = indexed(path)
    assert [row.line for row in found.rows] == [2]
    assert [problem.split(":")[0] for problem in found.problems] == ["line 1", "line 3", "line 5"]
    with pytest.raises(RecordError, match="no episode in line 1"):
        found.raw(1)


def test_a_line_that_is_too_long_is_left_out_and_the_next_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_LINE", 5000)
    path, line = tmp_path / "a.jsonl", played(1).to_json() + "\n"
    assert len(line) < 5000
    path.write_text(json.dumps({"schema": 1, "states": ["x" * 20_000]}) + "\n" + line)
    found = indexed(path)
    assert [row.line for row in found.rows] == [2]
    assert found.problems == ["line 1: longer than 5000 bytes"]
    assert found.raw(2).decode() == line.strip()


def test_a_file_of_too_many_episodes_is_shown_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_EPISODES", 2)
    write_episodes(tmp_path / "a.jsonl", [played(seed) for seed in range(4)])
    found = indexed(tmp_path / "a.jsonl")
    assert len(found.rows) == 2
    assert found.problems == ["only the first 2 episodes are shown"]


def test_a_file_that_was_replaced_is_read_again_and_one_that_went_is_empty(tmp_path):
    path = tmp_path / "a.jsonl"
    write_episodes(path, [played(1), played(2)])
    found = indexed(path)
    write_episodes(path, [played(3)])
    found.refresh()
    assert [row.seed for row in found.rows] == ["3"]
    path.unlink()
    assert found.refresh()
    assert found.rows == []


def test_words_are_found_in_what_was_read_and_written_in_any_case(tmp_path):
    write_episodes(tmp_path / "a.jsonl", [with_tokens(), played(1)])
    found = indexed(tmp_path / "a.jsonl")
    assert found.search("GO NORTH") == [1]
    assert found.search("schema") == []  # a name of the file's, not a word of the text
    assert len(list(read_episodes(tmp_path / "a.jsonl"))) == 2


def test_a_search_reads_a_compressed_file_once(tmp_path, monkeypatch):
    write_episodes(tmp_path / "a.jsonl.gz", [played(seed) for seed in range(30)])
    found = indexed(tmp_path / "a.jsonl.gz")
    opened = []
    monkeypatch.setattr(
        sources, "open_file", lambda path, _open=sources.open_file: opened.append(1) or _open(path)
    )
    assert found.search("guess") == [row.line for row in found.rows]
    assert len(opened) == 1


def test_records_that_change_under_a_search_are_not_found(tmp_path):
    path = tmp_path / "a.jsonl"
    write_episodes(path, [played(1), played(2)])
    found = indexed(path)
    path.write_bytes(b'["x", 1]\n\xff')
    assert found.search("guess") == []
    with pytest.raises(RecordError):
        found.raw(1)
