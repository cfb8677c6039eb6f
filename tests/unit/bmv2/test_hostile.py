# SPDX-License-Identifier: Apache-2.0
"""Any file is a program, or is refused with the path to what is wrong; nothing in it is trusted."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.bmv2 import Bmv2Error, is_bmv2, load_bmv2, load_bmv2_text
from nicemu.errors import UsageError
from nicemu.pipeline import Engine
from tests.unit.bmv2.everything_json import everything_json
from tests.unit.bmv2.program_json import Node, action, load, made_up, pipeline, program, state
from tests.unit.bmv2.router_json import router_json

FILES = (router_json, everything_json)


@functools.cache
def places(file: Callable[[], Node]) -> list[tuple[Any, ...]]:
    """Return the way to every value of a file."""
    found: list[tuple[Any, ...]] = []
    pending: list[tuple[tuple[Any, ...], Any]] = [((), file())]
    while pending:
        path, value = pending.pop()
        found.append(path)
        if isinstance(value, dict):
            pending.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            pending.extend(((*path, key), item) for key, item in enumerate(value))
    return sorted(found, key=str)


def at(document: Any, path: tuple[Any, ...]) -> Any:  # noqa: ANN401
    for step in path:
        document = document[step]
    return document


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from((-1, 0, 1, 7, 255, 1 << 31, 1 << 64, 1.5, float("inf"))),
    st.sampled_from(
        (
            "",
            "h",
            "eth",
            "expression",
            "field",
            "0x",
            "-0x1",
            "0x" + "f" * 3000,
            "$valid$",
            "NoAction",
            "\ud800",
        )
    ),
    st.sampled_from(([], {}, [[]], ["eth", "dst"], ["standard_metadata", "parser_error"], {"type": "field"})),
)


def loads_or_refuses(text: str) -> None:
    try:
        loaded = load_bmv2_text(text)
    except Bmv2Error:
        return
    engine = Engine()
    engine.load(loaded.program)
    engine.process(b"\1\2\3\4\x41\2\3Ccc\0\0\0\5\2\7", 0)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_spoilt_file_is_refused_or_runs(data: st.DataObject) -> None:
    """One to three values are changed, left out, doubled, or taken from elsewhere in the file."""
    file = data.draw(st.sampled_from(FILES))
    document = json.loads(json.dumps(file()))  # whose parts are nobody else's
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(file)[1:]))
        try:
            owner = at(document, path[:-1])
            match data.draw(st.integers(0, 4)):
                case 0 | 1:
                    owner[path[-1]] = data.draw(ODD)
                case 2:
                    del owner[path[-1]]
                case 3 if isinstance(owner, list):
                    owner.insert(path[-1], copy.deepcopy(owner[path[-1]]))
                case _:
                    other = data.draw(st.sampled_from(places(file)[1:]))
                    owner[path[-1]] = copy.deepcopy(at(document, other))
        except (KeyError, IndexError, TypeError):
            continue
    loads_or_refuses(json.dumps(document))


@settings(max_examples=100, deadline=None)
@given(text=st.one_of(st.text(max_size=200), st.recursive(ODD, st.lists, max_leaves=5).map(json.dumps)))
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(Bmv2Error):
        load_bmv2_text(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100000, "program.json is nested too deeply"),
        ("{", "program.json is not JSON"),
        ("[]", "program.json is a list; the object that p4c-bm2-ss writes was expected"),
        ("{}", "program.json has no __meta__; the JSON that p4c-bm2-ss writes was expected"),
        ('{"__meta__": {"version": [1, 5]}}', "version is [1, 5]; version 2 of the format was expected"),
        ('{"__meta__": {"version": [2, 23]}}', "program.json has no parsers"),
        (b"\xff\xfe{}", "program.json is not JSON"),
    ],
)
def test_what_is_no_program_at_all_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(Bmv2Error) as caught:
        load_bmv2_text(text)
    assert message in str(caught.value)


def refusal(document: Node) -> str:
    with pytest.raises(Bmv2Error) as caught:
        load(document)
    return str(caught.value)


def with_type(*fields: list[Any], **more: Any) -> Node:  # noqa: ANN401
    document = program()
    document["header_types"].append({"name": "x_t", "id": 9, "fields": list(fields), **more})
    document["headers"].append({"name": "x", "id": 90, "header_type": "x_t", "metadata": False})
    return document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (with_type(["a", 7]), "$.header_types[4] is 7 bits long; a header has whole bytes"),
        (with_type(["0", 8]), "fields[0][0] is 0; the name of a field begins with a letter"),
        (
            program(
                register_arrays=[{"name": "x", "id": 0, "bitwidth": 8, "size": 4}],
                counter_arrays=[{"name": "x", "id": 0, "is_direct": False, "size": 4}],
            ),
            "$.register_arrays[0].name is x, which another array or action profile is called",
        ),
        (with_type(["a", 0]), "fields[0][1] is 0; a number from 1 to 4096 was expected"),
        (with_type(["a", 9999]), "fields[0][1] is 9999; a number from 1 to 4096 was expected"),
        (with_type(["a", 8], ["a", 8]), "fields[1][0] is a, which stands there twice"),
        (with_type(["a", "*"], ["b", "*"], max_length=4), "is a second field of variable length"),
        (with_type(["a", "*"]), "$.header_types[4] has no max_length"),
        (with_type(["a", "*"], ["b", 32], max_length=4), "leaves no room for the field of variable length"),
        (with_type(["a", "*"], max_length=4, length_exp={}), "yet: a header that says its own length"),
        (with_type(["a"]), "was expected to be a name, a width and whether it is signed"),
        (
            program(headers=[{"name": "x", "id": 0, "header_type": "no", "metadata": False}]),
            "is 4, which is no",
        ),
        (program(errors=[["A", 1], ["B", 1]]), "$.errors[1] gives B a number a second time"),
        (program(errors=[["A", 1]] * 2), "$.errors[1] gives A a number a second time"),
        (
            program(field_aliases=[["a.b", ["h", "none"]]]),
            "$.field_aliases[0][1][1] is none, which is no field of",
        ),
        (
            program(field_aliases=[["a.b", ["none", "kind"]]]),
            "$.field_aliases[0][1][0] is none, which is no header of the program",
        ),
        (program(parsers=[]), "$.parsers has 0 items; v1model has one parser"),
        (program(deparsers=[]), "$.deparsers has 0 items; 1 were expected"),
        (
            program(deparsers=[{"name": "d", "id": 0, "order": ["scalars"]}]),
            "order[0] is scalars, which is metadata",
        ),
        (
            program(deparsers=[{"name": "d", "id": 0, "order": [], "primitives": [{"op": "x"}]}]),
            'not supported by nicemu yet: primitive "x" in a deparser',
        ),
        (program(actions=[action(0, "a"), action(0, "b")]), "$.actions[1].id is 0, which stands there twice"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(document: Node, message: str) -> None:
    assert message in refusal(document)


def test_a_header_is_part_of_one_stack_or_union_alone() -> None:
    document = program()
    document["header_stacks"].append({"name": "t", "id": 1, "header_type": "item_t", "header_ids": [4]})
    assert "$.header_stacks[1].header_ids[0] is 4, which is no instance, or is part of" in refusal(document)
    document["header_stacks"][1]["header_ids"] = [2]
    assert "is 2, a tag_t; a item_t was expected" in refusal(document)


def test_odd_names_are_kept_apart() -> None:
    """Types are called as the IR calls its own; states as a parser's ends."""
    document = program()
    text = json.dumps(document).replace('"tag_t"', '"headers"').replace('"item_t"', '"standard_metadata_t"')
    text = text.replace('"scalars_0"', '"bit<8>"').replace('"start"', '"accept"')
    loads_or_refuses(text)
    names = [item.name for item in load_bmv2_text(text).program.headers]
    assert names == ["standard_metadata_t.2", "headers.2"]
    assert load_bmv2_text(text).program.parser.start == "accept.2"


