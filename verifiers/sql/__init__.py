"""Grades SQL by what it does to data, on databases that the agent never touched.

- A *query* runs on a pristine copy and on hidden databases of the same schema with other data, and
  must give what one and the same gold query gives on every one of them. Rows are a multiset, in
  order only where the task orders; where the order's keys tie, any order among equals will do. The
  number of columns counts always, their names never. Values are compared with their types: 1 is
  not '1', nor 1.0, nor true; null equals null. Only columns declared as floats have a tolerance,
  and take any number.
- A *value* is the answer to a question; it is compared as its type has it.
- A *change* is the whole difference: every table, row by row, and the schema with its constraints,
  of the database as it is left, against a pristine copy on which the gold statements ran.

Nothing here runs SQL: an `Engine` does, each time on fresh copies, and never where the agent's own
statements ran. Neither gold nor expected rows are ever where a graded query runs. A gold result
that cannot decide (an error, no rows) is a fault of the task, and raised as ValueError.
"""

from agent_envs.verifiers.sql.rows import Failed, Outcome, Rows, same_rows
from agent_envs.verifiers.sql.state import State, Table, differences
from agent_envs.verifiers.sql.values import Typed, Value, canonical
from agent_envs.verifiers.sql.verify import (
    Engine,
    Gold,
    Report,
    verify_change,
    verify_query,
    verify_value,
)

VERSION = "1"

__all__ = [
    "VERSION",
    "Engine",
    "Failed",
    "Gold",
    "Outcome",
    "Report",
    "Rows",
    "State",
    "Table",
    "Typed",
    "Value",
    "canonical",
    "differences",
    "same_rows",
    "verify_change",
    "verify_query",
    "verify_value",
]
