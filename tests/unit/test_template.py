import json
import re
import uuid

import pytest

from poise.bench.payloads.template import Template


def rendered(text, count=50, seed=0):
    template = Template(text.encode(), seed)
    return [template.render().decode() for _ in range(count)]


def test_every_placeholder_is_filled_anew():
    text = '{"seq": {{seq}}, "id": "{{uuid}}", "n": {{int:3:5}}, "x": {{ float:-1:1 }}, "c": "{{choice:a|b c}}"}'
    found = [json.loads(one) for one in rendered(text)]
    assert [one["seq"] for one in found] == list(range(50))
    assert len({uuid.UUID(one["id"]) for one in found}) == 50
    assert {one["n"] for one in found} == {3, 4, 5}
    assert all(-1 <= one["x"] <= 1 for one in found)
    assert {one["c"] for one in found} == {"a", "b c"}


def test_the_same_seed_gives_the_same_bodies():
    text = "{{uuid}} {{float}} {{int:1:1000000}}"
    assert rendered(text, seed=3) == rendered(text, seed=3)
    assert rendered(text, seed=3) != rendered(text, seed=4)


def test_text_without_placeholders_does_not_vary():
    template = Template(b'{"a": {"b": 1}}', 0)
    assert not template.varies
    assert template.render() == b'{"a": {"b": 1}}'
    assert Template(b"{{seq}}", 0, fill=False).render() == b"{{seq}}"


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("{{sequ}}", "did you mean seq"),
        ("{{uuid:4}}", "leave out what follows the colon"),
        ("{{int}}", "write {{int:1:100}}"),
        ("{{int:5:1}}", "write {{int:1:100}}"),
        ("{{int:1:99999999999999999999}}", "write {{int:1:100}}"),
        ("{{float:a:b}}", "write {{float:0:1}}"),
        ("{{choice}}", "write {{choice:one|other}}"),
        ("{{name}}", "--no-template"),
    ],
)
def test_placeholders_that_are_none_are_refused_with_a_way_out(text, mend):
    with pytest.raises(ValueError, match=re.escape(mend)):
        Template(text.encode(), 0)
