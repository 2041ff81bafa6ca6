"""SavedModels to serve, made once per run by a process of their own: pytest itself never imports TensorFlow.

`python savedmodels.py FOLDER` writes them, each as FOLDER/NAME/VERSION.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

VERSION = "00000123"
WORDS = ("apple", "pear", "plum")
ECHOED = (
    *("float32", "float64", "float16", "bfloat16", "complex64", "complex128", "bool", "string"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
"""Element types that the model `echo` gives back."""


def make(folder: Path) -> Path:
    """All the models in `folder`. Raises CalledProcessError with TensorFlow's own words on standard error."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, __file__, str(folder)], env=os.environ | quiet, check=True, timeout=120)
    return folder


def main(folder: Path) -> None:
    import tensorflow as tf  # noqa: PLC0415  (here and nowhere else)

    tf.compat.v1.logging.set_verbosity("ERROR")
    for maker in (half_plus_two, half_plus_three, matrix, no_signatures, old_words, tagged):
        maker(tf, tf.compat.v1, folder)
    for maker in (counter, words, with_default, echo, keeper, dense):
        maker(tf, folder)


# --- exported as TensorFlow 1 did: a graph, placeholders, a builder


def write(tf1: Any, path: Path, signatures: Any, tags: Any = ("serve",), **more: Any) -> Any:
    """The current graph as a SavedModel."""
    builder = tf1.saved_model.Builder(str(path / VERSION))
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        builder.add_meta_graph_and_variables(session, list(tags), signatures, **more)
    builder.save()
    return builder


def signature(tf1: Any, kind: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
    def info(tensors: dict[str, Any]) -> dict[str, Any]:
        return {name: tf1.saved_model.utils.build_tensor_info(tensor) for name, tensor in tensors.items()}

    return tf1.saved_model.build_signature_def(info(inputs), info(outputs), f"tensorflow/serving/{kind}")


def linear(tf1: Any, plus: float, shape: Any = (None, 1)) -> dict[str, Any]:
    """The tensors of 0.5x + plus: x parsed from a tf.Example and fed past it, and a float tensor x2 to y3."""
    example = tf1.placeholder(tf1.string, [None], name="tf_example")
    parsed = tf1.parse_example(example, {"x": tf1.FixedLenFeature([1], tf1.float32)})
    x = tf1.identity(parsed["x"], name="x") if shape == (None, 1) else tf1.placeholder(tf1.float32, shape, name="x")
    x2 = tf1.placeholder(tf1.float32, [None, 1], name="x2")
    a, b, c = (tf1.Variable(value, name=name) for name, value in (("a", 0.5), ("b", plus), ("c", 3.0)))
    y, y2, y3 = tf1.add(a * x, b, name="y"), tf1.add(a * x, c, name="y2"), tf1.add(a * x2, c, name="y3")
    return {"example": example, "x": x, "x2": x2, "y": y, "y2": y2, "y3": y3}


def all_signatures(tf1: Any, at: dict[str, Any]) -> dict[str, Any]:
    return {
        "serving_default": signature(tf1, "predict", {"x": at["x"]}, {"y": at["y"]}),
        "regress_x_to_y": signature(tf1, "regress", {"inputs": at["example"]}, {"outputs": at["y"]}),
        "regress_x_to_y2": signature(tf1, "regress", {"inputs": at["example"]}, {"outputs": at["y2"]}),
        "regress_x2_to_y3": signature(tf1, "regress", {"inputs": at["x2"]}, {"outputs": at["y3"]}),
        "classify_x_to_y": signature(tf1, "classify", {"inputs": at["example"]}, {"scores": at["y"]}),
        "classify_x2_to_y3": signature(tf1, "classify", {"inputs": at["x2"]}, {"scores": at["y3"]}),
    }


def half_plus_two(_: Any, tf1: Any, folder: Path) -> None:
    with tf1.Graph().as_default():
        write(tf1, folder / "half_plus_two", all_signatures(tf1, linear(tf1, 2.0)))


def half_plus_three(_: Any, tf1: Any, folder: Path) -> None:
    with tf1.Graph().as_default():
        write(tf1, folder / "half_plus_three", all_signatures(tf1, linear(tf1, 3.0)))


def matrix(_: Any, tf1: Any, folder: Path) -> None:
    """Takes 3 × 3 matrices only."""
    with tf1.Graph().as_default():
        at = linear(tf1, 2.0, (None, 3, 3))
        fits = tf1.ensure_shape(at["y"], [None, 3, 3])
        signatures = {"serving_default": signature(tf1, "predict", {"x": at["x"]}, {"y": fits})}
        write(tf1, folder / "matrix_half_plus_two", signatures)


def no_signatures(_: Any, tf1: Any, folder: Path) -> None:
    with tf1.Graph().as_default():
        linear(tf1, 2.0)
        write(tf1, folder / "bad_half_plus_two", {})


def old_words(_: Any, tf1: Any, folder: Path) -> None:
    """A table read from an asset, which an operation of its own initialises."""
    with tf1.Graph().as_default():
        vocabulary = folder / "words.txt"
        vocabulary.write_text("\n".join(WORDS))
        key, value = tf1.lookup.TextFileIndex.WHOLE_LINE, tf1.lookup.TextFileIndex.LINE_NUMBER
        read = tf1.lookup.TextFileInitializer(str(vocabulary), tf1.string, key, tf1.int64, value)
        table = tf1.lookup.StaticHashTable(read, -1)
        word = tf1.placeholder(tf1.string, [None], name="word")
        signatures = {
            "serving_default": signature(tf1, "predict", {"word": word}, {"id": table.lookup(word)}),
            "shout": signature(tf1, "predict", {"word": word}, {"loud": tf1.strings.upper(word)}),
        }
        initialise = tf1.tables_initializer()
        assets = tf1.get_collection(tf1.GraphKeys.ASSET_FILEPATHS)
        write(tf1, folder / "old_words", signatures, main_op=initialise, assets_collection=assets)


def tagged(_: Any, tf1: Any, folder: Path) -> None:
    """Two graphs of one model: plain, and one that adds 100."""
    builder = tf1.saved_model.Builder(str(folder / "tagged" / VERSION))
    for tags, plus in ((["serve"], 0.0), (["serve", "large"], 100.0)):
        with tf1.Graph().as_default(), tf1.Session() as session:
            x = tf1.placeholder(tf1.float32, [None], name="x")
            bias = tf1.Variable(0.0, name="bias")
            session.run(tf1.global_variables_initializer())
            signatures = {"serving_default": signature(tf1, "predict", {"x": x}, {"y": x + bias + plus})}
            add = builder.add_meta_graph if plus else None
            if add:
                add(tags, signatures)
            else:
                builder.add_meta_graph_and_variables(session, tags, signatures)
    builder.save()


# --- exported as TensorFlow 2 does: objects with functions


def save(tf: Any, path: Path, module: Any, signatures: dict[str, Any]) -> None:
    tf.saved_model.save(module, str(path / VERSION), signatures)


def counter(tf: Any, folder: Path) -> None:
    """Has a state, and signatures without inputs."""
    module = tf.Module()
    module.count = tf.Variable(0.0)

    def changed(value: Any) -> dict[str, Any]:
        return {"output": module.count.assign(value)}

    functions = {
        "get_counter": tf.function(lambda: {"output": module.count.read_value()}, input_signature=[]),
        "incr_counter": tf.function(lambda: changed(module.count + 1.0), input_signature=[]),
        "reset_counter": tf.function(lambda: changed(0.0), input_signature=[]),
        "incr_counter_by": tf.function(
            lambda delta: changed(module.count + delta), input_signature=[tf.TensorSpec([], tf.float32, "delta")]
        ),
    }
    save(tf, folder / "counter", module, functions)


def words(tf: Any, folder: Path) -> None:
    """Strings in and out, and a table in memory."""
    module = tf.Module()
    made = tf.lookup.KeyValueTensorInitializer(list(WORDS), tf.range(len(WORDS), dtype=tf.int64))
    module.table = tf.lookup.StaticHashTable(made, -1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "word")])
    def look_up(word: Any) -> dict[str, Any]:
        return {"id": module.table.lookup(word), "loud": tf.strings.upper(word)}

    save(tf, folder / "words", module, {"serving_default": look_up})


