"""The place of tensorflow_model_server taken: its flags, its files, its client."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.certificates import authority, issued
from support.clients import Refused, call, rest
from support.serving import until
from support.tfclient import PYTHON, TfClient
from support.tfserving import TfServing, free_ports, halves, listed

pytestmark = pytest.mark.timeout(180)

LOAD = Path(__file__).parents[2] / "examples" / "tfs_load.py"
BATCHING = """
max_batch_size { value: 4 }
batch_timeout_micros { value: 2000 }
allowed_batch_sizes: [2, 4]
num_batch_threads { value: 8 }
"""


def poise(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "poise", "tfserving", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def answers(server: TfServing, model: str) -> list[float] | None:
    """What y is for x of 2; None when the model is not served."""
    try:
        found: list[float] = rest(server.http, model, {"instances": [2.0]})["predictions"]
    except Refused:
        return None
    return found


class TestBeforeTheStart:
    def test_an_unknown_flag_is_refused_with_the_nearest(self):
        ended = poise("--model_base_pth=/m", "--port=0")
        assert ended.returncode == 2
        assert "unknown argument: --model_base_pth=/m; did you mean --model_base_path?" in ended.stderr

    def test_a_bad_file_of_models_is_refused_in_the_known_words(self, folder: Path):
        file = folder / "models.config"
        file.write_text('model_config_list {\n  config { nam: "m" }\n}\n')
        ended = poise(f"--model_config_file={file}")
        assert ended.returncode == 2
        assert "Error parsing text-format tensorflow.serving.ModelServerConfig: line 2, column 12" in ended.stderr
        assert f"Invalid protobuf file: '{file}'" in ended.stderr

    def test_checking_tells_what_would_be_served_and_starts_nothing(self, folder: Path):
        base, port = halves(folder, "m", 2.0), free_ports()[0]
        ended = poise("--check", f"--model_base_path={base}", f"--port={port}", "--grpc_max_threads=8")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert f"gRPC at [::]:{port}, HTTP off" in ended.stdout or f"gRPC at 0.0.0.0:{port}" in ended.stdout
        assert "default: version 1, backend python" in ended.stdout
        assert "note: --grpc_max_threads has no effect" in ended.stdout

    def test_a_port_that_is_taken_is_named_with_its_flag(self, folder: Path):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            ended = poise(f"--model_base_path={halves(folder, 'm', 2.0)}", f"--port={port}", "--bind_address=127.0.0.1")
        assert ended.returncode == 1
        assert f"127.0.0.1:{port}" in ended.stderr
        assert "--port" in ended.stderr


def test_one_model_by_flags(folder: Path, tf: TfClient):
    with TfServing("--model_name=m", f"--model_base_path={halves(folder, 'm', 2.0)}") as server:
        assert tf.predict(server.grpc, "m", {"x": np.float32([2.0])})["y"].tolist() == [3.0]
        assert answers(server, "m") == [3.0]


def test_all_models_or_none(folder: Path):
    """As TensorFlow Serving does, when asked to."""
    base = halves(folder, "m", 2.0)
    (base / "1" / "model.py").write_text("raise RuntimeError('no weights')")
    where = ("--bind_address=127.0.0.1", f"--port={free_ports()[0]}")
    ended = poise(f"--model_base_path={base}", "--require_all_models", "--max_num_load_retries=0", *where)
    assert ended.returncode == 1
    assert "no weights" in ended.stderr


class TestChanges:
    @pytest.fixture
    def models(self, folder: Path) -> Path:
        file = folder / "models.config"
        file.write_text(listed(("a", halves(folder, "a", 2.0))))
        return file

    def swap(self, models: Path) -> None:
        models.write_text(listed(("b", halves(models.parent, "b", 3.0))))

    def test_a_file_that_is_polled(self, models: Path):
        with TfServing(f"--model_config_file={models}", "--model_config_file_poll_wait_seconds=1") as server:
            assert answers(server, "a") == [3.0]
            self.swap(models)
            until(lambda: answers(server, "b") == [4.0], "the new model", 30.0)
            until(lambda: answers(server, "a") is None, "the old model gone", 30.0)

    def test_a_file_that_is_read_again_at_sighup_alone(self, models: Path):
        with TfServing(f"--model_config_file={models}") as server:
            self.swap(models)
            models.write_text(models.read_text() + "}")
            server.signal(signal.SIGHUP)
            until(lambda: "Error parsing text-format" in server.log, "a word about the mistake")
            assert answers(server, "a") == [3.0]
            models.write_text(models.read_text().removesuffix("}"))
            server.signal(signal.SIGHUP)
            until(lambda: answers(server, "b") == [4.0], "the new model", 30.0)
            until(lambda: answers(server, "a") is None, "the old model gone", 30.0)


def test_batching_of_a_version_by_the_file_in_it(folder: Path):
    """One row and a batch of two are told by how large a request may be."""
    base = halves(folder, "batched", 2.0)
    (base / "1" / "batching_params.pbtxt").write_text("max_batch_size { value: 2 }")
    models = folder / "models.config"
    models.write_text(listed(("batched", base), ("alone", halves(folder, "alone", 3.0))))
    flags = ("--enable_batching", "--enable_per_model_batching_parameters")
    with TfServing(f"--model_config_file={models}", *flags) as server:
        with pytest.raises(Refused, match="Task size 3 is larger than maximum input batch size 2"):
            rest(server.http, "batched", {"instances": [2.0] * 3})
        assert rest(server.http, "alone", {"instances": [2.0] * 3}) == {"predictions": [4.0] * 3}


def test_a_reload_by_the_official_client(folder: Path, tf: TfClient):
    with TfServing("--model_name=m", f"--model_base_path={halves(folder, 'm', 2.0)}") as server:
        path = halves(folder, "n", 3.0)
        tf.call("reload", server.grpc, models=[["n", str(path)]], timeout=60.0)
        assert answers(server, "n") == [4.0]
        until(lambda: answers(server, "m") is None, "the old model gone", 30.0)


def test_a_unix_socket_alone_and_tls_on_the_port(folder: Path, tf: TfClient):
    own = authority(folder, "ca")
    server_own = issued(folder, "server", own)
    ssl_config = "".join(f"server_{name}: {json.dumps(server_own.pem[name])}\n" for name in ("key", "cert"))
    (folder / "ssl.txt").write_text(ssl_config)
    path = folder / "grpc.sock"
    flags = (f"--model_base_path={halves(folder, 'm', 2.0)}", "--model_name=m", f"--grpc_socket_path={path}")
    x = {"x": np.float32([2.0])}
    with TfServing(*flags, "--rest_api_port=0", "--port=0", ready=False) as alone:
        until(lambda: "ready: every model" in alone.log, "a ready server", 60.0)
        assert tf.predict(f"unix:{path}", "m", x)["y"].tolist() == [3.0]
    with TfServing(*flags, f"--ssl_config_file={folder / 'ssl.txt'}") as server:
        tf.call("secure", server.grpc, ca=own.pem["cert"])
        assert tf.predict(server.grpc, "m", x)["y"].tolist() == [3.0]
        assert answers(server, "m") == [3.0], "REST stays as it was"


class TestSavedModels:
    def test_with_labels_batching_and_metrics(self, folder: Path, savedmodels: Path, tf: TfClient):
        models = folder / "models.config"
        names = ("half_plus_two", "half_plus_three")
        labels = 'version_labels { key: "stable" value: 123 }'
        models.write_text(listed(*((name, savedmodels / name) for name in names), platform="tensorflow", more=labels))
        (folder / "batching.txt").write_text(BATCHING)
        (folder / "monitoring.txt").write_text("prometheus_config { enable: true path: '/m/metrics' }")
        with TfServing(
            f"--model_config_file={models}",
            "--enable_batching",
            f"--batching_parameters_file={folder / 'batching.txt'}",
            f"--monitoring_config_file={folder / 'monitoring.txt'}",
            ready_s=120.0,
        ) as server:
            x = {"x": np.float32([2.0])}
            assert tf.predict(server.grpc, "half_plus_two", x)["y"].tolist() == [3.0]
            assert tf.predict(server.grpc, "half_plus_three", x, label="stable")["y"].tolist() == [4.0]
            assert rest(server.http, "half_plus_two/labels/stable", {"instances": [1.0]}) == {"predictions": [2.5]}
            with pytest.raises(Refused, match="Task size 5 is larger than maximum input batch size 4"):
                rest(server.http, "half_plus_two", {"instances": [1.0] * 5})
            metrics = call(server.http, "GET", "/m/metrics").body.decode()
            assert ':tensorflow:serving:request_count{model_name="half_plus_two",status="OK"}' in metrics
            assert "num_batch_threads of 8 has no effect" in server.log
            shown = self.load(server)
            assert float(shown["QPS"]) > 10

    def load(self, server: TfServing) -> dict[str, str]:
        """What the example prints, run as it is by an interpreter that has never heard of Poise."""
        command = [str(PYTHON), str(LOAD), server.grpc, "half_plus_two", "2"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert ended.returncode == 0, ended.stderr
        shown = dict(re.findall(r"^(\w+): +([0-9.]+)", ended.stdout, re.MULTILINE))
        assert set(shown) == {"QPS", "mean", "P95"}
        return shown
