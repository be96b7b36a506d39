"""Settings: every number bounded, three sources, no secret printed."""

from pathlib import Path

import annotated_types
import pytest
import structlog
from pydantic import ValidationError

from service import logs
from service.settings import Settings, unknown_variables


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in ("BUDGETREC_PORT", "BUDGETREC_MODELS", "BUDGETREC_SETTINGS_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_every_number_is_bounded_on_both_sides():
    for name, field in Settings.model_fields.items():
        if field.annotation in (int, float):
            kinds = {type(part) for part in field.metadata}
            assert {annotated_types.Ge, annotated_types.Le} <= kinds, name


def test_every_setting_says_what_it_is():
    assert all(field.description for field in Settings.model_fields.values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": 70000},
        {"workers": 0},
        {"default_budget": 0},
        {"monitor_share": 1.5},
        {"max_top_k": 10**9},
        {"no_such_setting": 1},
        {"default_budget": 100, "max_budget": 50},
        {"default_top_k": 20, "max_top_k": 10},
        {"overload_wait_ms": 100, "shed_wait_ms": 50},
        {"unknown_user": "explode"},
    ],
)
def test_out_of_bounds(wrong):
    with pytest.raises(ValidationError):
        Settings(**wrong)


def test_the_environment(monkeypatch):
    monkeypatch.setenv("BUDGETREC_PORT", "9001")
    monkeypatch.setenv("BUDGETREC_CORS_ORIGINS", "https://a.example,https://b.example")
    settings = Settings()
    assert settings.port == 9001
    assert settings.cors_origins == ("https://a.example", "https://b.example")


def test_arguments_beat_the_environment_beats_the_file(monkeypatch, tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text('port = 9001\nworkers = 3\ndefault_budget = 77\nlog_format = "json"\n')
    monkeypatch.setenv("BUDGETREC_SETTINGS_FILE", str(path))
    monkeypatch.setenv("BUDGETREC_PORT", "9002")
    settings = Settings(default_budget=88)
    assert (settings.port, settings.workers, settings.default_budget, settings.log_format) == (9002, 3, 88, "json")


def test_a_typing_error_in_the_file_is_found(monkeypatch, tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("prot = 9001\n")
    monkeypatch.setenv("BUDGETREC_SETTINGS_FILE", str(path))
    with pytest.raises(ValidationError, match="prot"):
        Settings()


def test_a_file_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("BUDGETREC_SETTINGS_FILE", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="BUDGETREC_SETTINGS_FILE"):
        Settings()


def test_variables_that_are_no_settings_are_found(monkeypatch):
    monkeypatch.setenv("BUDGETREC_DEFUALT_BUDGET", "64")
    monkeypatch.setenv("BUDGETREC_DEFAULT_BUDGET", "64")
    assert unknown_variables() == ["BUDGETREC_DEFUALT_BUDGET"]


def test_printing_shows_everything_but_keys():
    shown = Settings(api_keys="shop:shop-secret-key", admin_key="admin-secret").printable()
    assert set(shown) == set(Settings.model_fields)
    assert "secret" not in str(shown)


@pytest.mark.parametrize(("level", "expected"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_lines_below_the_level_are_not_written(level, expected, capsys):
    try:
        logs.configure(Settings(log_level=level, log_format="json"))
        for name in ("debug", "info", "warning", "error"):
            getattr(structlog.get_logger(f"{level}-{name}"), name)("a line")
    finally:
        structlog.reset_defaults()
    assert capsys.readouterr().err.count("a line") == expected


def test_one_model_or_several(monkeypatch, tmp_path):
    assert Settings(models="/models/a").folders == {"default": Path("/models/a")}
    monkeypatch.setenv("BUDGETREC_MODELS", '{"main": "/models/main", "new": "/models/new"}')
    assert Settings().folders == {"main": Path("/models/main"), "new": Path("/models/new")}
    monkeypatch.delenv("BUDGETREC_MODELS")
    file = tmp_path / "settings.toml"
    file.write_text(
        'models = {main = "/models/main", new = "/models/new"}\nexperiment = {name = "e", arms = {main = 9, new = 1}}\n'
    )
    monkeypatch.setenv("BUDGETREC_SETTINGS_FILE", str(file))
    settings = Settings()
    assert list(settings.folders) == ["main", "new"]
    assert settings.experiment.share("new") == 0.1
    assert settings.printable()["experiment"] == {"name": "e", "arms": {"main": 9, "new": 1}}
    assert settings.printable()["models"] == {"main": "/models/main", "new": "/models/new"}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"models": '{"main": '}, "models must be a path, or a JSON object of names and paths"),
        ({"models": "{}"}, "models has 0 names; give 1 to 16, or one path"),
        ({"models": {f"m{n}": "/models" for n in range(17)}}, "models has 17 names; give 1 to 16"),
        ({"models": {"two words": "/models"}}, "'two words' is no name for a model"),
        ({"models": {"main": ""}}, "the model main has no path; name its models folder"),
        ({"models": {"main": 5}}, "the model main has no path; name its models folder"),
        ({"experiment": '{"name": "e", "arms": {"main": 1}}'}, "has the arm 'main', and the models are: default"),
        (
            {"models": {"main": "a", "new": "b"}, "experiment": '{"name": "e", "arms": {"mian": 1}}'},
            "the experiment e has the arm 'mian', and the models are: main, new",
        ),
    ],
)
def test_models_and_experiments_that_cannot_be(wrong, sentence):
    with pytest.raises(ValidationError) as raised:
        Settings(**wrong)
    assert sentence in raised.value.errors()[0]["msg"]
