import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from poise.backends import onnxruntime as ort
from poise.backends import python, select
from poise.backends.base import ModelSource
from poise.errors import BackendUnavailable, ConfigError, InvalidInput, InvalidModel, ModelLoadError
from poise.testing import strings
from poise.types import Signature, TensorSpec


@pytest.mark.parametrize(
    ("path", "files", "backends"),
    [
        ("m/1", ["model.onnx", "model.onnx.data"], "onnxruntime openvino"),
        ("m/1", ["net.onnx", "model.py"], "onnxruntime openvino"),
        ("m/1", ["model.py", "weights.npy"], "python"),
        ("m/1", ["saved_model.pb", "fingerprint.pb"], "tensorflow openvino"),
        ("m/1", ["saved_model.pbtxt"], "tensorflow openvino"),
        ("m/1", ["model.tflite", "saved_model.pb"], "tensorflow openvino"),
        ("m/1", ["model.tflite"], "openvino"),
        ("m/1", ["net.bin", "net.xml"], "openvino"),
        ("net.onnx", None, "onnxruntime openvino"),
        ("net.tflite", None, "openvino"),
        ("file.py", None, "python"),
        ("file.py:Ranker", None, "python"),
    ],
)
def test_the_backend_is_chosen_by_the_files(path, files, backends):
    assert select.choose(path, files, lambda _: True) == tuple(backends.split())


@pytest.mark.parametrize(
    ("there", "backends"),
    [("tensorflow openvino", "tensorflow openvino"), ("openvino", "openvino"), ("tensorflow", "tensorflow")],
)
def test_backends_that_are_not_installed_are_passed_over(there, backends):
    chosen = select.choose("m/1", ["saved_model.pb"], there.split().__contains__)
    assert chosen == tuple(backends.split())


def test_a_model_for_which_nothing_is_installed_says_what_to_install():
    with pytest.raises(BackendUnavailable) as caught:
        select.choose("m/1", ["saved_model.pb"], lambda _: False)
    assert str(caught.value) == (
        "m/1 needs tensorflow or openvino, which is not installed;"
        " install it with: pip install 'poise-serving[tensorflow]'"
    )


def test_no_package_is_imported_to_find_out_whether_it_is_there():
    code = "import sys; from poise.backends import select; print(select.is_installed('tensorflow'), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"tensorflow", "openvino", "onnxruntime"} & set(done.stdout.split())


class Refusing:
    def __init__(self, error):
        self.error = error

    def load(self, _source):
        raise self.error


class Running:
    def load(self, source):
        return source


@pytest.fixture
def load_with(monkeypatch, tmp_path):
    """Load a SavedModel with these for backends."""

    def load_with(**backends):
        (tmp_path / "saved_model.pb").touch()
        monkeypatch.setattr(select, "_backend", backends.__getitem__)
        monkeypatch.setattr(select, "is_installed", lambda _: True)
        return select.load(ModelSource("m", 1, str(tmp_path), backends.pop("options", {})))

    return load_with


@pytest.mark.parametrize(
    ("first", "log"),
    [
        (Running(), "model m: tensorflow runs it, first of tensorflow, openvino; the setting backend overrules that"),
        (Refusing(InvalidModel("too new")), "model m: openvino runs it, as tensorflow did not load it"),
        (Refusing(BackendUnavailable("broken")), "model m: tensorflow does not load it: broken"),
    ],
    ids=["loads", "refuses", "is broken"],
)
def test_the_next_backend_is_tried_when_one_does_not_load_it(load_with, caplog, first, log):
    caplog.set_level("INFO")
    assert load_with(tensorflow=first, openvino=Running()).name == "m"
    assert log in caplog.text


def test_what_each_backend_said_is_told_when_none_loads_it(load_with):
    with pytest.raises(ModelLoadError) as caught:
        load_with(tensorflow=Refusing(InvalidModel("too new")), openvino=Refusing(ModelLoadError("no table")))
    assert str(caught.value) == "tensorflow: too new; openvino: no table"


@pytest.mark.parametrize("error", [ConfigError("no such key"), InvalidModel("too new")], ids=["options", "model"])
def test_options_are_for_the_first_backend_and_no_other(load_with, error):
    with pytest.raises(type(error)) as caught:
        load_with(tensorflow=Refusing(error), openvino=Running(), options={"xla": True})
    assert caught.value is error


