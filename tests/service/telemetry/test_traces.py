"""Traces: what a collector receives from a traced service, and that any other service knows nothing of them."""

import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from service.answering.answering import Answering
from service.settings import Settings
from tests.service.running import in_process, poll, server

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


class Collector(ThreadingHTTPServer):
    """Receives spans as a real collector would."""

    def __init__(self):
        self.spans = []
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.address = f"http://127.0.0.1:{self.server_port}"

    def trace(self, trace_id=TRACE):
        return {span.name: span for span in self.spans if span.trace_id.hex() == trace_id}


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        assert self.path == "/v1/traces"
        sent = ExportTraceServiceRequest()
        sent.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
        self.server.spans += [s for r in sent.resource_spans for scope in r.scope_spans for s in scope.spans]
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    with Collector() as collecting:
        thread = threading.Thread(target=collecting.serve_forever)
        thread.start()
        yield collecting
        collecting.shutdown()
        thread.join()


@pytest.fixture
def app(model, collector):
    with in_process(model.path, traces=collector.address, traces_share=0) as running:
        yield running


def flushed(app, collector):
    assert app.worker.tracer_provider.force_flush()
    return collector


def attributes(span):
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def test_a_request_is_one_trace_under_its_caller_s_span(app, collector):
    app.get("/recommend?user_id=u9&budget=64&exclude=i9,i10", headers=SAMPLED)
    spans = flushed(app, collector).trace()
    assert set(spans) == {"GET /recommend", "admission", "exclusions", "search", "writing"}
    request = spans.pop("GET /recommend")
    assert request.parent_span_id.hex() == PARENT
    assert {span.parent_span_id for span in spans.values()} == {request.span_id}
    search = attributes(spans["search"])
    assert (search["budgetrec.budget"], search["budgetrec.spent"]) == (64, 64)
    assert search["budgetrec.eligible"] == 2000 - 5 - 2
    assert search["budgetrec.entries_read"] >= 0
    assert attributes(spans["exclusions"]) == {"budgetrec.excluded": 2}
    assert attributes(spans["admission"])["budgetrec.model"] == "v1"


def test_what_a_filter_leaves_and_what_rules_did(app, collector):
    question = "/recommend?user_id=u9&budget=64&filter=in_stock&at_most=category:1&diversity=0.5"
    answer = app.get(question, headers=SAMPLED).json()
    spans = flushed(app, collector).trace()
    search, rules = attributes(spans["search"]), attributes(spans["rules"])
    assert spans["rules"].parent_span_id == spans["search"].span_id
    assert search["budgetrec.eligible"] == answer["eligible"]
    assert search["budgetrec.spent"] == answer["spent"]
    assert rules["budgetrec.spent"] == answer["rules"]["diversity"]["products"]
    assert [each.string_value for each in rules["budgetrec.changed_by"].values] == ["at_most", "diversity"]


def test_no_span_holds_the_id_of_a_user(app, collector):
    app.get("/recommend?user_id=u9&budget=64", headers=SAMPLED)
    app.post("/recommend", json={"user_id": "u9"}, headers=SAMPLED)
    spans = flushed(app, collector).spans
    assert len(spans) >= 8
    assert not [value for span in spans for value in attributes(span).values() if "u9" in str(value)]


def test_a_long_search_in_a_thread_belongs_to_its_request(model, collector):
    with in_process(model.path, traces=collector.address, traces_share=0, inline_ms=0) as app:
        app.get("/similar?item_id=i9&budget=512", headers=SAMPLED)
        spans = flushed(app, collector).trace()
    assert spans["search"].parent_span_id == spans["GET /similar"].span_id


def test_a_batch_has_spans_for_all_its_questions_together(app, collector):
    app.post("/recommend/batch", json={"requests": [{"user_id": "u9", "budget": 8}] * 50}, headers=SAMPLED)
    spans = flushed(app, collector).spans
    assert sorted(span.name for span in spans) == ["POST /recommend/batch", "batch", "search"]
    assert attributes(flushed(app, collector).trace()["search"])["budgetrec.spent"] == 400


def test_the_caller_decides_and_else_the_share(model, app, collector):
    app.get("/recommend?user_id=u9")
    app.get("/recommend?user_id=u9", headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    app.get("/health/ready", headers=SAMPLED)
    assert flushed(app, collector).spans == []
    with in_process(model.path, traces=collector.address, traces_share=1) as every:
        every.get("/recommend?user_id=u9")
        assert len(flushed(every, collector).spans) == 4


def test_exemplars_lead_from_a_histogram_to_a_trace(app):
    app.get("/recommend?user_id=u9&budget=64", headers=SAMPLED)
    app.get("/recommend?user_id=u9&budget=64")
    scrape = app.get("/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})
    assert scrape.headers["content-type"].startswith("application/openmetrics-text")
    assert scrape.text.endswith("# EOF\n")
    found = re.findall(
        r'^budgetrec_(request|search)_seconds_bucket\{budget_class="64",le="(\S+)"\} \S+ '
        r'# \{trace_id="(\w+)"\} (\S+) \S+$',
        scrape.text,
        flags=re.MULTILINE,
    )
    assert [name for name, *_ in found] == ["request", "search"]
    for _, bound, trace, seconds in found:
        assert trace == TRACE
        assert float(seconds) <= float(bound)
    plain = app.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert TRACE not in plain.text


def test_openmetrics_and_plain_text_have_the_same_numbers(app):
    app.get("/recommend?user_id=u9&budget=64")
    openmetrics = app.get("/metrics", headers={"Accept": "application/openmetrics-text"}).text
    series = r"^(budgetrec_(?!requests)\w+(?:_bucket|_total)\S*) (\S+)"
    plain = dict(re.findall(series, app.get("/metrics").text, flags=re.MULTILINE))
    assert dict(re.findall(series, openmetrics, flags=re.MULTILINE)) == plain
    assert len(plain) > 100


def test_the_real_service_sends_its_spans_at_the_latest_when_it_ends(model, collector, tmp_path):
    with server(model.path, tmp_path / "log", traces=collector.address, traces_share=0) as service:
        assert service.get("/recommend?user_id=u9&budget=8", headers=SAMPLED).json()["spent"] == 8
    poll(lambda: "search" in collector.trace(), "the spans to arrive")


def test_a_collector_that_is_not_there_harms_nobody(model):
    with in_process(model.path, traces="http://127.0.0.1:1", traces_share=1) as app:
        assert app.get("/recommend?user_id=u9").status_code == 200


def test_without_the_setting_nothing_of_it_is_loaded(model):
    with in_process(model.path) as app:
        assert type(app.worker.answering) is Answering
        assert app.worker.tracer_provider is None
    program = (
        "import sys, service.process.serving; print([m for m in sys.modules if m.startswith('opentelemetry.sdk')])"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


def test_missing_packages_are_said_at_the_start(monkeypatch):
    monkeypatch.setattr("service.settings.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"pip install '\.\[traces\]'"):
        Settings(traces="http://127.0.0.1:4318")
