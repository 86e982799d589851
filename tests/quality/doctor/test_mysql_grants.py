"""What a server's GRANT statements are read as; whatever is not understood counts as too much."""

from __future__ import annotations

import pytest

from toolgen.connectors.sql.reading.mysql_rights import parse_grants
from toolgen.model.database_rights import TablePrivilege

LINES: list[tuple[str, list[TablePrivilege], list[str]]] = [
    ("GRANT USAGE ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*CANARY'", [], []),
    ("GRANT ALL PRIVILEGES ON *.* TO `a`@`%` WITH GRANT OPTION", [], ["grant-option", "superuser"]),
    ("GRANT FILE, SUPER ON *.* TO `a`@`%`", [], ["global", "global"]),
    ("GRANT BACKUP_ADMIN,ROLE_ADMIN ON *.* TO `a`@`%`", [], ["global", "global"]),
    ("GRANT SELECT ON `shop`.* TO `a`@`%`", [], ["database"]),
    ("GRANT SELECT ON `shop`.`t` TO `a`@`%`", [TablePrivilege(table="t", privilege="SELECT")], []),
    ("GRANT SELECT ON `o``ther`.`t` TO `a`@`%`", [TablePrivilege(table="o`ther.t", privilege="SELECT")], []),
    (
        "GRANT SELECT (`id`, `a``b`), INSERT (`id`), DELETE ON `shop`.`t` TO `a`@`%`",
        [
            TablePrivilege(table="t", privilege="DELETE"),
            TablePrivilege(table="t", privilege="INSERT", column="id"),
            TablePrivilege(table="t", privilege="SELECT", column="a`b"),
            TablePrivilege(table="t", privilege="SELECT", column="id"),
        ],
        [],
    ),
    ("GRANT EXECUTE ON PROCEDURE `shop`.`p` TO `a`@`%`", [], ["function"]),
    ("GRANT PROXY ON ''@'%' TO 'root'@'localhost' WITH GRANT OPTION", [], ["proxy"]),
    ("GRANT `reader` TO `a`@`%`", [], []),
    ("GRANT `reader`@`%`,`writer`@`%` TO `a`@`%`", [], []),
    ("SET DEFAULT ROLE `reader` FOR `a`@`%`", [], []),
    ("GRANT something new ON `shop`.`t` TO `a`@`%`", [], ["not-understood"]),
    ("REVOKE SELECT ON `shop`.* FROM `a`@`%`", [], ["not-understood"]),
]


@pytest.mark.parametrize(("line", "grants", "powers"), LINES)
def test_a_grant_is_read(line: str, grants: list[TablePrivilege], powers: list[str]) -> None:
    rights = parse_grants([line], "a", "shop")

    assert list(rights.grants) == grants
    assert sorted(power.code for power in rights.powers) == powers
    assert "CANARY" not in repr(rights)
    assert rights.unlimited is ("superuser" in powers)