@pytest.mark.parametrize(
    ("path", "files", "message"),
    [
        ("m/1", [], "m/1: no backend fits (it is empty); expected *.onnx, saved_model.pb, *.tflite, *.xml, model.py, "),
        ("m/1", [], ", or file.py:Class"),
        ("m/1", ["b.txt", "a.txt"], "m/1: no backend fits (it holds a.txt, b.txt); expected"),
        ("m/1", ["other.py"], "(it holds other.py)"),
        ("weights.bin", None, "weights.bin: no backend fits; expected"),
    ],
)
def test_files_that_no_backend_fits_are_refused_with_what_would_do(path, files, message):
    with pytest.raises(InvalidModel) as caught:
        select.choose(path, files)
    assert message in str(caught.value)


def test_a_path_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ModelLoadError, match=r"gone\.py: no such file or directory"):
        select.load(ModelSource("m", 1, str(tmp_path / "gone.py:Ranker")))


# --- python


@pytest.fixture
def load(tmp_path):
    def load(text, target="", **options):
        (tmp_path / "model.py").write_text("import numpy as np\nimport poise\n" + text)
        path = f"{tmp_path / 'model.py'}:{target}" if target else str(tmp_path)
        return select.load(ModelSource("m", 1, path, options))

    yield load
    sys.path[:] = [folder for folder in sys.path if folder != str(tmp_path)]


SCALER = """
class Scaler(poise.Model):
    inputs = {"x": ("float32", [-1, 2])}
    outputs = {"y": ("float32", [-1, 2])}
    def __init__(self, factor=2):
        self.factor = factor
    def load(self):
        self.factor = np.float32(self.factor)
    def predict(self, inputs):
        return {"y": inputs["x"] * self.factor}
"""


@pytest.mark.parametrize("target", ["", "Scaler"])
def test_a_class_is_made_loaded_and_run(load, target):
    model = load(SCALER, target, factor=3)
    assert model.signatures == (Signature((TensorSpec("x", "float", (-1, 2)),), (TensorSpec("y", "float", (-1, 2)),)),)
    x = np.ones((1, 2), np.float32)
    np.testing.assert_array_equal(model.run("serving_default", {"x": x}, ("y",))["y"], x * 3)
    model.close()


def test_a_lone_output_may_come_without_its_name(load):
    model = load(SCALER.replace('{"y": inputs["x"] * self.factor}', 'inputs["x"]'))
    x = np.ones((1, 2), np.float32)
    assert model.run("serving_default", {"x": x}, ("y",))["y"] is x


DUCK = """
class Duck:
    def example_inputs(self):
        return {"x": np.zeros((3, 2), np.float32)}
    def predict(self, inputs):
        return inputs["x"].sum(1)
    def close(self):
        Duck.closed = True
"""


def test_a_class_of_any_descent_is_tried_with_its_example(load):
    model = load(DUCK)
    [signature] = model.signatures
    assert signature.inputs == (TensorSpec("x", "float", (-1, -1)),)
    assert signature.outputs == (TensorSpec("output", "float", (-1,)),)
    assert signature.batched
    assert model.run("serving_default", {"x": np.ones((1, 2))}, ("output",))["output"].tolist() == [2.0]
    model.close()
    assert type(model._model).closed


