"""The addresses of logs; an address with a credential is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from commitlog.errors import InvalidOptionError, IOFailureError, LogNotFoundError, NotALogError
from commitlog.spark import places
from commitlog.spark.read_options import ReadOptions
from commitlog.spark.topics import locate
from tests.spark.logs_in_spark import archive, fill, numbered, values
from tests.spark.object_store import object_store


@pytest.mark.parametrize(
    "uri",
    [
        "s3://AKIA:sesame@bucket/logs",
        "s3://bucket/logs?secret_key=sesame",
        "gs://bucket/logs?access_token=sesame",
        "abfs://box:sesame@account/logs",
        "abfs://box@account/logs?sas_token=sesame",
    ],
)
def test_uri_with_credential_raises_without_repeating_it(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match="has a credential in it") as caught:
        places.normalized(uri)
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/logs?region=eu-north-1&endpoint_override=localhost:9000",
        "gs://anonymous@bucket/logs",
    ],
)
def test_uri_without_credential_is_accepted(uri: str) -> None:
    assert places.normalized(uri) == uri


def test_join_puts_name_before_uri_query() -> None:
    assert places.join("s3://bucket/logs?region=x", "a b") == "s3://bucket/logs/a%20b?region=x"
    assert places.name_of("s3://bucket/logs/a%20b?region=x") == "a b"
    assert places.parent("s3://bucket/logs/a?region=x") == "s3://bucket/logs?region=x"


def test_file_uri_normalizes_to_a_path() -> None:
    assert places.normalized("file:///logs/a%20b/") == "/logs/a b"


def test_unknown_uri_scheme_raises() -> None:
    with pytest.raises(InvalidOptionError, match="pyarrow cannot open gopher://hole/logs"):
        places.open_file("gopher://hole/logs")


# --- finding logs ---------------------------------------------------------------------------------


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    """A directory with the logs orders, orders-old and bids, and entries that are no logs."""
    for name in ("orders", "orders-old", "bids"):
        fill(tmp_path / "logs" / name, [b"x"])
    (tmp_path / "logs" / "notes").mkdir()
    (tmp_path / "logs" / "orders.txt").touch()
    return tmp_path / "logs"


def _names(*paths: object, **options: str) -> list[str]:
    listed = "[" + ", ".join(f'"{path}"' for path in paths) + "]"
    return list(locate(ReadOptions.parse({"paths": listed, **options}, stream=False)))


def test_locate_finds_logs_by_path_pattern_list_and_segment(farm: Path) -> None:
    assert _names(farm / "orders") == ["orders"]
    assert _names(farm / "*") == ["bids", "orders", "orders-old"]
    assert _names(farm / "orders", farm / "bids") == ["orders", "bids"]
    assert _names(farm / "orders" / f"{0:020d}.seg") == ["orders"]
    assert _names(farm / "ord?rs") == ["orders"]


def test_subscribe_finds_logs_below_a_directory(farm: Path) -> None:
    assert _names(farm, subscribe="bids, orders") == ["bids", "orders"]
    assert _names(farm, subscribePattern="orders.*") == ["orders", "orders-old"]
    assert _names(farm, subscribePattern="orders") == ["orders"]


def test_two_logs_of_one_name_raise(farm: Path, tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere" / "orders", [b"x"])
    with pytest.raises(InvalidOptionError, match="two logs are called 'orders'"):
        _names(farm / "orders", tmp_path / "elsewhere" / "orders")


def test_log_named_twice_is_located_once(farm: Path) -> None:
    assert _names(farm / "orders", farm / "ord*s") == ["orders"]


def test_missing_log_raises_log_not_found(farm: Path) -> None:
    with pytest.raises(
        LogNotFoundError, match="there is no log here: this directory does not exist"
    ):
        _names(farm / "missing")
    with pytest.raises(LogNotFoundError, match="there is no log here"):
        _names(farm / "missing*")
    with pytest.raises(LogNotFoundError, match="there is no log 'asks' below"):
        _names(farm, subscribe="bids,asks")
    with pytest.raises(LogNotFoundError, match=r"subscribePattern=asks\.\*"):
        _names(farm, subscribePattern="asks.*")


def test_directory_of_logs_raises_suggesting_subscribe(farm: Path) -> None:
    with pytest.raises(NotALogError, match="name the logs below it with subscribe"):
        _names(farm)


def test_pattern_in_a_uri_raises() -> None:
    with pytest.raises(InvalidOptionError, match="a pattern must be a local path"):
        _names("s3://bucket/logs/*")


@pytest.mark.parametrize(
    "place",
    ["s3://bucket/log?endpoint_override=http%3A%2F%2F[::1]:9&region=x", "s3://bucket/log?region=*"],
)
def test_query_of_a_uri_is_no_pattern(place: str) -> None:
    assert places.expanded(place) == [place]


def test_uri_with_a_query_is_read(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(1500))
    archive(tmp_path / "log", tmp_path / "store" / "bucket" / "logs" / "orders")
    with object_store(tmp_path / "store") as query:
        assert _names(f"s3://bucket/logs/orders{query}") == ["orders"]
        assert _names(f"s3://bucket/logs{query}", subscribePattern="ord.*") == ["orders"]
        assert values(path=f"s3://bucket/logs/orders{query}") == numbered(1500)[:1024]


def test_unreachable_hadoop_raises_io_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", "/nowhere")
    for ask in (places.names, places.open_file):
        with pytest.raises(
            IOFailureError, match="set JAVA_HOME, HADOOP_HOME and CLASSPATH .*hdfs://host:1/log"
        ):
            ask("hdfs://host:1/log")
