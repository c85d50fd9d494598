"""Wrong queries that look right: a right one with a single mistake of those that models make."""

import re

_COMPARE = {">": ">=", ">=": ">", "<": "<=", "<=": "<", "=": "<>", "<>": "="}
_AGGREGATES = ("sum", "avg", "max", "min")


def mutants(sql, blanks):
    """Yield the kind of each mistake and the query with it, never the query itself."""
    seen = {sql}
    for kind, mutant in _all(sql, blanks):
        if mutant not in seen:
            seen.add(mutant)
            yield kind, mutant


def _all(sql, blanks):
    # Conditions on columns; the condition of a join links keys and is left alone.
    for found in re.finditer(r" (>=|<=|<>|>|<|=) (?=\d|'|\()", sql):
        yield "comparison", _put(sql, found, f" {_COMPARE[found[1]]} ")
    for found in re.finditer(r"(?<=[<>=] )\d+|(?<=LIMIT )\d+", sql):
        yield "off by one", _put(sql, found, str(int(found[0]) + 1))
        if int(found[0]) > 1:
            yield "off by one", _put(sql, found, str(int(found[0]) - 1))
    for found in re.finditer(r"\b(sum|avg|max|min)\(", sql):
        for other in _AGGREGATES:
            yield "wrong aggregate", _put(sql, found, f"{other}(")
    yield "wrong aggregate", re.sub(r"\b(?:sum|avg|max|min)\([\w.]+\)", "count(*)", sql, count=1)
    yield "wrong aggregate", re.sub(r"count\(DISTINCT ([\w.]+)\)", r"count(\1)", sql)
    yield "wrong aggregate", re.sub(r"count\(\w+\.id\)", "count(*)", sql)
    yield "no tie-break", re.sub(r"(ORDER BY .*?(?:DESC|ASC)), [\w.]+(?: DESC)?", r"\1", sql)
    yield "wrong order", re.sub(r"(ORDER BY .*?)DESC", r"\1ASC", sql)
    yield "wrong order", re.sub(r"(ORDER BY .*?)ASC", r"\1DESC", sql)
    yield "no limit", re.sub(r" LIMIT \d+", "", sql)
    yield "repeated rows", sql.replace("SELECT DISTINCT", "SELECT")
    yield "wrong column", re.sub(rf"\b{blanks['number']}\b", "id", sql)
    yield "wrong column", re.sub(rf"\b{blanks['amount']}\b", "id", sql)
    yield "wrong column", sql.replace("SELECT name", "SELECT id").replace(".name FROM", ".id FROM")
    yield "wrong column", sql.replace(f"{blanks['a']}.name", f"{blanks['b']}.name")
    for other in ("zzz",):
        yield "wrong value", re.sub(r"'[^']+'", f"'{other}'", sql, count=1)
    yield "lost condition", re.sub(r"WHERE [\w.]+ (?:\S+) (?:\d+|'[^']+') (?:AND|OR)", "WHERE", sql)
    yield "lost condition", re.sub(r" (?:AND|OR) [\w.]+ (?:\S+) (?:\d+|'[^']+')", "", sql)
    yield "lost condition", re.sub(r" WHERE [\w.]+ \S+ (?:\d+|'[^']+')(?! AND| OR)", "", sql)
    yield "lost condition", re.sub(r" HAVING .*$", "", sql)
    yield "and for or", sql.replace(" OR ", " AND ")
    yield "or for and", sql.replace(" AND ", " OR ")
    yield "wrong set", sql.replace("NOT IN", "IN")
    yield "lost rows", sql.replace("LEFT JOIN", "JOIN")
    yield "lost group", re.sub(r" GROUP BY [\w.]+(?=$| HAVING)", "", sql)


def _put(sql, found, text):
    return sql[: found.start()] + text + sql[found.end() :]