def test_two_models_never_share_a_module(load):
    one, two = load(SCALER), load(SCALER.replace("factor=2", "factor=5"))
    assert one._model.factor == 2
    assert two._model.factor == 5


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (SCALER, "Scalar", "no class Scalar; did you mean Scaler?"),
        (SCALER + "x = 1\n", "x", "x must be a class with a method predict(inputs)"),
        (SCALER + "class Other(Scaler): pass\n", "", "it has Other, Scaler; name one: "),
        ("class Empty(poise.Model): pass\n", "", "it has none"),
        ("class Empty(poise.Model): pass\n", "Empty", "Empty must be a class with a method predict(inputs)"),
        ("class Mute:\n  def predict(self, inputs): pass\n", "", "Mute does not say what it takes and returns; write"),
        (DUCK.replace('{"x": np.zeros((3, 2), np.float32)}', "[1]"), "", "must give a dict of NumPy arrays by name"),
    ],
    ids=["near", "no class", "two", "none", "no predict", "undeclared", "example"],
)
def test_a_file_that_cannot_be_served_says_what_to_write(load, text, target, message):
    with pytest.raises(InvalidModel) as caught:
        load(text, target)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("1 / 0", {}, "model.py failed: ZeroDivisionError: division by zero"),
        ("def f(:", {}, "failed: SyntaxError"),
        (SCALER, {"faktor": 1}, "Scaler(...) failed: TypeError: "),
        (SCALER.replace("np.float32(self.factor)", "nothing"), {}, "Scaler.load() failed: NameError: "),
        (DUCK.replace("sum(1)", "none"), {}, "Duck.predict(example_inputs()) failed: AttributeError: "),
    ],
    ids=["import", "syntax", "options", "load", "trial"],
)
def test_code_that_raises_is_told_in_one_line_and_logged_whole(load, caplog, text, options, message):
    with pytest.raises(ModelLoadError) as caught:
        load(text, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Traceback" in caplog.text


def test_a_result_without_names_is_refused_when_there_are_several(load):
    model = load(SCALER.replace('"y": ("float32", [-1, 2])', '"y": ("float32", [-1]), "z": ("float32", [-1])', 1))
    model._predict = lambda _: np.zeros(1)
    with pytest.raises(TypeError, match=r"Scaler\.predict returned ndarray; expected a dict of arrays by output name"):
        model.run("serving_default", {}, ("y",))


def test_a_missing_module_of_the_model_is_named(load):
    with pytest.raises(ModelLoadError, match="ModuleNotFoundError: No module named 'no_such_module'"):
        load("import no_such_module")


def test_a_model_may_import_its_neighbours(load, tmp_path):
    (tmp_path / "poise_test_neighbour.py").write_text("FACTOR = 7\n")
    assert load("import poise_test_neighbour as n\n" + SCALER.replace("factor=2", "factor=n.FACTOR"))._model.factor == 7


def test_the_folder_is_where_model_py_is_looked_for(tmp_path):
    with pytest.raises(ModelLoadError, match=r"model\.py: no such file"):
        python.load(ModelSource("m", 1, str(tmp_path)))


# --- onnxruntime


def write_onnx(path, nodes, inputs, outputs):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in outputs],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def adder(path):
    """sum = a + b: two inputs whose second dimensions must agree, which their names do not say."""
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Neg", ["a"], ["neg"])]
    ins = [("a", TensorProto.FLOAT, ["n", "k"]), ("b", TensorProto.FLOAT, ["n", 3])]
    return write_onnx(
        path, nodes, ins, [("sum", TensorProto.FLOAT, ["n", None]), ("neg", TensorProto.FLOAT, ["n", "k"])]
    )


def identity(path, kind, shape=("n",)):
    return write_onnx(path, [helper.make_node("Identity", ["x"], ["y"])], [("x", kind, shape)], [("y", kind, shape)])


def load_onnx(path, **options):
    return select.load(ModelSource("m", 1, str(path), options))


@pytest.mark.parametrize("inside", [True, False], ids=["folder", "file"])
def test_an_onnx_file_is_loaded_with_its_signature_and_run(tmp_path, inside):
    path = adder(tmp_path / "net.onnx")
    model = load_onnx(tmp_path if inside else path)
    [signature] = model.signatures
    assert signature.inputs == (TensorSpec("a", "float", (-1, -1)), TensorSpec("b", "float", (-1, 3)))
    assert signature.outputs == (TensorSpec("sum", "float", (-1, 3)), TensorSpec("neg", "float", (-1, -1)))
    assert signature.batched
    ones = np.ones((2, 3), np.float32)
    found = model.run("serving_default", {"a": ones, "b": ones}, ("sum",))
    assert list(found) == ["sum"]
    np.testing.assert_array_equal(found["sum"], ones * 2)
    model.close()


NUMERIC = [
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.FLOAT16,
    TensorProto.INT8,
    TensorProto.INT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.UINT16,
    TensorProto.UINT32,
    TensorProto.UINT64,
    TensorProto.BOOL,
]


@pytest.mark.parametrize("kind", NUMERIC, ids=TensorProto.DataType.Name)
def test_every_numeric_dtype_goes_through(tmp_path, kind):
    x = np.array([0, 1, 1]).astype(helper.tensor_dtype_to_np_dtype(kind))
    found = load_onnx(identity(tmp_path / "m.onnx", kind)).run("serving_default", {"x": x}, ("y",))["y"]
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x)


def test_strings_go_through_as_text(tmp_path):
    model = load_onnx(identity(tmp_path / "m.onnx", TensorProto.STRING, ("n", 2)))
    x = strings([b"a", "é".encode(), b"", b"d"]).reshape(2, 2)
    assert model.run("serving_default", {"x": x}, ("y",))["y"].tolist() == [["a", "é"], ["", "d"]]


def test_strings_that_are_no_text_are_refused_by_row(tmp_path):
    model = load_onnx(identity(tmp_path / "m.onnx", TensorProto.STRING, ("n", 2)))
    x = strings([b"a", b"b", b"c", b"\xff", b"\xc3", b"\xa9"]).reshape(3, 2)
    with pytest.raises(InvalidInput, match="input x: expected strings in UTF-8") as caught:
        model.run("serving_default", {"x": x}, ("y",))
    assert caught.value.rows == (1, 2)


