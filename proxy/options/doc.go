// Package options has the rules for Sluice's own settings (sluice.*), by which clients override configuration keys for
// themselves, as in SET sluice.ddl.in_transactions = 'commit' (rewrite.ClientOptions). SET overrides the startup
// packet, which overrides the user's values in the configuration. No server gets these settings. Most sessions have
// none.
//
//	rules.go     which settings exist, which clients may set, and which values
//	client.go    the options of one client: its planner, SET and RESET, what SHOW answers, notices
//	block.go     options in a block that is committed in parts, and whether a block has run a statement
//	script.go    multi-statement queries that set options: how the text is cut
//	runscript.go how the pieces of the text are run
//
// Package settings stores the values of the settings. Transactions, savepoints, SET LOCAL and RESET apply to them as to
// any other setting. Package proxy sends statements, and passes the status of the session's transaction block in a
// State.
//
// Sluice plans a query by the client's current options. A prepared statement is planned again if they differ at its
// Bind. A multi-statement query that sets options is run in pieces, each planned when the pieces before it have run.
//
// A block's first statement settles how the block is committed (ddl.in_transactions). A later RESET ALL or the end of a
// SET LOCAL applies to the next block. Options for the duration of a block survive an early commit of its first part
// (BlockOptions).
package options
