"""TensorFlow Serving's text files, each into what it comes to here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.config import BatchSettings, ModelConfig
from poise.errors import ConfigError
from poise.formats import batching_parameters, server_files, session_bundle, text_proto

SPLIT = "enable_large_batch_splitting { value: true }"
PEM = "-----BEGIN X-----\\nAA==\\n-----END X-----\\n"
PEM_TEXT = "-----BEGIN X-----\nAA==\n-----END X-----\n"


@pytest.fixture
def written(tmp_path):
    def write(text, name="file.txt"):
        file = tmp_path / name
        file.write_text(text)
        return file

    return write


class TestTextProto:
    def test_what_is_no_text_of_the_message_is_refused_in_the_words_of_tensorflow_serving(self, written):
        file = written("model_config_list: { config: { nme: 'm' } }")
        with pytest.raises(ConfigError) as caught:
            text_proto.read(file, "ModelServerConfig")
        assert f"Invalid protobuf file: '{file}'" in str(caught.value)
        assert "Error parsing text-format tensorflow.serving.ModelServerConfig: " in str(caught.value)

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(ConfigError, match=r"none\.txt: cannot be read: No such file or directory"):
            text_proto.read(tmp_path / "none.txt", "ModelServerConfig")

    def test_a_file_that_is_no_text(self, tmp_path):
        file = tmp_path / "binary"
        file.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ConfigError, match="expected text in UTF-8"):
            text_proto.read(file, "ModelServerConfig")

    @given(st.text(max_size=40) | st.text("{}[]:'\"value max_batch_size 12,;#\n", max_size=60))
    def test_any_text_is_read_or_refused(self, text):
        try:
            batching_parameters.from_json(text_proto.parse(text, "BatchingParameters"), "file")
        except ConfigError:
            return


def batching(written, text):
    return batching_parameters.read(written(text))


class TestBatchingParameters:
    def test_unset_fields_are_as_in_tensorflow_serving(self, written):
        found = batching(written, "")
        assert found.num_batch_threads is None
        assert found.settings == BatchSettings(
            max_batch_size=1000, batch_timeout_micros=0, max_enqueued_batches=10, enable_large_batch_splitting=False
        )

    @pytest.mark.parametrize("wrap", ["%s", "dynamic_batching { %s }", "dynamic_batching: { %s }"])
    def test_all_fields(self, written, wrap):
        text = """
            max_batch_size { value: 128 }  # rows
            batch_timeout_micros { value: 1500 }
            max_enqueued_batches: { value: 1000000 }
            num_batch_threads { value: 8 }
            thread_pool_name { value: 'pool' }
            allowed_batch_sizes: 16, allowed_batch_sizes: 64
            pad_variable_length_inputs: true
            enable_large_batch_splitting { value: true }
            max_execution_batch_size { value: 64 }
        """
        found = batching(written, wrap % text.replace(",", ""))
        assert found.num_batch_threads == 8
        assert found.settings == BatchSettings(
            max_batch_size=128,
            batch_timeout_micros=1500,
            max_enqueued_batches=1_000_000,
            allowed_batch_sizes=(16, 64),
            pad_variable_length_inputs=True,
            enable_large_batch_splitting=True,
            max_execution_batch_size=64,
        )

    @pytest.mark.parametrize(
        ("text", "attribute", "value"),
        [
            ("allowed_batch_sizes: [4, 8] max_batch_size { value: 8 }", "allowed_batch_sizes", (4, 8)),
            ("max_enqueued_batches { value: 0 }", "max_enqueued_batches", 1),
            ("max_execution_batch_size { value: 4 }", "max_execution_batch_size", 0),
            ("enable_large_batch_splitting { value: true }", "execution_size", 1000),
        ],
    )
    def test_quirks(self, written, text, attribute, value):
        assert getattr(batching(written, text).settings, attribute) == value

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("batch_timeout_micros { value: -1 }", "batch_timeout_micros must be non-negative; was -1"),
            ("num_batch_threads { value: 0 }", "num_batch_threads must be positive; was 0"),
            ("max_batch_size { value: 0 }", "max_batch_size must be positive; was 0"),
            (
                "max_enqueued_batches { value: 0 } enable_large_batch_splitting { value: true }",
                "max_enqueued_batches must be positive; was 0",
            ),
            (
                "max_batch_size { value: 4 } allowed_batch_sizes: [2, 8]",
                "Last entry in allowed_batch_sizes must match max_batch_size; last entry was 8; expected 4",
            ),
            (
                "max_batch_size { value: 8 } allowed_batch_sizes: [2, 8] max_execution_batch_size { value: 4 } "
                + SPLIT,
                "Last entry in allowed_batch_sizes must match max_execution_batch_size; last entry was 8; expected 4",
            ),
            ("max_batch_size { value: 2 } allowed_batch_sizes: [4, 2]", "must be positive and ascending; was [4, 2]"),
            ("max_batch_size: 4", "Error parsing text-format tensorflow.serving.BatchingParameters: "),
            ("dynamic_batching {} max_batch_size { value: 1 }", "expected all fields within dynamic_batching, or none"),
        ],
    )
    def test_what_is_refused_and_how(self, written, text, said):
        with pytest.raises(ConfigError) as caught:
            batching(written, text)
        assert said in str(caught.value)
        assert "file.txt" in str(caught.value)


class TestPerModelBatching:
    MODEL = ModelConfig(name="m", path="/m", batching=BatchSettings(max_run_s=7.0))

    def test_a_version_without_the_file_is_not_batched(self, tmp_path):
        found = batching_parameters.for_version(self.MODEL, str(tmp_path))
        assert not found.enable_batching
        assert found.max_run_s == 7.0

    def test_a_version_with_the_file_is_batched_by_it(self, written, tmp_path):
        written("max_batch_size { value: 12 }", batching_parameters.PER_MODEL_FILE)
        found = batching_parameters.for_version(self.MODEL, str(tmp_path))
        assert (found.enable_batching, found.max_batch_size, found.max_run_s) == (True, 12, 7.0)

    def test_a_file_that_is_wrong_is_an_error_of_that_version(self, written, tmp_path):
        written("max_batch_size", batching_parameters.PER_MODEL_FILE)
        with pytest.raises(ConfigError, match=r"batching_params\.pbtxt"):
            batching_parameters.for_version(self.MODEL, str(tmp_path))


class TestSessionBundle:
    PLATFORMS = """
        platform_configs {
          key: "tensorflow"
          value {
            source_adapter_config {
              [type.googleapis.com/tensorflow.serving.SavedModelBundleSourceAdapterConfig] {
                legacy_config { %s }
              }
            }
          }
        }
    """

    def read(self, written, text):
        return session_bundle.read_platforms(written(self.PLATFORMS % text))

    def test_all_that_it_says(self, written):
        found = self.read(
            written,
            """
            session_config {
              intra_op_parallelism_threads: 2
              inter_op_parallelism_threads: 3
              gpu_options { per_process_gpu_memory_fraction: 0.5 allow_growth: true }
              use_per_session_threads: true
            }
            batching_parameters { max_batch_size { value: 32 } }
            saved_model_tags: "serve"
            saved_model_tags: "gpu"
            enable_model_warmup: true
            model_warmup_options { num_request_iterations { value: 3 } }
            mixed_precision: "bfloat16"
            enable_session_metadata: true
            """,
        )
        assert found.batching is not None and found.batching.settings.max_batch_size == 32
        assert (found.warmup, found.warmup_iterations, found.unused) == (True, 3, ("enable_session_metadata",))
        assert found.options == {
            "intra_op_threads": 2,
            "inter_op_threads": 3,
            "gpu_memory_fraction": 0.5,
            "gpu_memory_growth": True,
            "session_config": {"use_per_session_threads": True},
            "tags": ["serve", "gpu"],
            "mixed_precision": "bfloat16",
        }

    def test_what_it_leaves_out(self, written):
        found = self.read(written, "")
        assert (found.batching, found.options, found.warmup) == (None, {}, False)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "expected a platform_configs entry with the key 'tensorflow'; got none"),
            ('platform_configs { key: "other" value {} }', "got other"),
            ('platform_configs { key: "tensorflow" value {} }', "expected a tensorflow.serving.SavedModelBundle"),
        ],
    )
    def test_what_is_refused_and_how(self, written, text, said):
        with pytest.raises(ConfigError) as caught:
            session_bundle.read_platforms(written(text))
        assert said in str(caught.value)

    def test_threads_of_a_session_file_are_left_to_the_flags(self, written):
        text = "intra_op_parallelism_threads: 2 allow_soft_placement: true gpu_options { visible_device_list: '0,1' }"
        found = session_bundle.read_session(written(text))
        assert found == {"visible_gpus": "0,1", "session_config": {"allow_soft_placement": True}}


class TestServerFiles:
    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ("", None),
            ("prometheus_config {}", None),
            ("prometheus_config { enable: true }", "/monitoring/prometheus/metrics"),
            ("prometheus_config: { enable: true, path: '/metrics/tfs' }", "/metrics/tfs"),
        ],
    )
    def test_monitoring(self, written, text, path):
        assert server_files.read_monitoring(written(text)) == {"monitoring_path": path}

    def test_a_path_that_is_none_is_refused(self, written):
        with pytest.raises(ConfigError, match="expected a path that starts with /; got 'metrics'"):
            server_files.read_monitoring(written("prometheus_config { enable: true path: 'metrics' }"))

    @pytest.mark.parametrize(
        ("more", "authority"),
        [("", None), (f"custom_ca: '{PEM}'", None), (f"custom_ca: '{PEM}' client_verify: true", PEM_TEXT)],
        ids=["server only", "a CA without verification", "clients are verified"],
    )
    def test_ssl(self, written, more, authority):
        found = server_files.read_ssl(written(f"server_key: '{PEM}' server_cert: '{PEM}' {more}"))
        assert found == {"tls_key": PEM_TEXT, "tls_cert": PEM_TEXT, "tls_client_ca": authority}

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "server_key: expected the contents of a PEM file (-----BEGIN …); it is missing"),
            (f"server_key: '{PEM}' server_cert: '/etc/cert.pem'", "server_cert: expected the contents of a PEM file"),
            (f"server_key: '{PEM}' server_cert: '{PEM}' client_verify: true", "client_verify needs custom_ca"),
        ],
    )
    def test_ssl_that_is_refused_and_how(self, written, text, said):
        with pytest.raises(ConfigError) as caught:
            server_files.read_ssl(written(text))
        assert said in str(caught.value)
