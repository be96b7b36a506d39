"""The measurement of a large table runs all stages of a training, and says what each took."""

from loadtests.index import many_events


def test_a_line_for_each_stage_and_the_table_is_kept(tmp_path, capsys):
    asked = ["--events", "4000", "--users", "90", "--items", "30", "--file", str(tmp_path / "e.parquet")]
    many_events.main(asked)
    heads, _, *stages, last = capsys.readouterr().out.splitlines()
    assert heads == "| stage | seconds | peak so far, GB |"
    assert [line.split(" | ")[0].removeprefix("| ").split(",")[0] for line in stages] == [
        "reading",
        "what counts",
        "holding out the last tenth",
        "a round of ALS with 8 factors",
    ]
    assert last.startswith("4,000 events of 90 users and 30 items in")
    written = (tmp_path / "e.parquet").stat().st_mtime_ns
    many_events.main(asked)
    assert (tmp_path / "e.parquet").stat().st_mtime_ns == written