def test_a_header_that_is_no_element_may_be_called_like_one() -> None:
    document = program()
    document["headers"] += [
        {"name": name, "id": 50 + place, "header_type": "tag_t", "metadata": False}
        for place, name in enumerate(("lone[0]", "lone_0_"))
    ]
    loads_or_refuses(json.dumps(document))
    headers = next(item for item in load(document).program.structs if item.name == "headers")
    assert [part.name for part in headers.fields if part.name.startswith("lone")] == ["lone_0_", "lone_0__"]


def test_a_pipeline_of_thousands_of_steps_is_no_recursion() -> None:
    first = action(0, "C.a")
    tables = [
        {**made_up(place, first, f"tbl_{place + 1}" if place < 1199 else None), "name": f"tbl_{place}"}
        for place in range(1200)
    ]
    states = [
        state(place, f"s{place}", following=f"s{place + 1}" if place < 99 else None) for place in range(100)
    ]
    document = program(
        actions=[first],
        parsers=[{"name": "parser", "id": 0, "init_state": "s0", "parse_states": states}],
        pipelines=[pipeline(0, "ingress", "tbl_0", tables), pipeline(1, "egress")],
    )
    loads_or_refuses(json.dumps(document))


def test_the_files_that_are_spoilt_are_whole() -> None:
    for file in FILES:
        load(file())


# Files


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "router.json"
    path.write_text(json.dumps(router_json()))
    assert load_bmv2(path).program.name == "router"
    with pytest.raises(UsageError, match="give the path of a BMv2 JSON program"):
        load_bmv2(tmp_path / "none.json")
    path.write_text("{}")
    with pytest.raises(Bmv2Error, match=r"router.json has no __meta__"):
        load_bmv2(path)


def test_a_file_is_known_by_its_name_or_by_how_it_begins(tmp_path: Path) -> None:
    for name, text, known in (
        ("a.json", "", True),
        ("b", '\n {"x": 1}', True),
        ("c.p4", "header x {", False),
    ):
        (tmp_path / name).write_text(text)
        assert is_bmv2(tmp_path / name) is known
    assert not is_bmv2(tmp_path / "none")


@pytest.mark.parametrize("about", [None, {"compiler": "p4c"}])
def test_a_file_without_a_version_is_taken(about: object) -> None:
    """Source: p4lang/behavioral-model, P4Objects: JSON without a version number is read."""
    untagged = {**router_json(), "__meta__": about}
    assert load_bmv2_text(json.dumps(untagged), "router.json").program.name == "router"
