package mysqlinbox

import "github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"

// grammar refuses what ends a transaction or commits it on the way.
// https://dev.mysql.com/doc/refman/8.0/en/implicit-commit.html
// https://mariadb.com/kb/en/sql-statements-that-cause-an-implicit-commit/
var grammar = sqlstore.Grammar{
	Refused: append([]string{
		"XA", "START", "STOP", "CHANGE",
		"CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "IMPORT",
		"ANALYZE TABLE", "ANALYZE TABLES", "ANALYZE LOCAL", "ANALYZE NO_WRITE_TO_BINLOG", "OPTIMIZE", "REPAIR", "CHECK", "CACHE INDEX", "LOAD INDEX",
		"FLUSH", "RESET", "BACKUP",
		"GRANT", "REVOKE", "SET PASSWORD", "SET DEFAULT ROLE",
		"INSTALL", "UNINSTALL",
		"LOCK TABLE", "LOCK TABLES", "UNLOCK TABLE", "UNLOCK TABLES",
	}, sqlstore.TransactionRefused...),
	// Temporary tables are made and dropped within a transaction.
	Allowed: append([]string{
		"CREATE TEMPORARY TABLE", "CREATE OR REPLACE TEMPORARY TABLE", "DROP TEMPORARY TABLE", "DROP TEMPORARY TABLES",
	}, sqlstore.TransactionAllowed...),
	RefusedWords: [][2]string{{"SET", "AUTOCOMMIT"}},
	// MariaDB runs compound statements by themselves, too; the others begin or end
	// with a word that is refused.
	Unjudged: []string{"CALL", "EXECUTE", "SET STATEMENT", "REPEAT"},

	HashComments:    true,
	VersionComments: true,
	Backslash:       true,
	Backticks:       true,
}