def with_default(tf: Any, folder: Path) -> None:
    """x · factor, where factor may be left out."""
    spec = [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([], tf.float32, "factor")]
    function = tf.function(lambda x, factor: {"y": x * factor}, input_signature=spec)
    save(tf, folder / "with_default", tf.Module(), {"serving_default": function})
    file = folder / "with_default" / VERSION / "saved_model.pb"
    from tensorflow.core.protobuf import saved_model_pb2  # noqa: PLC0415

    made = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    given = tf.make_tensor_proto(10.0, tf.float32)
    made.meta_graphs[0].signature_def["serving_default"].defaults["factor"].CopyFrom(given)
    file.write_bytes(made.SerializeToString())


def echo(tf: Any, folder: Path) -> None:
    """Every element type there is."""
    spec = [tf.TensorSpec([None], kind, f"in_{kind}") for kind in ECHOED]
    names = [f"out_{kind}" for kind in ECHOED]
    function = tf.function(lambda *x: dict(zip(names, map(tf.identity, x), strict=True)), input_signature=spec)
    save(tf, folder / "echo", tf.Module(), {"serving_default": function})


def keeper(tf: Any, folder: Path) -> None:
    """Keeps the first input that it is given."""
    module = tf.Module()
    module.kept, module.full = tf.Variable(tf.zeros([64])), tf.Variable(False)

    def keep(x: Any) -> dict[str, Any]:
        first = tf.logical_not(module.full)
        tf.cond(first, lambda: module.kept.assign(x), module.kept.read_value)
        module.full.assign(True)
        return {"first": first}

    functions = {
        "keep_first": tf.function(keep, input_signature=[tf.TensorSpec([64], tf.float32, "x")]),
        "kept": tf.function(lambda: {"x": module.kept.read_value()}, input_signature=[]),
    }
    save(tf, folder / "keeper", module, functions)


def dense(tf: Any, folder: Path) -> None:
    """A small Keras network; each weight of it is told by its place."""
    tf.keras.utils.set_random_seed(1)
    layers = [tf.keras.Input((4,), name="x"), tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(3, "softmax")]
    tf.keras.Sequential(layers).export(str(folder / "dense" / VERSION), verbose=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
