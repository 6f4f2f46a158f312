package postgres

import "github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"

// Grammar judges the statements of handlers.
func Grammar() sqlstore.Grammar {
	return sqlstore.Grammar{
		// RESET ALL and DISCARD would take the mark of the claim's transaction.
		Refused:           append([]string{"ABORT", "PREPARE TRANSACTION", "RESET ALL", "DISCARD"}, sqlstore.TransactionRefused...),
		Allowed:           sqlstore.TransactionAllowed,
		Unjudged:          []string{"CALL", "DO"},
		DollarQuotes:      true,
		NestedComments:    true,
		ReturnEndsComment: true,
	}
}
