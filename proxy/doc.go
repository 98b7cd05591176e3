// Package proxy speaks the Postgres protocol to clients and pairs them, for one transaction at a time, with backends of
// a reservoir.
//
// # Who owns what
//
// One goroutine owns a session. It reads the client, writes the backend, reads the backend and writes the client, one
// turn after the other, so it always knows where both streams stand and can tell the client of any error. The
// exceptions: the writer of an oversized turn (uplink.go), which lives no longer than the turn; the watcher of a
// backend that may speak while the client is awaited (copy.go); the looks for a client while its session waits for
// something else (watchClient in wait.go); a client that is silent for long, whose session no goroutine owns
// (linger.go); cancel requests, which come on connections of their own (cancel.go); and wake-ups by a read deadline,
// from the sweeper, a drain or a cancel. A read that such a deadline ended looks for its reason and goes on when it
// finds none, so a late one does no harm. Write deadlines never expire on a connection that lives on: TLS would be
// broken by it.
//
// A backend belongs to the reservoir, or to the session that it is lent to. Its settings and its prepared statements
// ride on it (backend.go), and go with it.
//
// # What happens to a frame
//
// exchange.go takes a turn: the client's frames up to the Sync, Query or FunctionCall that ends it, and everything that
// answers them. handle (request.go) takes one frame, query.go a simple one, extended.go and bind.go those of the
// extended protocol, copy.go those of a COPY. A text has a plan of package rewrite; what Sluice answers itself is in
// local.go, control.go (BEGIN, and the end of a block that no server has seen), savepoint.go, and strung.go (inside a
// string of others).
//
// Where a transaction with DDL may be committed in parts (ddl.in_transactions), parts.go looks at each text first, and
// runs some of it in nested turns (nested.go).
//
// Where columns are mapped (rewrite.bytea), what a text means depends on the relations of the database and on the
// session's search path: mapping.go keeps the former, mapnames.go knows the latter, and no text is planned without.
//
// The first frame that the server must see has ensureBackend (pair.go) borrow a backend, and applysettings.go bring the
// client's settings to it. Then the frame is logged for a replay (replaylog.go), an entry is owed (owed.go), and
// uplink.go writes. Package outcome follows what was sent, and so what may have committed.
//
// # What happens to a reply
//
// Frames pass as bytes. A session keeps what it must know of them in the owed queue: one entry for each frame that the
// server will answer, and one for each answer that Sluice makes up, in the order in which the client expects them.
// downlink.go reads; reply.go matches a frame with the head of the queue, takes note of what it means, and says whether
// it passes. Output is withheld while a replay may still replace it. At ReadyForQuery settle (pair.go) keeps or drops
// what the turn staged, reported.go tells of parameters, and the backend goes back.
//
// # What happens to a cursor
//
// DSQL has no DECLARE. A cursor is a portal of its query, under its own name: DECLARE is sent as a Bind, FETCH as an
// Execute with a limit on rows, CLOSE as a Close (cursor.go; by the extended protocol cursorextended.go). The query is
// a text like any other, with a plan and a template of its own. The server's answers that a client does not expect are
// swallowed, and the tag is made from the rows that were counted. For the log these are frames and answers as others
// are.
//
// # What happens to a COPY
//
// COPY FROM STDIN goes to the server as it is, and copy.go relays its data. For a server without COPY package copyin
// runs INSERTs (copy.from). Package feature declares what such a package sees of a session (featuresession.go). The
// table in handlers.go alone names it, and its statements run in nested turns (nested.go).
//
// # What happens to an advisory lock
//
// DSQL has none. Those of a session are rows of a table, which its Sluice renews (package advisory has the rules):
// locktable.go asks the server, on backends of its own; locks.go takes locks and gives them up, lockkeeper.go renews
// them, lockcall.go has the statements' parameters and answers. What a session that holds one sends goes behind a check
// in its own transaction (lockfence.go), which ownblock.go opens where the client has none.
//
// # What happens to a conflict
//
//	conflict   conflicted (replay.go), or the loss of a backend (loss.go): may it be run again?
//	abort      abort.go: the attempt is brought to its end, and what it says is for nobody
//	wait       reacquire.go: the pause, and the gate (gate.go)
//	reacquire  reacquire.go: the same backend, or another with the same settings
//	resend     resend.go: the log, turn by turn
//	verify     resend.go: each settled turn must answer what it answered
//	continue   where the attempt has come as far as the client had; or
//	refuse     refuseReplay (replay.go): the original error, with the reason
//
// # Where things are
//
//	accept      server.go, arrivals.go, linger.go, opensession.go, askstartup.go, greeting.go, schemaname.go,
//	            config.go, accounts.go, packages account, admission, database and startup
//	session     session.go, standing.go, package block (how a session stands), atwork.go, exchange.go, sessionend.go, state.go, turn.go, pair.go, pin.go, package leftover,
//	            leftbehind.go, package remains (what functions have left at a backend),
//	            wait.go, deadline.go, presence.go, cancel.go
//	choices     choices.go (what a client has otherwise than the configuration says), choicestring.go (in strings)
//	client      request.go, refuse.go, query.go, extended.go, bind.go, describe.go, copy.go, portal.go,
//	            featuresession.go, packages feature, copyin and copyrows,
//	            cursor.go, cursorextended.go, storing.go, stored.go, package stored,
//	            handlers.go, local.go, localexecute.go, package result, told.go, configrow.go, databaseddl.go, ownserver.go, package ddl,
//	            package constraint, indexwait.go, largedelete.go, package batch, truncate.go, retag.go,
//	            control.go, readonly.go, strung.go, division.go, strungreply.go, parts.go, partruns.go, parttime.go, parttold.go, partsaves.go, nested.go
//	statements  prepared.go, templates.go, serverstatements.go, agreed.go, schema.go, constants.go, txparsing.go, rewritten.go,
//	            split.go, reading.go, purity.go, counter.go, texts.go
//	settings    notesettings.go, keptsettings.go, applysettings.go, reported.go, named.go, putback.go,
//	            package settings (Client: all that a client has SET)
//	mapping     mapping.go, relations.go, fills.go, mapnames.go, namesnothing.go, readings.go, searchpath.go, mappederrors.go
//	sequences   sequences.go, package sequence (whose numbers currval and lastval would return)
//	locks       locks.go, locktable.go, lockkeeper.go, lockcall.go, lockfence.go, ownblock.go, package advisory
//	backend     backend.go, uplink.go, downlink.go, output.go, reply.go, replyend.go, replyerror.go, owed.go,
//	            observers.go (what features do at fixed points of a session),
//	            loss.go, farewell.go, path.go, mapped.go, groups.go
//	questions   groups.go, package trip (round trips of Sluice's own), package question (what they ask, and when again)
//	replay      replay.go, replaylog.go, abort.go, reacquire.go, resend.go, resendframe.go, replan.go, gate.go,
//	            keptvalues.go, keptresend.go, toldtime.go, package txtime, askedtime.go, savepoint.go, discarded.go
//	bytes       errors.go, packages wire and rawconn
//
// # Words
//
//	turn       from a request's first frame to the ReadyForQuery that answers it
//	block      a transaction from BEGIN to COMMIT or ROLLBACK
//	group      frames of the extended protocol up to a Sync
//	string     the statements of one simple Query
//	owed       a reply that is still to come
//	withheld   output that the client has not been sent, because a replay may replace it
//	staged     changes of settings that their transaction has not committed
//	kept       settings that Sluice answers for and the server never sees
//	carried    settings that go with the client from backend to backend
//	pinned     a session that keeps its backend, for what it has left there
//	dedicated  a session whose backend was dialled for it
//	aborting   an attempt has failed, and what the backend says is for nobody
//	unread     a text that nobody has parsed: it is taken for anything
package proxy
