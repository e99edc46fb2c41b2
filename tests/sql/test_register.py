"""Models in DuckDB give the answers of their methods; NULL is missing, wrong columns are named."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA, Mixture
from tests.engines.conftest import make_frame

duckdb = pytest.importorskip("duckdb")

from marginals.sql import register  # noqa: E402


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    table = make_frame().iloc[:120]
    days = pd.to_timedelta(np.arange(120), "D")
    return table.assign(day=pd.Timestamp("2024-01-01") + days)


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> MDMA:
    """A mixture of a tree and copula components, as the default is one."""
    options: dict[str, Any] = {"width": 4, "max_steps": 15, "random_state": 0}
    tree, copula = (MDMA(tensor=kind, **options).fit(frame) for kind in ("ht", "copula"))
    tree.module_ = Mixture([tree.module_, copula.module_])
    return tree


@pytest.fixture(scope="module")
def database(frame: pd.DataFrame, model: MDMA) -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.register("frame", frame.assign(id=range(len(frame))))
        connection.execute("CREATE TABLE t AS SELECT * EXCLUDE id FROM frame ORDER BY id")
        connection.execute("CREATE TABLE named AS SELECT * FROM frame ORDER BY id")
        yield register(connection, model, "m", ignore=["id"])


def column(database: Any, statement: str) -> Any:
    return database.execute(statement).fetchnumpy()["x"]


def test_log_densities(database: Any, model: MDMA, frame: pd.DataFrame) -> None:
    wanted = model.score_samples(frame)
    np.testing.assert_allclose(column(database, "SELECT m_logpdf(t) x FROM t"), wanted, rtol=1e-6)
    found = column(database, "SELECT m_logpdf(named) x FROM named")
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    found = column(database, "SELECT m_logpdf({'age': age}, {'city': city}) x FROM t")
    wanted = model.logpdf(frame[["age"]], given=frame[["city"]])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert column(database, "SELECT m_logpdf(NULL::STRUCT(age BIGINT)) x").mask.tolist() == [True]


def test_probabilities(database: Any, model: MDMA, frame: pd.DataFrame) -> None:
    event = {"income": (300, None)}
    one = column(database, "SELECT m_prob('income > 300 | age = 40') x")
    assert one[0] == pytest.approx(model.prob(event, given={"age": 40}))
    found = column(database, "SELECT m_prob('P(income > 300)', t) x FROM t")
    wanted = model.prob(event, given=frame.drop(columns="income"))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    # A query of its own for each row, answered together; and one with a set that has gaps.
    text = "'income > ' || (200 + grade) || ' | city = Oslo'"
    found = column(database, f"SELECT m_prob({text}, {{'age': age}}) x FROM t LIMIT 9")
    wanted = [
        model.condition({"city": "Oslo"}).prob(
            {"income": (200 + row.grade, None)}, given=pd.DataFrame({"age": [row.age]})
        )[0]
        for row in frame.head(9).itertuples()
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    gaps = "CASE WHEN grade > 2 THEN 'age < 30 or age > 60' ELSE 'age > 50' END"
    found = column(database, f"SELECT m_prob({gaps}) x FROM t LIMIT 9")
    apart = model.prob({"age": [(None, 29), (60, None)]}), model.prob({"age": (50, None)})
    wanted = [apart[0] if grade > 2 else apart[1] for grade in frame["grade"].head(9)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_quantiles_and_means(database: Any, model: MDMA, frame: pd.DataFrame) -> None:
    given = frame.drop(columns="income")
    found = column(database, "SELECT m_ppf(CASE WHEN grade < 2 THEN 0.1 ELSE 0.9 END, "
                   "'income', t) x FROM t")  # fmt: skip
    levels = np.where(frame["grade"] < 2, 0, 1)
    wanted = model.ppf([0.1, 0.9], "income", given=given)[np.arange(len(frame)), levels]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    found = column(database, "SELECT m_mean('income', t) x FROM t")
    np.testing.assert_allclose(found, model.mean("income", given=given), rtol=1e-5)
    assert column(database, "SELECT m_ppf(0.5, 'age') x")[0] == model.ppf(0.5, "age")


def test_unusual_rows_first(database: Any, frame: pd.DataFrame) -> None:
    odd = "(SELECT * REPLACE (CASE WHEN age = 33 THEN 1e7 ELSE income END AS income) FROM t) t"
    rows = database.execute(f"SELECT age, m_tail(t) FROM {odd} ORDER BY 2 LIMIT 2").fetchall()
    assert rows[0][0] == 33
    assert 0 <= rows[0][1] <= rows[1][1] <= 1


def test_filled_rows(database: Any, model: MDMA, frame: pd.DataFrame) -> None:
    for method in ("mean", "median"):
        full = database.execute(f"FROM m_filled('t', method := '{method}')").df()
        wanted = model.impute(frame, method=method)
        assert full.columns.tolist() == frame.columns.tolist()
        assert full["city"].tolist() == wanted["city"].tolist()
        assert full["age"].tolist() == wanted["age"].tolist()
        np.testing.assert_allclose(full["income"], wanted["income"], rtol=1e-5)
        assert (full["day"] == frame["day"]).all()
    some = database.execute("SELECT id, unnest(m_fill({'age': age}, 'draw')) FROM named").df()
    assert some.columns.tolist() == ["id", *frame.columns]
    assert some.notna().all().all()
    assert (some["age"] == frame["age"])[frame["age"].notna()].all()


def test_draws(database: Any, model: MDMA) -> None:
    drawn = database.execute("FROM m_sample(50, seed := 3)").df()
    wanted = model.sample(50, random_state=3)
    assert drawn["city"].tolist() == wanted["city"].tolist()
    assert drawn["day"].tolist() == wanted["day"].tolist()
    assert drawn["age"].dtype == np.int64
    given = "SELECT t.age a, s.* FROM t, m_sample_given({'age': t.age}, 3) s WHERE t.age > 60"
    rows = database.execute(given).df()
    assert (rows["a"] == rows["age"]).all()
    assert rows["income"].nunique() == len(rows)


def test_errors_name_the_column(database: Any) -> None:
    for statement, words in {
        "SELECT m_logpdf({'incme': 3})": "'incme'",
        "SELECT m_prob('incme > 3')": "incme",
        "SELECT m_ppf(0.5, 'incme')": "incme",
        "SELECT m_ppf(0.5, 'city')": "column of numbers",
        "SELECT m_logpdf(3)": "Expected a row",
        "SELECT m_logpdf({'city': 'Paris'})": "Paris",
    }.items():
        with pytest.raises(duckdb.Error, match=words):
            database.execute(statement).fetchall()
    with pytest.raises(ValueError, match="letters"):
        register(database, None, "a b")  # type: ignore[arg-type]


def test_any_sql_type_and_case(database: Any, model: MDMA, frame: pd.DataFrame) -> None:
    wanted = model.score_samples(frame)
    cast = """SELECT age::HUGEINT AS "Age", income::DECIMAL(18, 9) AS INCOME, city::city AS city,
        grade::FLOAT AS grade, day::DATE AS day FROM t"""
    database.execute("CREATE TYPE city AS ENUM ('Rome', 'Oslo', 'Bergen')")
    found = column(database, f"SELECT m_logpdf(r) x FROM ({cast}) r")
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    found = column(database, "SELECT m_ppf(0.5, 'INCOME', {'AGE': 40}) x")
    assert found[0] == pytest.approx(model.ppf(0.5, "income", given={"age": 40}))


def test_statements_as_users_write_them(database: Any, model: MDMA, frame: pd.DataFrame) -> None:
    prepared = "SELECT m_prob('income > ' || ?, {'age': ?}) x"
    found = database.execute(prepared, [300, 40]).fetchnumpy()["x"]
    assert found[0] == pytest.approx(model.prob({"income": (300, None)}, given={"age": 40}))
    nothing = "(SELECT * FROM t WHERE age > 1000)"
    for statement in (
        f"SELECT m_logpdf(r) FROM {nothing} r",
        f"SELECT m_prob('age > 3', r) FROM {nothing} r",
        f"SELECT s.* FROM {nothing} r, m_sample_given({{'age': r.age}}, 2) s",
        "FROM m_sample(0)",
    ):
        assert database.execute(statement).fetchall() == []
    joined = "SELECT sum(m_logpdf(a) - m_logpdf(b)) x FROM t a JOIN t b ON a.day = b.day"
    assert column(database, joined)[0] == 0.0


def test_threads_and_a_newer_model(model: MDMA, frame: pd.DataFrame) -> None:
    with duckdb.connect() as connection, ThreadPoolExecutor(2) as pool:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE t AS SELECT * FROM frame")
        for _ in range(2):  # the second replaces the first
            register(connection, model, "m")
        statement = "SELECT sum(m_logpdf(t)) x FROM t"
        cursors = [connection.cursor() for _ in range(2)]
        found = list(pool.map(lambda c: c.execute(statement).fetchall()[0][0], cursors))
        assert found == pytest.approx([float(model.score_samples(frame).sum())] * 2)
