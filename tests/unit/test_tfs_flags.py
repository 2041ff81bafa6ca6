import subprocess
import sys

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from poise.cli import main
from poise.cli.tfs_flags import FLAGS, GROUPS, OURS, convert, parse, shown_default, without_effect
from poise.errors import ConfigError

DEFAULTS = {
    "port": 8500,
    "grpc_socket_path": "",
    "rest_api_port": 0,
    "rest_api_timeout_in_ms": 30000,
    "rest_api_enable_cors_support": False,
    "enable_batching": False,
    "batching_parameters_file": "",
    "enable_per_model_batching_parameters": False,
    "allow_version_labels_for_unavailable_models": False,
    "model_config_file": "",
    "model_config_file_poll_wait_seconds": 0,
    "model_name": "default",
    "model_base_path": "",
    "num_load_threads": 0,
    "num_unload_threads": 0,
    "max_num_load_retries": 5,
    "load_retry_interval_micros": 60_000_000,
    "file_system_poll_wait_seconds": 1,
    "flush_filesystem_caches": True,
    "tensorflow_session_parallelism": 0,
    "tensorflow_intra_op_parallelism": 0,
    "tensorflow_inter_op_parallelism": 0,
    "tensorflow_session_config_file": "",
    "platform_config_file": "",
    "per_process_gpu_memory_fraction": 0.0,
    "saved_model_tags": "serve",
    "grpc_channel_arguments": "",
    "enable_model_warmup": True,
    "num_request_iterations_for_warmup": 0,
    "monitoring_config_file": "",
    "ssl_config_file": "",
    "use_alts_credentials": False,
    "remove_unused_fields_from_bundle_metagraph": True,
    "prefer_tflite_model": False,
    "num_tflite_interpreters_per_pool": 1,
    "enable_signature_method_name_check": False,
    "xla_cpu_compilation_enabled": False,
    "xla_gpu_compilation_enabled": False,
    "enable_profiler": True,
    "thread_pool_factory_config_file": "",
    "mixed_precision": "",
    "skip_initialize_tpu": False,
    "enable_grpc_healthcheck_service": False,
    "enable_serialization_as_tensor_content": False,
    "version": False,
}
"""Of tensorflow_model_server; the three that depend on the machine are left out."""
OF_THE_MACHINE = {"rest_api_num_threads", "grpc_max_threads", "num_tflite_pools"}


