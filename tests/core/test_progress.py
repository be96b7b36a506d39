"""Long work in a pipe says how far it is, and a line at the end of each stage."""

from greedy_core import progress


def test_a_pipe_gets_lines_now_and_then_and_one_at_the_end(capsys, monkeypatch):
    clock = iter([0.0, 1.0, 11.0, 12.0, 25.0, 26.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    with progress.progress_bar("working", 5_000, show=True) as advance:
        for _ in range(4):
            advance(1_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "working: 2,000 of 5,000, 11 s so far",
        "working: 4,000 of 5,000, 25 s so far",
        "working: 26.0 s",
    ]


def test_nothing_is_said_unasked(capsys):
    with progress.progress_bar("working", None, show=False) as advance:
        advance(1)
    assert capsys.readouterr() == ("", "")
