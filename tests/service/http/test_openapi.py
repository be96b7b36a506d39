"""The documentation tells the truth: schemathesis asks for everything it promises, and its examples work."""

from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from clients import openapi
from service import demo
from tests.service.running import server

CALLS = [
    ("get", "/recommend"),
    ("post", "/recommend"),
    ("post", "/recommend/batch"),
    ("get", "/similar"),
    ("get", "/model"),
    ("get", "/models"),
    ("get", "/budgets"),
    ("get", "/scenarios"),
    ("get", "/health/live"),
    ("get", "/health/ready"),
    ("get", "/metrics"),
    ("post", "/admin/reload"),
    ("post", "/admin/rollback"),
    ("get", "/items"),
    ("get", "/users"),
    ("get", "/attributes"),
    ("get", "/versions"),
]


@pytest.fixture(scope="module")
def running(model, tmp_path_factory):
    # A filter that is longer than it may be is to be read and refused, although it is written in a query string.
    limits = {"max_exclude": 50, "max_batch": 5, "header_limit": 1 << 20}
    with server(model.path, tmp_path_factory.mktemp("openapi") / "log", **limits) as service:
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


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """The service that `make serve` starts: whoever reads the examples has it before them."""
    folder = tmp_path_factory.mktemp("shop")
    demo.make(folder / "demo")
    with server(folder / "demo", folder / "log", scenarios=demo.SCENARIOS) as service:
        yield service


def questions_of(path, method, call, schemas):
    """Every example of a call as a request: each parameter with those that are required, and each body."""
    parameters = call.get("parameters", [])
    assert [p["name"] for p in parameters if "examples" not in p["schema"]] == []
    # Who is asked for comes first, also where it may be said in another way.
    required = [p for p in parameters if p["required"]] or parameters[:1]
    for parameter in parameters:
        query, headers = {}, {}
        # Similar to one item or to several, not both.
        alone = path == "/similar" and parameter["name"] == "items"
        for each in [parameter] if alone else [*required, parameter]:
            (value,) = each["schema"]["examples"]
            text = ",".join(value) if isinstance(value, list) else str(value).lower()
            (query if each["in"] == "query" else headers)[each["name"]] = text
        if "requestBody" not in call:
            yield {"method": method, "url": path, "params": query, "headers": headers}
    content = call.get("requestBody", {}).get("content", {})
    for schema in (media["schema"] for media in content.values()):
        for branch in schema.get("anyOf", [schema]):
            for example in schemas[branch["$ref"].rpartition("/")[2]]["examples"] if "$ref" in branch else []:
                yield {"method": method, "url": path, "json": example}


def test_every_example_works_as_printed(shop, document):
    asked = [
        question
        for path, calls in document["paths"].items()
        for method, call in calls.items()
        for question in questions_of(path, method, call, document["components"]["schemas"])
    ]
    assert len(asked) >= 15
    for question in asked:
        answer = shop.client.request(**question)
        assert answer.status_code == 200, (question, answer.text)
        # An example that finds nothing shows nothing.
        found = answer.json() if answer.headers["content-type"] == "application/json" else {}
        assert "items" not in found or found["items"], (question, answer.text)


# The vocabulary of JSON Schema 2020-12, as far as it says anything about a value.
KEYWORDS = {
    "$ref", "type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
    "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties",
    "required", "properties", "additionalProperties", "patternProperties", "propertyNames", "items", "prefixItems",
    "anyOf", "oneOf", "allOf", "not", "title", "description", "default", "examples", "format", "deprecated",
    "readOnly", "writeOnly", "discriminator",
}  # fmt: skip


def schemas_in(node):
    """Every schema of a part of the document, however deep."""
    yield node
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for each in node.get(key, []):
            yield from schemas_in(each)
    for key in ("properties", "patternProperties"):
        for each in node.get(key, {}).values():
            yield from schemas_in(each)
    for key in ("items", "additionalProperties", "not"):
        if isinstance(node.get(key), dict):
            yield from schemas_in(node[key])


def test_every_keyword_is_one_of_json_schema(document):
    roots = list(document["components"]["schemas"].values())
    roots += [
        p["schema"] for calls in document["paths"].values() for c in calls.values() for p in c.get("parameters", [])
    ]
    assert {key for root in roots for schema in schemas_in(root) for key in schema} <= KEYWORDS


def test_the_kept_document_is_that_of_the_code():
    kept = (Path(openapi.__file__).parent / "openapi.json").read_text()
    assert kept == openapi.text(), "run `make client`"


def test_limits_are_those_of_settings_and_model(document, model):
    fields = document["components"]["schemas"]["RecommendRequest"]["properties"]
    assert fields["exclude"]["maxItems"] == 50
    vector = next(branch for branch in fields["vector"]["anyOf"] if branch["type"] == "array")
    assert (vector["minItems"], vector["maxItems"]) == (model.n_dims, model.n_dims)
    top_k = next(p for p in document["paths"]["/recommend"]["get"]["parameters"] if p["name"] == "top_k")
    assert top_k["schema"]["maximum"] == 1000