def test_a_fixed_first_dimension_is_not_batched_unless_none_is_fixed(tmp_path):
    assert not load_onnx(identity(tmp_path / "m.onnx", TensorProto.FLOAT, (1, 3))).signatures[0].batched
    assert not load_onnx(identity(tmp_path / "n.onnx", TensorProto.FLOAT), batched=False).signatures[0].batched


def test_inputs_that_the_model_finds_wrong_are_the_clients_mistake(tmp_path):
    model = load_onnx(identity(tmp_path / "m.onnx", TensorProto.FLOAT, (None, 3)))
    with pytest.raises(InvalidInput, match="Got invalid dimensions for input: x"):
        model.run("serving_default", {"x": np.zeros((1, 4), np.float32)}, ("y",))


def test_options_reach_the_session(tmp_path):
    path = identity(tmp_path / "m.onnx", TensorProto.FLOAT)
    model = load_onnx(
        path, intra_op_threads=2, providers=[{"name": "CPUExecutionProvider"}], graph_optimization="basic"
    )
    options = model._session.get_session_options()
    assert options.intra_op_num_threads == 2
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_threads_default_to_the_share_of_the_worker(tmp_path):
    path = identity(tmp_path / "m.onnx", TensorProto.FLOAT)
    model = select.load(ModelSource("m", 1, str(path), threads=3))
    assert model._session.get_session_options().intra_op_num_threads == 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"provider": []}, ConfigError, "options of model m: provider: unknown key; did you mean providers?"),
        ({"providers": "CPU"}, ConfigError, "options of model m: providers: expected a list (each text or a table)"),
        ({"graph_optimization": "al"}, ConfigError, "unknown level 'al'; did you mean all?"),
        ({"inter_op_threads": 0}, ConfigError, "inter_op_threads positive"),
        (
            {"providers": ["TensorrtExecutionProvider"]},
            BackendUnavailable,
            "providers: 'TensorrtExecutionProvider' is not in this build of ONNX Runtime, which has ",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_options_that_cannot_be_used_are_refused(tmp_path, options, error, message):
    with pytest.raises(error) as caught:
        load_onnx(identity(tmp_path / "m.onnx", TensorProto.FLOAT), **options)
    assert message in str(caught.value)


def test_providers_keep_their_order_and_options():
    wanted = ["A", {"name": "B", "device_id": 1}]
    assert ort.providers_for(wanted, ["B", "A"]) == [("A", {}), ("B", {"device_id": 1})]


def test_a_file_that_is_no_model_is_refused_in_one_line(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"not a model")
    with pytest.raises(ModelLoadError, match=r"m\.onnx: ONNX Runtime does not load it: ") as caught:
        load_onnx(tmp_path / "m.onnx")
    assert "\n" not in str(caught.value)


def test_a_folder_with_several_files_needs_one_called_model(tmp_path):
    for name in ("a.onnx", "b.onnx"):
        (tmp_path / name).touch()
    with pytest.raises(InvalidModel, match=r"expected model\.onnx, or only one \*\.onnx; found a\.onnx, b\.onnx"):
        ort.find_file(tmp_path)
    (tmp_path / "model.onnx").touch()
    assert ort.find_file(tmp_path).name == "model.onnx"


def node(name, kind="tensor(float)", shape=("n",)):
    return SimpleNamespace(name=name, type=kind, shape=list(shape))


def test_outputs_that_are_no_tensors_are_left_out_with_a_warning(caplog):
    signature = ort.signature_of([node("x")], [node("label"), node("odds", "seq(map(int64,tensor(float)))")])
    assert [spec.name for spec in signature.outputs] == ["label"]
    assert "output odds is a seq(map(int64,tensor(float))), which cannot be served; it is left out" in caplog.text


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ([node("x", "tensor(bfloat16)")], [node("y")], "input x is a tensor.bfloat16., which cannot be served"),
        ([node("x")], [node("y", "seq(tensor(float))")], "it has no outputs"),
    ],
    ids=["input", "outputs"],
)
def test_a_model_of_other_kinds_is_refused(inputs, outputs, message):
    with pytest.raises(InvalidModel, match=message):
        ort.signature_of(inputs, outputs)


def test_an_output_of_unknown_rank_can_be_declared_batched():
    ins, outs = [node("x")], [node("y", shape=())]
    assert ort.signature_of(ins, outs).outputs == (TensorSpec("y", "float", None),)
    assert not ort.signature_of(ins, outs).batched
    assert ort.signature_of(ins, outs, batched=True).batched