class TestTable:
    def test_every_flag_of_tensorflow_serving_is_there_with_its_default(self):
        ours = {flag.name for flag in OURS}
        theirs = {name: flag.default for name, flag in FLAGS.items() if name not in ours | OF_THE_MACHINE}
        assert theirs == DEFAULTS
        assert set(FLAGS) >= OF_THE_MACHINE

    def test_no_flag_is_there_twice(self):
        assert sum(map(len, GROUPS.values())) == len(FLAGS)

    @pytest.mark.parametrize("flag", FLAGS.values(), ids=lambda flag: flag.name)
    def test_a_default_written_on_the_line_is_that_default(self, flag):
        text = shown_default(flag).strip('"')
        assert parse([f"--{flag.name}={text}"])[flag.name] == flag.default

    @pytest.mark.parametrize("flag", FLAGS.values(), ids=lambda flag: flag.name)
    def test_flags_without_effect_say_why_and_others_what_they_do(self, flag):
        assert flag.help
        said = list(without_effect(parse([f"--{flag.name}={flag.default}"])))
        assert said == ([f"--{flag.name} has no effect: {flag.unused}"] if flag.unused else [])


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--port=9000"], "port", 9000),
        (["--port", "9000"], "port", 9000),
        (["-port=9000"], "port", 9000),
        (["--port=1", "--port=2"], "port", 2),
        (["--load_retry_interval_micros=-1"], "load_retry_interval_micros", -1),
        (["--max_num_load_retries", "-1"], "max_num_load_retries", -1),
        (["--model_name=a=b"], "model_name", "a=b"),
        (["--model_name="], "model_name", ""),
        (["--per_process_gpu_memory_fraction=0.5"], "per_process_gpu_memory_fraction", 0.5),
        (["--enable_batching"], "enable_batching", True),
        (["--enable_batching=1"], "enable_batching", True),
        (["--enable_batching=TRUE"], "enable_batching", True),
        (["--enable_batching", "true"], "enable_batching", True),
        (["--enable_batching", "--port=1"], "enable_batching", True),
        (["--enable_model_warmup=False"], "enable_model_warmup", False),
        (["--enable_model_warmup=0"], "enable_model_warmup", False),
        (["--enable_model_warmup", "false"], "enable_model_warmup", False),
    ],
    ids=str,
)
def test_how_a_flag_may_be_written(arguments, name, value):
    line = parse(arguments)
    assert line[name] == value
    assert name in line.given


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--prot=9000"], "unknown argument: --prot=9000; did you mean --port?"),
        (["--model-name=m"], "unknown argument: --model-name=m; did you mean --model_name?"),
        (["--frobnicate"], "unknown argument: --frobnicate; see --help"),
        (["models"], "unknown argument: models; flags begin with --"),
        (["--"], "unknown argument: --"),
        (["--prot=1", "--model=m"], "unknown argument: --model=m"),
        (["--port"], "--port: the value is missing; expected --port=VALUE"),
        (["--port=abc"], "--port: expected a whole number of 32 bits; got 'abc'"),
        (["--port=8500.0"], "--port: expected a whole number of 32 bits"),
        (["--port=2147483648"], "--port: expected a whole number of 32 bits"),
        (["--load_retry_interval_micros=9223372036854775808"], "expected a whole number of 64 bits"),
        (["--enable_batching=yes"], "--enable_batching: expected true, false, 1 or 0; got 'yes'"),
        (["--per_process_gpu_memory_fraction=inf"], "expected a number; got 'inf'"),
        (["--per_process_gpu_memory_fraction=x"], "expected a number; got 'x'"),
    ],
    ids=str,
)
def test_what_is_refused_and_how(arguments, text):
    with pytest.raises(ConfigError) as caught:
        parse(arguments)
    assert text in str(caught.value)


def test_unknown_flags_may_be_let_through():
    line = parse(["--prot=9000", "--allow_unknown_flags", "--port=1"])
    assert line["port"] == 1
    assert line.unknown == ("unknown argument: --prot=9000; did you mean --port?",)


@given(st.lists(st.text(max_size=8) | st.sampled_from([f"--{name}" for name in FLAGS])))
def test_any_line_is_read_or_refused(arguments):
    try:
        parse(arguments)
    except ConfigError:
        return


@given(st.sampled_from(list(FLAGS.values())), st.text(max_size=12))
def test_any_value_is_read_or_refused(flag, text):
    try:
        value = convert(flag, text)
    except ConfigError:
        return
    assert isinstance(value, type(flag.default))


def invoke(*arguments):
    return CliRunner().invoke(main, ["tfserving", *arguments])


class TestCommand:
    @pytest.mark.parametrize("argument", ["--help", "-h"])
    def test_help_has_every_flag_in_its_group(self, argument):
        shown = invoke(argument).output
        assert all(f"{title}:" in shown for title in GROUPS)
        assert all(f"--{name}" in shown for name in FLAGS)

    def test_version(self):
        result = invoke("--version", "--port=0")
        assert result.exit_code == 0
        assert result.output.startswith("Poise ")

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["--prot=1"], "did you mean --port?"),
            ([], "Both server_options.model_base_path and server_options.model_config_file are empty!"),
        ],
        ids=["unknown", "nothing to serve"],
    )
    def test_what_is_wrong_is_said_and_nothing_starts(self, arguments, text):
        result = invoke(*arguments)
        assert result.exit_code == 2
        assert text in result.output

    def test_checking_imports_no_backend(self):
        code = (
            "import sys; from poise.cli import main;"
            "main(['tfserving', '--check', '--model_base_path=/no/such'], standalone_mode=False);"
            "assert not {'onnxruntime', 'openvino', 'tensorflow'} & set(sys.modules)"
        )
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert "default: no version yet" in shown
