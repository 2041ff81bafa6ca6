"""Flags and files of TensorFlow Serving, and the configuration that they come to."""

import logging

import pytest

from poise.cli import tfs_config, tfs_server, tfserving
from poise.cli.tfs_flags import parse
from poise.config import BatchSettings
from poise.errors import ConfigError

MODEL = "--model_base_path=/models/m"
PEM = "-----BEGIN X-----\\nAA==\\n-----END X-----\\n"
PLATFORM = """
    platform_configs { key: "tensorflow" value { source_adapter_config {
      [type.googleapis.com/tensorflow.serving.SavedModelBundleSourceAdapterConfig] { legacy_config {
        batching_parameters { max_batch_size { value: 32 } }
        enable_model_warmup: true
        saved_model_tags: "gpu"
      } } } } }
"""
TWO = """
    model_config_list {
      config { name: "a" base_path: "/models/a" model_platform: "tensorflow" }
      config { name: "b" base_path: "/models/b" model_platform: "onnxruntime" version_labels { key: "s" value: 2 } }
    }
"""


@pytest.fixture
def file(tmp_path):
    def write(text, name="file.txt"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.fixture(autouse=True)
def any_address(monkeypatch):
    monkeypatch.setattr(tfs_server, "any_address", lambda: "::")


def plan(*arguments):
    return tfs_config.plan(parse([MODEL, *arguments]))


def refused(*arguments):
    with pytest.raises(ConfigError) as caught:
        tfs_config.plan(parse(arguments))
    return str(caught.value)


def model(*arguments):
    [found] = plan(*arguments).config.models
    return found


class TestServer:
    def test_what_no_flag_says(self):
        server = plan().config.server
        assert (server.grpc, server.http) == ("[::]:8500", None)
        assert (server.default_timeout_s, server.rest_timeout_s) == (0.0, 30.0)
        assert (server.tensor_content, server.cors, server.admin, server.tfs_metrics) == (False, False, True, True)
        assert server.max_message_bytes == 2**31 - 1 <= server.max_body_bytes_held

    @pytest.mark.parametrize(
        ("arguments", "setting", "value"),
        [
            (["--port=9000"], "grpc", "[::]:9000"),
            (["--rest_api_port=8501"], "http", "[::]:8501"),
            (["--bind_address=127.0.0.1"], "grpc", "127.0.0.1:8500"),
            (["--bind_address=127.0.0.1", "--rest_api_port=1"], "http", "127.0.0.1:1"),
            (["--bind_address=::1", "--grpc_bind_address=10.0.0.1"], "grpc", "10.0.0.1:8500"),
            (["--bind_address=::1"], "grpc", "[::1]:8500"),
            (["--bind_address=[::1]"], "grpc", "[::1]:8500"),
            (["--rest_api_timeout_in_ms=1500"], "rest_timeout_s", 1.5),
            (["--rest_api_timeout_in_ms=-1"], "rest_timeout_s", 0.0),
            (["--rest_api_enable_cors_support"], "cors", True),
            (["--enable_serialization_as_tensor_content"], "tensor_content", True),
            (["--enable_admin=false"], "admin", False),
            (["--enable_reflection"], "reflection", True),
            (["--max_message_bytes=1000"], "max_message_bytes", 1000),
            (["--grpc_channel_arguments=grpc.max_concurrent_streams=7"], "max_concurrent_streams", 7),
            (["--grpc_channel_arguments=grpc.max_receive_message_length=77,a=b"], "max_message_bytes", 77),
        ],
        ids=str,
    )
    def test_flags(self, arguments, setting, value):
        assert getattr(plan(*arguments).config.server, setting) == value

    def test_a_unix_socket_beside_the_port_and_alone(self):
        beside = plan("--grpc_socket_path=/run/s").config.server
        assert (beside.grpc, beside.grpc_socket) == ("[::]:8500", "/run/s")
        alone = plan("--grpc_socket_path=/run/s", "--port=0").config.server
        assert (alone.grpc, alone.http, alone.grpc_socket) == (None, None, "/run/s")

    def test_monitoring(self, file):
        path = file("prometheus_config { enable: true path: '/m' }")
        found = plan(f"--monitoring_config_file={path}", "--rest_api_port=1")
        assert found.config.server.monitoring_path == "/m"
        assert found.notes == ()
        off = plan(f"--monitoring_config_file={path}")
        assert "metrics are on the HTTP port, and --rest_api_port is 0" in off.notes[0]

    def test_ssl(self, file):
        path = file(f"server_key: '{PEM}' server_cert: '{PEM}' custom_ca: '{PEM}' client_verify: true")
        server = plan(f"--ssl_config_file={path}", "--rest_api_ssl", "--rest_api_port=1").config.server
        assert server.tls_key == server.tls_cert == server.tls_client_ca == PEM.replace("\\n", "\n")
        assert server.tls_http
        assert not plan(f"--ssl_config_file={path}", "--rest_api_port=1").config.server.tls_http
        assert not plan(f"--ssl_config_file={path}", "--rest_api_ssl").config.server.tls_http

    def test_config(self):
        config = plan("--drain_delay_seconds=1", "--drain_timeout_seconds=2", "--require_all_models").config
        assert (config.drain_delay_s, config.drain_timeout_s, config.require_all_models) == (1.0, 2.0, True)


class TestModels:
    def test_one_by_flags(self):
        found = model("--model_name=x")
        assert (found.name, found.path, found.backend, found.versions) == ("x", "/models/m", "auto", 1)

    @pytest.mark.parametrize(
        ("arguments", "setting", "value"),
        [
            ([], "poll_interval_s", 1.0),
            (["--file_system_poll_wait_seconds=0"], "poll_interval_s", 0.0),
            (["--file_system_poll_wait_seconds=-1"], "poll_interval_s", 0.0),
            (["--file_system_poll_wait_seconds=30"], "poll_interval_s", 30.0),
            ([], "load_attempts", 6),
            (["--max_num_load_retries=0"], "load_attempts", 1),
            (["--max_num_load_retries=-3"], "load_attempts", 1),
            ([], "load_retry_max_s", 60.0),
            (["--load_retry_interval_micros=5000000"], "load_retry_max_s", 5.0),
            (["--load_retry_interval_micros=-1"], "load_retry_max_s", 1.0),
            (["--load_timeout_seconds=9"], "load_timeout_s", 9.0),
            (["--load_policy=resource"], "load_policy", "resource"),
            (["--num_workers=3"], "workers", 3),
            ([], "warmup", True),
            (["--enable_model_warmup=false"], "warmup", False),
            (["--num_request_iterations_for_warmup=4"], "warmup_iterations", 4),
            ([], "options", {}),
            (["--tensorflow_session_parallelism=2"], "options", {"intra_op_threads": 2, "inter_op_threads": 2}),
            (["--tensorflow_intra_op_parallelism=3"], "options", {"intra_op_threads": 3}),
            (["--tensorflow_inter_op_parallelism=4"], "options", {"inter_op_threads": 4}),
            (["--per_process_gpu_memory_fraction=0.5"], "options", {"gpu_memory_fraction": 0.5}),
            (["--xla_cpu_compilation_enabled"], "options", {"xla": True}),
            (["--xla_gpu_compilation_enabled"], "options", {"xla": True}),
            (["--mixed_precision=bfloat16"], "options", {"mixed_precision": "bfloat16"}),
            (["--saved_model_tags=serve"], "options", {}),
            (["--saved_model_tags=serve, gpu"], "options", {"tags": ["serve", "gpu"]}),
        ],
        ids=str,
    )
    def test_flags(self, arguments, setting, value):
        assert getattr(model(*arguments), setting) == value

    def test_a_session_file_and_flags_over_it(self, file):
        path = file("intra_op_parallelism_threads: 7 allow_soft_placement: true")
        found = model(f"--tensorflow_session_config_file={path}", "--tensorflow_intra_op_parallelism=2")
        assert found.options == {"intra_op_threads": 2, "session_config": {"allow_soft_placement": True}}

    def test_a_file_of_models(self, file):
        found = plan(f"--model_config_file={file(TWO)}", "--xla_cpu_compilation_enabled")
        first, second = found.config.models
        assert (first.name, first.backend, first.options) == ("a", "auto", {"xla": True})
        assert (second.name, second.backend, second.options) == ("b", "onnxruntime", {})
        assert second.labels == {"s": 2}
        assert found.notes == ("--model_base_path has no effect: --model_config_file names the models",)

    def test_the_file_is_read_again(self, file):
        found = plan(f"--model_config_file={file(TWO)}", "--model_config_file_poll_wait_seconds=5")
        assert found.poll_s == 5.0
        assert found.models_file.read() == found.config.models
        file(TWO.replace('"a"', '"c"'))
        assert [one.name for one in found.models_file.read()] == ["c", "b"]
        file("# nothing said")
        assert [one.name for one in found.models_file.read()] == ["c", "b"]
        file("model_config_list {")
        with pytest.raises(ConfigError, match="Error parsing text-format "):
            found.models_file.read()
        file("model_config_list {}")
        assert found.models_file.read() == ()

    def test_labels_that_may_wait(self):
        assert not plan().new_labels_may_wait
        assert plan("--allow_version_labels_for_unavailable_models").new_labels_may_wait


class TestBatching:
    def test_is_off(self):
        assert model().batching == BatchSettings(enable_batching=False, max_run_s=300.0)

    def test_without_a_file_is_as_in_tensorflow_serving(self):
        found = model("--enable_batching", "--max_run_seconds=9").batching
        assert (found.enable_batching, found.max_batch_size, found.max_enqueued_batches) == (True, 1000, 10)
        assert found.max_run_s == 9.0

    def test_with_a_file(self, file):
        found = plan("--enable_batching", f"--batching_parameters_file={file('num_batch_threads { value: 8 }')}")
        assert found.config.models[0].workers == 1
        assert "num_batch_threads of 8 has no effect" in found.notes[0]
        assert "--num_workers" in found.notes[0]

    def test_per_model(self):
        found = plan("--enable_batching", "--enable_per_model_batching_parameters")
        assert found.per_model_batching
        off = plan("--enable_per_model_batching_parameters")
        assert not off.per_model_batching
        assert off.notes == ("--enable_per_model_batching_parameters has no effect without --enable_batching",)


class TestPlatform:
    def test_takes_the_place_of_flags(self, file):
        found = plan(
            f"--platform_config_file={file(PLATFORM)}", "--saved_model_tags=x", "--xla_cpu_compilation_enabled"
        )
        [one] = found.config.models
        assert (one.batching.enable_batching, one.batching.max_batch_size) == (True, 32)
        assert (one.options, one.warmup) == ({"tags": ["gpu"]}, True)
        assert found.notes == ("--saved_model_tags has no effect: --platform_config_file says it all",)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "Both server_options.model_base_path and server_options.model_config_file are empty!"),
        (["--model_base_path=m"], "Expected model default to have an absolute path or URI; got base_path()=m"),
        (
            [MODEL, "--port=0"],
            "At least one of server_options.grpc_port or server_options.grpc_socket_path must be set",
        ),
        ([MODEL, "--rest_api_port=8500"], "--port and --rest_api_port are both 8500; expected two different ones"),
        ([MODEL, "--rest_api_port=65536"], "--rest_api_port: expected a port from 0 to 65535; got 65536"),
        ([MODEL, "--port=-1"], "--port: expected a port from 0 to 65535; got -1"),
        (
            [MODEL, "--batching_parameters_file=/no/such"],
            "batching_parameters_file is set without setting server_options.enable_batching to true",
        ),
        ([MODEL, "--enable_batching", "--batching_parameters_file=/no/such"], "/no/such: cannot be read"),
        (["--model_config_file=/no/such"], "/no/such: cannot be read: No such file or directory"),
        ([MODEL, "--ssl_config_file=/no/such"], "/no/such: cannot be read"),
        ([MODEL, "--monitoring_config_file=/no/such"], "/no/such: cannot be read"),
        ([MODEL, "--platform_config_file=/no/such"], "/no/such: cannot be read"),
        ([MODEL, "--tensorflow_session_config_file=/no/such"], "/no/such: cannot be read"),
        ([MODEL, "--use_alts_credentials"], "--use_alts_credentials: there is no ALTS here"),
        ([MODEL, "--num_workers=0"], "--num_workers: expected at least 1; got 0"),
        ([MODEL, "--mixed_precision=fp8"], "--mixed_precision: expected \"bfloat16\"; got 'fp8'"),
        ([MODEL, "--load_policy=never"], "--load_policy: expected one of availability, resource; got 'never'"),
        ([MODEL, "--log_level=loud"], "--log_level: expected one of DEBUG, INFO, WARNING, ERROR; got 'loud'"),
        ([MODEL, "--grpc_channel_arguments=a"], "--grpc_channel_arguments: expected k=v,k=v; got 'a'"),
        (
            [MODEL, "--grpc_channel_arguments=grpc.max_concurrent_streams=x"],
            "grpc.max_concurrent_streams: expected a whole number; got 'x'",
        ),
        (
            [MODEL, *(f"--tensorflow_{name}_parallelism=1" for name in ("session", "intra_op", "inter_op"))],
            "expected it, or these two, not all three",
        ),
        ([MODEL, "--load_timeout_seconds=-1"], "load_timeout_s must be positive"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_refused_and_how(arguments, text):
    assert text in refused(*arguments)


def test_the_summary_says_what_is_served_and_what_has_no_effect(file):
    found = plan(
        f"--model_config_file={file(TWO)}", "--rest_api_port=8501", "--grpc_max_threads=4", "--enable_profiler=false"
    )
    text = "\n".join(tfserving.summary(found))
    assert text.startswith("gRPC at [::]:8500, HTTP at [::]:8501\n")
    assert "a: no version yet" in text
    assert "is read again at SIGHUP" in text
    assert "note: --grpc_max_threads has no effect: no thread waits for a request" in text
    assert "note: --enable_profiler has no effect: there is no profiler service" in text


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "not batched"),
        (("--enable_batching",), "batches up to 1000 rows not waiting"),
        (
            ("--enable_batching", "--enable_per_model_batching_parameters"),
            "batched by batching_params.pbtxt of each version",
        ),
    ],
)
def test_the_summary_says_how_models_are_batched(file, flags, said):
    [line] = [line for line in tfserving.summary(plan(f"--model_config_file={file(TWO)}", *flags)) if line[:3] == "a: "]
    assert f", {said}, " in line


def test_logging_of_requests_is_said_to_be_without_effect(file, caplog):
    config = TWO.replace('name: "a"', 'name: "a" logging_config { sampling_config { sampling_rate: 0.1 } }')
    with caplog.at_level(logging.WARNING):
        plan(f"--model_config_file={file(config)}")
    assert "model a: logging_config is accepted" in caplog.text


def test_how_models_may_change_later(file):
    found = plan(f"--model_config_file={file(TWO)}", "--enable_batching", "--enable_per_model_batching_parameters")
    control = tfserving.control(found)
    assert control.reread() == found.config.models
    assert control.formats.read({"model_config_list": {"config": [{"name": "c", "base_path": "/c"}]}})[0].warmup
    assert not control.batching(found.config.models[0], "/no/such").enable_batching
