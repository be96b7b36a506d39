"""The documentation tells the truth: schemathesis asks for everything it promises, and its examples work."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.service.running import server

CALLS = [
    ("get", "/recommend"),
    ("post", "/recommend"),
    ("post", "/recommend/batch"),
    ("get", "/similar"),
    ("get", "/model"),
    ("get", "/budgets"),
    ("get", "/health/live"),
    ("get", "/health/ready"),
    ("get", "/metrics"),
    ("post", "/admin/reload"),
    ("post", "/admin/rollback"),
]


@pytest.fixture(scope="module")
def running(model, tmp_path_factory):
    with server(model.path, tmp_path_factory.mktemp("openapi") / "log", max_exclude=50, max_batch=5) as service:
        yield service


@pytest.fixture(scope="module")
def document(running):
    return running.get("/openapi.json").json()


@pytest.fixture(scope="module")
def schema(document):
    return schemathesis.openapi.from_dict(document)


def test_every_call_is_documented(document):
    assert [(method, path) for path, calls in document["paths"].items() for method in calls] == CALLS


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
@pytest.mark.parametrize(("method", "path"), CALLS, ids=[f"{method} {path}" for method, path in CALLS])
def test_every_call_does_what_it_says(running, schema, method, path, mode):
    operation = schema[path][method]
    if mode is GenerationMode.NEGATIVE and not (operation.query or operation.body or operation.headers):
        return  # nothing can be asked wrongly

    # A well-formed question may still be refused: a version that does not exist, two subjects at once.
    @settings(
        max_examples=40,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        case.call_and_validate(base_url=running.address, excluded_checks=[positive_data_acceptance])

    ask()
    assert running.get("/health/ready").status_code == 200


def test_examples_work_as_printed(running, document):
    for path in ("/recommend", "/similar"):
        examples = {p["name"]: p["example"] for p in document["paths"][path]["get"]["parameters"] if p["in"] == "query"}
        examples |= {"user_id": "u9"} if "user_id" in examples else {"item_id": "i9"}
        examples = {name: ",".join(value) if isinstance(value, list) else value for name, value in examples.items()}
        assert running.get(path, params=examples).status_code == 200
    for name, path in (("RecommendRequest", "/recommend"), ("BatchRequest", "/recommend/batch")):
        for example in document["components"]["schemas"][name]["examples"]:
            assert running.post(path, json=example).status_code == 200


def test_limits_are_those_of_settings_and_model(document, model):
    fields = document["components"]["schemas"]["RecommendRequest"]["properties"]
    assert fields["exclude"]["maxItems"] == 50
    vector = next(branch for branch in fields["vector"]["anyOf"] if branch["type"] == "array")
    assert (vector["minItems"], vector["maxItems"]) == (model.n_dims, model.n_dims)
    top_k = next(p for p in document["paths"]["/recommend"]["get"]["parameters"] if p["name"] == "top_k")
    assert top_k["schema"]["maximum"] == 1000


def test_the_page_for_people(running):
    page = running.get("/docs")
    assert page.status_code == 200
    assert "/openapi.json" in page.text
