// Package proxy speaks the Postgres protocol to clients and pairs them, for one transaction at a time, with backends of
// a reservoir.
//
// # Who owns what
//
// One goroutine owns a session. It reads the client, writes the backend, reads the backend and writes the client, one
// turn after another. So it always knows its position in both streams and can send the client any error. Six exceptions
// exist. A goroutine writes an oversized turn, and ends with the turn (uplink.go). A goroutine watches a backend that
// may send frames while the session waits for its client (copy.go). Another goroutine may check the client while its
// session waits (package interrupt). No goroutine owns the session of a client that is silent for long
// (parking.go). Cancel requests come on separate connections (cancel.go). The sweeper, a drain or a cancel wakes a
// session by a read deadline.
//
// A read that a deadline has ended looks for the reason and continues if there is none, so a late deadline does no
// harm. Write deadlines never expire on a connection that stays in use, since they would break TLS.
//
// A backend belongs to the reservoir, or to the session that it is lent to. Its settings and its prepared statements
// (backend.go) end with it.
//
// # What happens to a frame
//
// A turn (exchange.go) is the client's frames up to the Sync, Query or FunctionCall that ends them, with all answers.
// request.go takes one frame, query.go a Query, extended.go and bind.go the frames of the extended protocol, copy.go
// those of a COPY. Package rewrite plans each query. Sluice itself answers some statements: localstatements.go,
// control.go (BEGIN, and the end of a block that no server has seen), savepoint.go, and script.go (in multi-statement
// queries).
//
// Where a transaction with DDL may be committed in parts (ddl.in_transactions), package ddltx decides about each query
// first. parts.go carries the decision out, and partruns.go runs some queries in nested turns (nested.go).
//
// Where columns are mapped (rewrite.bytea), the meaning of a query depends on the relations of the database
// and on the session's search path (package mapping). Sluice plans no query without them (resolvenames.go).
//
// The first frame that the server must see makes ensureBackend (pair.go) borrow a backend, to which applysettings.go
// applies the client's settings. Then the frame is logged for a replay (replaylog.go), a pending reply is queued
// (pendingreply.go), and uplink.go writes the frame. Package outcome records what was sent, and so what may have
// committed.
//
// # What happens to a reply
//
// Frames pass as bytes. A session's queue of pending replies (pendingreply.go) has one entry for each frame that the
// server will answer, and one for each answer of Sluice itself, in the order that the client expects. downlink.go reads
// the server's frames. reply.go matches a frame with the first pending reply, records its meaning, and decides whether
// the client gets it. Output is withheld while a replay may still replace it. At ReadyForQuery pair.go settles the
// turn: it commits or drops staged settings, reported.go sends changed parameters, and the backend is returned.
//
// # What happens to a cursor
//
// DSQL has no DECLARE. A cursor is a portal of its query, under the cursor's name: DECLARE is sent as a Bind, FETCH as
// an Execute with a limit on rows, CLOSE as a Close (cursor.go; by the extended protocol cursorextended.go). The
// cursor's query has a plan and a template as any other query. Sluice drops the server's answers that a client does not
// expect, and makes the command tag from the number of rows. The log has these frames and answers like others.
//
// # What happens to a COPY
//
// COPY FROM STDIN goes to the server unchanged, and copy.go relays its data. For a server without COPY package copyin
// runs INSERTs (copy.from). Package feature declares the part of a session that packages such as copyin see
// (featuresession.go). Only the table in handlers.go names copyin, and its statements run in nested turns (nested.go).
//
// # What happens to an advisory lock
//
// DSQL has no advisory locks. The locks of a session are rows of a table, which its Sluice renews (package advisory has
// the rules). Package locktable queries that table on separate backends (lockdatabase.go), and renews locks. locks.go
// takes and releases locks, lockcall.go has the statements' parameters and answers. Writes of a session with locks
// follow a check of the locks in the same transaction (lockfence.go), which internalblock.go opens if the client has
// none.
//
// # What happens to a conflict
//
//	conflict   after a conflict (replay.go) or the loss of a backend (loss.go), Sluice decides whether to replay
//	abort      abort.go ends the failed attempt at the backend, and drops its answers
//	wait       reacquire.go waits for the pause between attempts, and at the gate (gate.go)
//	reacquire  reacquire.go gets the same backend, or another with the same settings
//	resend     resend.go sends the log, turn by turn
//	verify     resend.go compares the answers of each settled turn with the first ones
//	continue   the attempt has come as far as the client had, and the turn goes on; or
//	refuse     refuseReplay (replay.go) sends the original error, with the reason
//
// # Where things are
//
//	accept      server.go, arrivals.go, parking.go, opensession.go, startupsettings.go, schemaname.go, config.go,
//	            accounts.go, packages account, admission, database, opening and startup
//	session     session.go, blockposition.go, package block (a session's block), activestate.go, exchange.go,
//	            sessionend.go, state.go, turn.go, pair.go, pin.go, packages pin and leftover, leftstate.go,
//	            package remains (state that functions have left on a backend), wait.go, presence.go, cancel.go,
//	            packages interrupt and stopping
//	options     options.go, package options (keys that a client has changed for itself, and queries that do so)
//	client      request.go, refuse.go, query.go, extended.go, bind.go, describe.go, packages request and notice,
//	            copy.go, portal.go, featuresession.go, packages feature, copyin and copyrows, cursor.go,
//	            cursorextended.go, storedreading.go, stored.go, package stored, handlers.go, localstatements.go,
//	            localexecute.go, package result, setconfigreply.go, setconfigrow.go, databaseddl.go, ownserver.go,
//	            package ddl, package constraint, indexwait.go, largedelete.go, package batch, commandtag.go,
//	            control.go, readonly.go, package access (READ ONLY), script.go, scriptreply.go, packages script
//	            and ddltx, parts.go, partruns.go, parttime.go, nested.go
//	statements  prepared.go, templates.go, prepareforclient.go, schema.go, constants.go, parsesettings.go,
//	            maskedreply.go, split.go, readingmode.go, readpurity.go, visibility.go, package statement
//	settings    trackedsettings.go, localsettings.go, applysettings.go, reported.go, restoresettings.go, package
//	            settings (Client: all settings of a client), package serversettings (Backend: those of a backend)
//	mapping     package mapping (the schema snapshot, and the names of a session), mappingserver.go, resolvenames.go,
//	            literalquery.go, schemaload.go, packages catalog and mappederror
//	sequences   sequences.go, package sequence (whose numbers currval and lastval would return)
//	locks       locks.go, lockdatabase.go, lockcall.go, lockfence.go, internalblock.go, packages advisory and locktable
//	backend     backend.go, uplink.go, downlink.go, output.go, reply.go, replyend.go, replyerror.go, pendingreply.go,
//	            observers.go (calls of features at fixed points of a session), loss.go, serverfatal.go, path.go,
//	            errortext.go
//	questions   packages trip (Sluice's own round trips), question (when to ask again) and serverfacts (what is asked)
//	replay      replay.go, replaylog.go, abort.go, reacquire.go, resend.go, resendframe.go, replan.go, gate.go,
//	            recordedvalues.go, resendvalues.go, transactiontime.go, packages recorded and txtime, querytime.go,
//	            savepoint.go, discarded.go
//	bytes       packages wire, rawconn and sqlerror (the errors that Sluice itself sends)
//
// docs/glossary.md explains words such as turn, block, plan and pin. In names here, owed is a pending reply, kept a
// setting that Sluice stores instead of the server, carried a setting that Sluice applies to each backend of the
// client, dedicated a session with its own backend, and aborting a failed attempt whose answers nobody gets.
package proxy
