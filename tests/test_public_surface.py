"""The public names as tools see them: signatures, help, autospecs, and pickling."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import commitlog
from commitlog import bus, keep, types

PUBLIC = {
    **{name: getattr(commitlog, name) for name in commitlog.__all__},
    **{f"bus.{name}": getattr(bus, name) for name in bus.__all__},
}
# Aliases of NumPy's number types, used in annotations only.
NAMED = {
    name: value
    for name, value in PUBLIC.items()
    if inspect.isclass(value) or inspect.isfunction(value)
}


def callables(name: str) -> Iterator[tuple[str, Any]]:
    value = PUBLIC[name]
    yield name, value
    if inspect.isclass(value):
        foreign = set(dir(Exception)) if issubclass(value, Exception) else set(dir(object))
        for member in dir(value):
            if (
                not member.startswith("_")
                and member not in foreign
                and callable(getattr(value, member))
            ):
                yield f"{name}.{member}", getattr(value, member)


@pytest.mark.parametrize("name", sorted(NAMED))
def test_help_names_parameters_of_each_public_callable(name: str) -> None:
    for path, value in callables(name):
        parameters = inspect.signature(value).parameters
        assert not any(
            each.kind is each.VAR_POSITIONAL and each.name == "args" for each in parameters.values()
        ), path
        text = pydoc.plain(pydoc.render_doc(value))
        assert all(parameter in text for parameter in parameters), path


@pytest.mark.parametrize("kind", [commitlog.CommitLog, commitlog.Tailer, commitlog.Batch])
def test_types_of_public_signatures_have_a_public_place(kind: type) -> None:
    places = (commitlog, keep, types)
    known = {name for module in places for name in module.__all__}
    known |= {"Any", "Callable", "Collection", "False", "Iterable", "Iterator", "Literal", "None"}
    known |= {"Mapping", "PathLike", "StoreRule"}  # the last one is the base of `Store`
    known |= {"NDArray", "OptionOverrides", "ReadableBuffer", "Self", "Sequence", "True", "Unpack"}
    known |= {"RecordBatch", "RecordBatchReader", "Table"}  # of pyarrow
    missing = set()
    for name in dir(kind):
        member = getattr(kind, name)
        if not name.startswith("_") and callable(member):
            missing |= set(re.findall(r"\b[A-Z]\w+", str(inspect.signature(member)))) - known
    assert not missing


@pytest.mark.parametrize("name", sorted(NAMED))
def test_each_public_name_has_an_autospec(name: str) -> None:
    mock.create_autospec(PUBLIC[name])


def test_help_shows_the_parameters_of_a_compiled_method() -> None:
    signature = inspect.signature(commitlog.CommitLog.append)
    assert list(signature.parameters) == [
        "self",
        "value",
        "key",
        "type",
        "timestamp_ns",
        "sync",
        "expect",
        "producer",
        "producer_sequence",
        "headers",
    ]
    assert "append(self" in pydoc.plain(pydoc.render_doc(commitlog.CommitLog.append))


def test_tailer_lists_only_its_public_names() -> None:
    assert {name for name in dir(commitlog.Tailer) if not name.startswith("_")} == {
        *("close", "damaged", "direction", "dropped_records", "follow", "name", "position"),
        *("read", "read_batch", "reading", "reading_batch", "search", "seek", "seek_cycle"),
        *("striding", "values"),
    }


@pytest.mark.parametrize(
    "act", [pickle.dumps, copy.copy, copy.deepcopy], ids=lambda act: act.__name__
)
def test_open_objects_cannot_be_pickled(tmp_path: Path, act: Callable[[Any], Any]) -> None:
    with (
        commitlog.open(tmp_path / "log") as log,
        log.tailer() as tailer,
        log.tailer("name") as named,
        log.claim(10) as claim,
        bus.writer(tmp_path / "bus") as writer,
        bus.reader(tmp_path / "bus") as reader,
        commitlog.TransientStorePool(buffers=1, buffer_size="64KiB") as pool,
    ):
        for value in (log, tailer, named, claim, writer, reader, pool):
            with pytest.raises(
                TypeError,
                match=f"a {type(value).__name__} cannot be pickled or copied: .* in (each|the) "
                "process",
            ):
                act(value)


def test_read_records_can_be_pickled(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        log.append(b"value")
        record = log.tailer().read()
        batch = log.tailer().read_batch(10)
        assert pickle.loads(pickle.dumps(record)) == record
        assert pickle.loads(pickle.dumps(batch)).values() == [b"value"]
        stats = log.stats()
        assert pickle.loads(pickle.dumps(stats)) == stats


@pytest.mark.parametrize("given", [(), (3,)], ids=["nothing", "a number"])
def test_commit_log_constructor_raises(given: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"call commitlog\.open"):
        commitlog.CommitLog(*given)


@pytest.mark.parametrize("kind", [commitlog.Record, commitlog.Claim])
def test_constructors_of_log_objects_raise(kind: type) -> None:
    with pytest.raises(TypeError, match="tailer|CommitLog.claim"):
        kind()


def test_loggers_keep_the_names_that_programs_configure() -> None:
    package = Path(commitlog.__file__).parent
    texts = [file.read_text() for file in package.rglob("*.py")]
    names = {name for text in texts for name in re.findall(r'getLogger\("([^"]+)"\)', text)}
    children = "keep metrics mirror outbox pool recovery remote repair replication segment spark"
    children += " stage store"
    assert names == {"commitlog", *(f"commitlog.{each}" for each in children.split())}
