"""A silo's table: from a CSV or Parquet file, or from a database through SQLAlchemy."""

from __future__ import annotations

import pandas as pd

from fairsilo.data.asked import of_probabilities, only
from fairsilo.data.columns import decimals_as_numbers
from fairsilo.data.dialect import Dialect
from fairsilo.data.schema import Schema
from fairsilo.data.table import read_table
from fairsilo.errors import FairSiloError
from fairsilo.network.settings import Settings


def read_rows(settings: Settings, schema: Schema, *beside: str | None) -> pd.DataFrame:
    """The silo's rows, as its own settings name them; the columns are what the schema says.

    Of a file no others are read but those `beside` and those of predictions that the settings name.
    """
    if settings.data is not None:
        dialect = Dialect(settings.sep, settings.decimal, settings.thousands)
        predicted = (settings.audit_predictions, *of_probabilities(settings.audit_probability))
        choice = only(*schema.columns, *schema.vocabularies, *beside, also=predicted)
        return read_table(settings.data, schema, dialect, choice)
    assert settings.url is not None
    assert settings.query is not None
    return read_sql(settings.url, settings.query)


def read_sql(url: str, query: str) -> pd.DataFrame:
    """The result of a query. Messages never carry the address, which may hold a password."""
    import sqlalchemy
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

    try:
        engine = sqlalchemy.create_engine(url)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise FairSiloError(
            f"the database address cannot be used ({type(error).__name__}): write it as SQLAlchemy "
            "does, such as sqlite:///bank.db, and install its driver"
        ) from None
    try:
        with engine.connect() as connection:
            result = connection.execute(sqlalchemy.text(query))
            names = list(result.keys())
            frame = pd.DataFrame(result.fetchall(), columns=pd.Index(names))
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or type(error).__name__).splitlines()[0]
        raise FairSiloError(
            f"the database did not answer the query ({reason}): check url and query"
        ) from None
    finally:
        engine.dispose()
    for name in names:
        if names.count(name) > 1:
            raise FairSiloError(f"the query has two columns named {name!r}: rename one")
    if not len(frame):
        raise FairSiloError("the query gives no rows: check it")
    return decimals_as_numbers(frame)
