"""A registry with everything it can touch, moved by hand."""

import json
from dataclasses import dataclass, field

from poise.config import ModelConfig
from poise.registry.policy import State
from poise.registry.registry import Registry, configured_batching
from poise.registry.source import Listing, Tree

SIGNATURES = '[{"name": "serving_default"}]'
START, LOADING, AVAILABLE, UNLOADING, END = State


@dataclass
class FakeCore:
    calls: list = field(default_factory=list)
    statuses: dict = field(default_factory=dict)
    history: list = field(default_factory=list)
    labels: dict = field(default_factory=dict)
    batch_sizes: list = field(default_factory=list)
    handles: int = 0
    bad_signatures: str = ""
    bad_batching: str = ""

    def add_version(self, model, version, batching_json):
        if self.bad_batching:
            raise ValueError(self.bad_batching)
        self.batch_sizes.append(json.loads(batching_json)["max_batch_size"])
        self.handles += 1
        self.calls.append(("add", model, version))
        return self.handles

    def describe(self, handle, signatures_json):
        if self.bad_signatures:
            raise ValueError(self.bad_signatures)
        self.calls.append(("describe", handle, signatures_json))

    def publish(self, handle):
        self.calls.append(("publish", handle))

    def retire(self, handle):
        assert ("retire", handle) not in self.calls
        self.calls.append(("retire", handle))

    def set_status(self, model, statuses_json):
        statuses = json.loads(statuses_json)
        self.statuses[model] = statuses
        self.history.append({one["version"]: State(one["state"]) for one in statuses})

    def set_labels(self, model, labels_json):
        self.labels[model] = json.loads(labels_json)


@dataclass
class FakeWorkers:
    started: list = field(default_factory=list)
    retired: list = field(default_factory=list)
    abandoned: list = field(default_factory=list)

    def start(self, handle, config, version, location, _now):
        self.started.append((handle, config.name, version, location))

    def retire(self, handle, _now):
        self.retired.append(handle)

    def abandon(self, handle, _now):
        self.abandoned.append(handle)


class FakeSource:
    """Files as a test says they are."""

    def __init__(self):
        self.found, self.incomplete, self.sizes, self.problem, self.code = set(), set(), {}, "", "NOT_FOUND"

    def look(self):
        if self.problem:
            return Listing({}, problem=self.problem, code=self.code)
        return Listing({number: f"m/{number}" for number in self.found})

    def complete(self, version, _now):
        return version not in self.incomplete

    def tree(self, version):
        return Tree((("model.onnx", self.sizes.get(version, 0), 0),), changed_at=0.0)


class Stage:
    """A registry with one model, or a few, and everything it can touch."""

    def __init__(self, *found, names=("m",), batching=None, **settings):
        self.now, self.core, self.workers = 0.0, FakeCore(), FakeWorkers()
        self.sources = {name: FakeSource() for name in names}
        self.source = self.sources[names[0]]
        self.source.found = set(found)
        models = [ModelConfig(name=name, path=name, **settings) for name in names]
        self.registry = Registry(self.core, self.workers, models, self.source_of, batching or configured_batching)

    def source_of(self, model):
        return self.sources.setdefault(model.path, FakeSource())

    def look(self, *found, after=1.0):
        if found:
            self.source.found = set(found)
        self.now += after
        self.registry.tick(self.now)
        return self

    def ready(self, handle):
        self.registry.version_ready(handle, SIGNATURES, self.now)
        return self

    def failed(self, handle, why="broken"):
        self.registry.version_failed(handle, why, self.now)
        return self

    def ended(self, handle):
        self.registry.version_ended(handle, self.now)
        return self

    def states(self, model="m"):
        return {one["version"]: State(one["state"]) for one in self.core.statuses.get(model, [])}

    def status(self, version, model="m"):
        return next(one for one in self.core.statuses[model] if one["version"] == version)

    def loads(self):
        return [version for _, _, version, _ in self.workers.started]
