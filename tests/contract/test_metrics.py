"""What a Prometheus that was set up for TensorFlow Serving finds."""

from __future__ import annotations

import pytest

from support.clients import call
from support.prometheus import Sample, parse
from support.serving import Stand, model, serving

PATH = "/monitoring/prometheus/metrics"
TFS = ":tensorflow:serving:"


def scrape(stand: Stand, path: str = PATH) -> list[Sample]:
    answer = call(stand.http, "GET", path)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain")
    return parse(answer.body.decode())


def value(samples: list[Sample], name: str, **labels: str) -> float:
    found = [sample.value for sample in samples if sample.name == name and labels.items() <= sample.labels.items()]
    assert found, f"no {name} with {labels}"
    return sum(found)


@pytest.fixture(scope="module")
def counted():
    with serving(model("half", "Half", allowed_batch_sizes=(4, 64)), tfs_metrics=True) as stand:
        for _ in range(3):
            assert call(stand.http, "POST", "/v1/models/half:predict", '{"instances": [1.0, 2.0]}').status == 200
        assert call(stand.http, "POST", "/v1/models/half:predict", '{"instances": ["no"]}').status == 400
        assert call(stand.http, "POST", "/v1/models/made-up:predict", '{"instances": [1.0]}').status == 404
        yield stand


def test_requests_are_counted_under_its_names(counted: Stand):
    samples = scrape(counted)
    assert value(samples, f"{TFS}request_count", model_name="half", status="OK") == 3
    labels = {"model_name": "half", "API": "predict", "entrypoint": "REST"}
    assert value(samples, f"{TFS}request_latency_count", **labels) == 3
    assert value(samples, f"{TFS}request_latency_sum", **labels) > 0
    assert value(samples, f"{TFS}runtime_latency_count", model_name="half", API="Predict", runtime="TF1") == 3
    assert value(samples, f"{TFS}request_count", status="NOT_FOUND") == 1


def test_refused_requests_count_for_the_model_that_they_name(counted: Stand):
    samples, name = scrape(counted), f"{TFS}request_count"
    assert value(samples, name, model_name="half", status="INVALID_ARGUMENT") == 1
    others = [sample.labels["status"] for sample in samples if sample.labels.get("model_name") == "unknown"]
    assert others == ["NOT_FOUND"]


def test_status_and_metadata_are_requests_too():
    with serving(model("half", "Half"), tfs_metrics=True) as stand:
        for path, status in (("", 200), ("/metadata", 200), ("/versions/9/metadata", 404), ("/versions/9", 404)):
            assert call(stand.http, "GET", f"/v1/models/half{path}").status == status
        samples = scrape(stand)
    assert value(samples, f"{TFS}request_count", model_name="half", status="OK") == 2
    assert value(samples, f"{TFS}request_count", model_name="half", status="NOT_FOUND") == 2
    assert value(samples, f"{TFS}request_latency_count", model_name="half", API="", entrypoint="REST") == 2


def test_batches_are_counted_under_its_names(counted: Stand):
    samples, session = scrape(counted), f"{TFS}batching_session:"
    assert value(samples, f"{session}wrapped_run_count") == 3
    assert value(samples, f"{session}input_batch_size_sum") == 6
    assert value(samples, f"{session}processed_batch_size_sum") == 12
    assert value(samples, f"{session}padding_size_sum", execution_batch_size="4") == 6
    assert value(samples, f"{session}queuing_latency_count", thread_pool_name="") == 3


def test_labels_name_known_models_only(counted: Stand):
    names = {sample.labels.get("model_name", "half") for sample in scrape(counted)}
    assert names == {"half", "unknown"}


def test_loads_are_counted_by_path(counted: Stand):
    samples = scrape(counted)
    name = ":tensorflow:cc:saved_model:load_attempt_count"
    [load] = [sample for sample in samples if sample.name == name]
    assert (load.value, load.labels["status"]) == (1, "success")
    assert value(samples, ":tensorflow:cc:saved_model:load_latency", model_path=load.labels["model_path"]) > 0


def test_ours_are_there_as_well(counted: Stand):
    samples = scrape(counted)
    assert value(samples, "poise_requests_total", model="half", code="OK") == 3
    assert value(samples, "poise_version_state", model="half", version="1") == 30
    assert value(samples, "poise_serving_workers", model="half", version="1") == 1
    assert value(samples, "poise_load_seconds", model="half", version="1") > 0


def test_a_query_string_is_ignored(counted: Stand):
    assert scrape(counted, f"{PATH}?format=prometheus")


def test_without_the_setting_its_names_are_not_there(stand: Stand):
    assert not [sample for sample in scrape(stand) if sample.name.startswith(":")]


@pytest.mark.parametrize(("path", "status"), [("/other", 200), (PATH, 404)])
def test_the_path_is_a_setting(path, status):
    with serving(model("half", "Half"), monitoring_path="/other") as stand:
        assert call(stand.http, "GET", path).status == status


def test_processes_have_memory():
    with serving(model("half", "Half", isolation="process")) as stand:
        assert value(scrape(stand), "poise_model_memory_bytes", model="half", version="1") > 1 << 20


def test_switched_off_nothing_is_counted():
    with serving(model("half", "Half"), metrics=False, tfs_metrics=True) as stand:
        assert call(stand.http, "POST", "/v1/models/half:predict", '{"instances": [1.0]}').status == 200
        assert call(stand.http, "POST", "/v1/models/none:predict", '{"instances": [1.0]}').status == 404
        counted = [sample for sample in scrape(stand) if sample.value]
    assert counted == []
