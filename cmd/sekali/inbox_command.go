package main

import "github.com/spf13/cobra"

func (a *app) inboxCommand() *cobra.Command {
	return group("inbox", "Claims and consumers: what was processed, and by whom",
		`Looks at the claims and consumers of the services' databases, and changes them
on purpose, with an entry in the audit. Nothing here touches the broker.`,
		"  sekali inbox stats",
		a.inboxMigrate(), a.inboxCheck(), a.inboxStats(), a.inboxShow(), a.inboxForget(), a.inboxRename(), a.inboxHorizon(),
		a.inboxPurge(), a.inboxMode(), a.inboxKeyRule(), a.inboxAudit())
}
