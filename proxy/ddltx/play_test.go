package ddltx_test

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/ddltx"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A player does with a client's texts what a session does: it follows the block, asks the Tx, and runs what the Tx says.
// out has what a server would get, and the messages for the client.
type player struct {
	t       *testing.T
	planner *rewrite.Planner
	tx      *ddltx.Tx
	at      block.Block
	names   []string // savepoints of the open part
	empty   []string // of these, the ones after which nothing ran
	clock   bool     // the open part has read the clock
	outside bool     // a text runs that does not belong to the client's block
	before  *listing.Statements
	out     []string

	// pipeline means that the next texts are of one pipeline, after others. fails has how texts outside the block begin
	// that fail next. skips means that the server skips the next COMMIT, and cancels that the client cancels the next
	// group.
	pipeline, skips, cancels bool
	fails                    []string
}

func newPlayer(t *testing.T, policy rewrite.DDLInTransactions) *player {
	config := rewrite.Defaults()
	config.Rules.InTransactions, config.Rules.Backfill = policy, true
	planner, err := rewrite.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return &player{t: t, planner: planner, tx: ddltx.New(policy)}
}

// order is a line of a script that is no text.
func (p *player) order(line string) {
	switch verb, what, _ := strings.Cut(line, " "); verb {
	case "pipeline":
		p.pipeline = true
	case "sync":
		p.pipeline = false
		p.at.RecordSync()
	case "skip":
		p.skips = true
	case "cancel":
		p.cancels = true
	case "fail":
		p.fails = append(p.fails, what)
	default:
		p.t.Fatalf("unknown: %s", line)
	}
}

func (p *player) position() ddltx.Position {
	return ddltx.Position{Next: p.at, InBlock: p.at.IsOpen(), Failed: p.at.Status() == 'E', Outside: p.outside, Sent: p.pipeline, PureReads: true}
}

func (p *player) say(words ...string) { p.out = append(p.out, strings.Join(words, " ")) }

func (p *player) tell(e *wire.Error) {
	if e != nil {
		_, list, lists := strings.Cut(e.Detail, ": ")
		if !lists {
			list = e.Message
		}
		p.say(strings.TrimSpace(e.Code + " " + strings.TrimSuffix(list, ".")))
	}
}

// fail is an error of Sluice's own, or of the server.
func (p *player) fail(err error) (failed bool) {
	if err == nil {
		return false
	}
	p.tell(err.(*wire.Error))
	p.at.RecordError(false)
	return true
}

// query is a Query of the client. It reports whether that has failed.
func (p *player) query(sql string) (failed bool) {
	plan := p.planner.Plan([]byte(sql))
	if p.pipeline { // by the extended protocol
		return p.runInPart(plan, sql)
	}
	if !ddltx.Concerns(plan, p.at.IsOpen()) {
		return p.send(plan, sql)
	}
	at := p.position()
	switch route, groups := p.tx.Route(plan, &at); route {
	case ddltx.AsItIs:
		return p.send(plan, sql)
	case ddltx.InGroups:
		return p.runGroups(plan, sql, groups)
	case ddltx.OutsideBlock:
		failed, err := p.tx.RunOutside(p, plan.SingleStatement(), sql, func() (feature.NestedResult, error) { return p.nested(sql) })
		if failed {
			p.at.RecordError(false)
		}
		return p.fail(err) || failed
	}
	return p.runInPart(plan, sql)
}

func (p *player) runInPart(plan *rewrite.Plan, sql string) (failed bool) {
	at := p.position()
	step, err := p.tx.Before(plan, &at, true)
	if p.fail(err) {
		return true
	}
	p.tell(step.Warning)
	if step.Commit && p.fail(p.tx.Commit(p)) {
		return true
	}
	if step.Adds {
		p.tx.Add(p.at, plan, sql)
	}
	return p.send(plan, sql)
}

func (p *player) runGroups(plan *rewrite.Plan, sql string, bounds [][2]int) (failed bool) {
	groups, err := p.tx.Split(p.at, plan, sql, bounds)
	if p.fail(err) {
		return true
	}
	failed, err = groups.Run(p)
	p.before = nil
	return p.fail(err) || failed
}

// nested runs a text outside the client's block.
func (p *player) nested(sql string) (feature.NestedResult, error) {
	if len(p.fails) > 0 && strings.HasPrefix(sql, p.fails[0]) {
		p.fails = p.fails[1:]
		p.say("failing", sql)
		if sql == "COMMIT" {
			p.at = block.Block{}
		}
		return feature.NestedResult{Failed: true, Err: &wire.Error{Code: "40001", Message: "conflict"}}, nil
	}
	p.outside = true
	failed := p.query(sql)
	p.outside = false
	return feature.NestedResult{Failed: failed}, nil
}

func (p *player) RunSilently(sql string, want silent.ExpectedAnswer) (end feature.NestedResult, err error) {
	if strings.Contains(sql, "extract(epoch") {
		p.say("asks for the time")
	} else if end, err = p.nested(sql); end.Err == nil && strings.HasPrefix(sql, "SAVEPOINT") {
		p.names = append(p.names, strings.TrimPrefix(sql, "SAVEPOINT "))
	}
	end.Answer = silent.NewAnswer(want)
	return end, err
}

func (p *player) Warn(warning *wire.Error, early bool) error {
	if _, committed, _ := strings.Cut(warning.Message, "since DSQL"); early != (committed != "") {
		p.t.Errorf("early %v: %s", early, warning.Message)
	}
	p.tell(warning)
	return nil
}

func (p *player) OpenPart() ddltx.OpenPart {
	return ddltx.OpenPart{Savepoints: p.names, Empty: p.empty}
}

func (p *player) PureReads() bool { return true }

func (p *player) ReadsClock() bool { return p.clock }

func (p *player) Commit(asksTime bool) (feature.NestedResult, error) {
	if asksTime {
		p.say("asks for the time")
	}
	p.names, p.empty, p.clock = nil, nil, false
	if p.skips {
		return feature.NestedResult{Err: &wire.Error{Code: "57014", Message: "skipped"}}, nil
	}
	return p.nested("COMMIT")
}

func (p *player) CommitSkipped() bool {
	skipped := p.skips
	p.skips = false
	return skipped
}

func (p *player) Begin(_ bool, t *txtime.Time) (feature.NestedResult, error) {
	begun, err := p.nested("BEGIN")
	if t != nil {
		p.say("has the time of an earlier part")
	}
	return begun, err
}

func (p *player) InBlock() bool { return p.at.IsOpen() }

func (p *player) FixesTime() bool { return true }

func (p *player) RunGroup(g ddltx.Group) (end feature.NestedResult, err error) {
	p.before = g.Committed
	if p.cancels {
		p.cancels = false
		end.Stopped = &wire.Error{Code: "57014", Message: "canceled"}
	}
	end.Failed = p.query(g.Text)
	return end, nil
}

func (p *player) BlockBegun(l listing.Statements, t *txtime.Time) { p.tx.JoinBlock(l, t) }

// send is a text that the server gets. One with "1/0" fails, one with "conflict" meets a conflict.
func (p *player) send(plan *rewrite.Plan, sql string) (failed bool) {
	if st := plan.SingleStatement(); st != nil && (st.Tx.Verb == rewrite.ReleaseSavepoint || st.Tx.Verb == rewrite.RollbackTo) && !p.at.HasSavepoint(st.Tx.Name) {
		switch ended, refusal := p.tx.Savepoint(st.Tx.Verb, st.Tx.Name); {
		case refusal != "":
			return p.fail(&wire.Error{Code: "0A000", Detail: refusal})
		case ended:
			p.say("answers", sql)
			return false
		}
	}
	p.say(sql)
	switch {
	case strings.Contains(sql, "1/0"):
		return p.fail(&wire.Error{Code: "22012"})
	case strings.Contains(sql, "conflict"):
		done := p.tx.Committed()
		if done.IsEmpty() && p.before != nil {
			done = p.before
		}
		conflict := &wire.Error{Code: "40001"}
		if e := ddltx.ErrPartialCommit(conflict, done); e != nil {
			conflict = e
		}
		return p.fail(conflict)
	}
	for i := range plan.Statements {
		st := &plan.Statements[i]
		switch ends := p.at.EndedTxCount(); {
		case p.at.RecordStatement(st) != block.GoesOn || p.at.EndedTxCount() != ends:
			if !p.outside {
				p.names, p.empty, p.clock = nil, nil, false
				p.tx.EndBlock()
			}
		case p.outside:
		case st.Tx.Verb == rewrite.Savepoint:
			p.names, p.empty = append(p.names, st.Tx.Name), append(p.empty, st.Tx.Name)
		default:
			p.empty, p.clock = nil, p.clock || strings.Contains(sql, "now()")
		}
	}
	if !p.pipeline {
		p.at.RecordSync()
	}
	return false
}

// plays has what a client sends, each text at the beginning of a line. The indented lines behind it have what the
// server gets and the client is told, where that is not the text alone. A line that begins with "!" is an order of the
// player.
var plays = []struct {
	name   string
	policy rewrite.DDLInTransactions
	script string
}{
	{"one DDL", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
SELECT 1
COMMIT
`},
	{"two DDL", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
CREATE TABLE b (id int)
	COMMIT
	BEGIN
	01000 CREATE TABLE a (id int)
	CREATE TABLE b (id int)
COMMIT
ROLLBACK
`},
	{"rows behind DDL", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
INSERT INTO a VALUES (1)
	COMMIT
	BEGIN
	01000 CREATE TABLE a (id int)
	INSERT INTO a VALUES (1)
ROLLBACK
	01000 CREATE TABLE a (id int)
	ROLLBACK
BEGIN
ROLLBACK
`},
	{"DDL behind rows", rewrite.CommitDDL, `
BEGIN
INSERT INTO a VALUES (1)
INSERT INTO a VALUES (2)
CREATE TABLE b (id int)
	COMMIT
	BEGIN
	01000 INSERT INTO a VALUES (1); INSERT INTO a VALUES (2)
	CREATE TABLE b (id int)
COMMIT
`},
	{"failed block", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
CREATE TABLE b (id int)
	COMMIT
	BEGIN
	01000 CREATE TABLE a (id int)
	CREATE TABLE b (id int)
SELECT 1/0
	SELECT 1/0
	22012
COMMIT
	01000 CREATE TABLE a (id int)
	COMMIT
`},
	{"conflict in the first part", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
SELECT 1 AS conflict
	SELECT 1 AS conflict
	40001
`},
	{"conflict in the second part", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
INSERT INTO a VALUES (1)
	COMMIT
	BEGIN
	01000 CREATE TABLE a (id int)
	INSERT INTO a VALUES (1)
SELECT 1 AS conflict
	SELECT 1 AS conflict
	25000 CREATE TABLE a (id int)
`},
	{"DROP", rewrite.CommitDDL, `
BEGIN
DROP TABLE a
CREATE TABLE b (id int)
	0A000 DROP TABLE a
ROLLBACK
`},
	{"last DROP", rewrite.CommitDDL, `
BEGIN
CREATE TABLE b (id int)
DROP TABLE a
	COMMIT
	BEGIN
	01000 CREATE TABLE b (id int)
	DROP TABLE a
COMMIT
`},
	{"DROP by policy", rewrite.CommitDrops, `
BEGIN
DROP TABLE a
CREATE TABLE b (id int)
	COMMIT
	BEGIN
	01000 DROP TABLE a
	CREATE TABLE b (id int)
COMMIT
`},
	{"SET LOCAL", rewrite.CommitDDL, `
BEGIN
SET LOCAL work_mem = '1MB'
CREATE TABLE a (id int)
CREATE TABLE b (id int)
	0A000 a transaction with SET LOCAL cannot be committed in parts
ROLLBACK
`},
	{"SET", rewrite.CommitDDL, `
BEGIN
SET work_mem = '1MB'
CREATE TABLE a (id int)
CREATE TABLE b (id int)
	COMMIT
	BEGIN
	01000 SET work_mem = ...; CREATE TABLE a (id int)
	CREATE TABLE b (id int)
COMMIT
`},
	{"pipeline", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
! pipeline
CREATE TABLE b (id int)
	0A000 the transaction cannot be committed in the middle of a pipeline
`},
	{"serializable", rewrite.CommitDDL, `
BEGIN ISOLATION LEVEL SERIALIZABLE
CREATE TABLE a (id int)
CREATE TABLE b (id int)
`},
	{"READ ONLY", rewrite.CommitDDL, `
BEGIN READ ONLY
ALTER TABLE a ADD COLUMN b int DEFAULT 1
	25006 cannot execute ALTER TABLE in a read-only transaction
`},
	{"refused text", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
CREATE TEMP TABLE b (id int)
`},
	{"steps", rewrite.CommitDDL, `
BEGIN
INSERT INTO a VALUES (1)
ALTER TABLE a ADD COLUMN b int DEFAULT 1
	COMMIT
	01000 INSERT INTO a VALUES (1)
	ALTER TABLE a ADD COLUMN b int DEFAULT 1
	BEGIN
	01000 ALTER TABLE a ADD COLUMN b int DEFAULT 1
SELECT 1
ROLLBACK
	01000 INSERT INTO a VALUES (1); ALTER TABLE a ADD COLUMN b int DEFAULT 1
	ROLLBACK
`},
	{"steps first", rewrite.CommitDDL, `
BEGIN
ALTER TABLE a ADD COLUMN b int DEFAULT 1
	COMMIT
	ALTER TABLE a ADD COLUMN b int DEFAULT 1
	BEGIN
	01000 ALTER TABLE a ADD COLUMN b int DEFAULT 1
COMMIT
`},
	{"steps that drop", rewrite.CommitDDL, `
BEGIN
ALTER TABLE a ADD COLUMN b int DEFAULT 1, DROP COLUMN c
	0A000 ALTER TABLE a ADD COLUMN b int DEFAULT 1, DROP COLUMN c
ROLLBACK
`},
	{"steps behind DROP", rewrite.CommitDDL, `
BEGIN
DROP TABLE b
ALTER TABLE a ADD COLUMN b int DEFAULT 1
	0A000 DROP TABLE b
ROLLBACK
`},
	{"query", rewrite.CommitDDL, `
CREATE TABLE a (id int); INSERT INTO a VALUES (1); SELECT 1
	CREATE TABLE a (id int)
	01000 CREATE TABLE a (id int)
	INSERT INTO a VALUES (1); SELECT 1
`},
	{"query without DDL", rewrite.CommitDDL, `
INSERT INTO a VALUES (1); SELECT 1
`},
	{"query that fails", rewrite.CommitDDL, `
CREATE TABLE a (id int); SELECT 1/0; CREATE TABLE b (id int)
	CREATE TABLE a (id int)
	01000 CREATE TABLE a (id int)
	SELECT 1/0
	22012
	01000 CREATE TABLE a (id int)
`},
	{"query with a conflict", rewrite.CommitDDL, `
CREATE TABLE a (id int); CREATE TABLE b (id int); SELECT 1 AS conflict
	CREATE TABLE a (id int)
	01000 CREATE TABLE a (id int)
	CREATE TABLE b (id int)
	01000 CREATE TABLE b (id int)
	SELECT 1 AS conflict
	25000 CREATE TABLE a (id int); CREATE TABLE b (id int)
	01000 CREATE TABLE a (id int); CREATE TABLE b (id int)
`},
	{"query that drops", rewrite.CommitDDL, `
DROP TABLE a; CREATE TABLE b (id int)
	0A000 DROP TABLE a
`},
	{"query with SET LOCAL", rewrite.CommitDDL, `
SET LOCAL work_mem = '1MB'; CREATE TABLE a (id int); CREATE TABLE b (id int)
	0A000 a transaction with SET LOCAL cannot be committed in parts
`},
	{"query with a block", rewrite.CommitDDL, `
CREATE TABLE a (id int); BEGIN; CREATE TABLE b (id int); INSERT INTO b VALUES (1); ROLLBACK; SELECT 1
	asks for the time
	CREATE TABLE a (id int)
	01000 CREATE TABLE a (id int)
	BEGIN
	CREATE TABLE b (id int)
	COMMIT
	BEGIN
	has the time of an earlier part
	01000 CREATE TABLE b (id int)
	INSERT INTO b VALUES (1)
	01000 CREATE TABLE a (id int); CREATE TABLE b (id int)
	ROLLBACK
	SELECT 1
`},
	{"query with a block behind rows", rewrite.CommitDDL, `
INSERT INTO a VALUES (1); BEGIN; CREATE TABLE b (id int); COMMIT
	asks for the time
	INSERT INTO a VALUES (1)
	01000 INSERT INTO a VALUES (1)
	BEGIN
	CREATE TABLE b (id int)
	COMMIT
`},
	{"query in a block", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int); INSERT INTO a VALUES (1)
	CREATE TABLE a (id int)
	COMMIT
	BEGIN
	01000 CREATE TABLE a (id int)
	INSERT INTO a VALUES (1)
COMMIT
`},
	{"query that ends a block", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
INSERT INTO a VALUES (1); COMMIT; SELECT 1
	COMMIT
	BEGIN
	01000 CREATE TABLE a (id int)
	INSERT INTO a VALUES (1)
	COMMIT
	SELECT 1
`},
	{"query that ends a failed block", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
CREATE TABLE b (id int)
	COMMIT
	BEGIN
	01000 CREATE TABLE a (id int)
	CREATE TABLE b (id int)
SELECT 1/0
	SELECT 1/0
	22012
ROLLBACK; SELECT 1
	01000 CREATE TABLE a (id int)
	ROLLBACK
	SELECT 1
`},
	{"groups behind a failed block", rewrite.CommitDDL, `
BEGIN
SELECT 1/0
	SELECT 1/0
	22012
ROLLBACK; CREATE TABLE a (id int); CREATE TABLE b (id int)
	ROLLBACK
	CREATE TABLE a (id int)
	01000 CREATE TABLE a (id int)
	CREATE TABLE b (id int)
`},
	{"savepoints", rewrite.CommitDDL, `
BEGIN
SAVEPOINT s
CREATE TABLE a (id int)
SAVEPOINT t
INSERT INTO a VALUES (1)
	COMMIT
	BEGIN
	SAVEPOINT "t"
	01000 CREATE TABLE a (id int)
	INSERT INTO a VALUES (1)
RELEASE t
ROLLBACK TO s
	0A000 CREATE TABLE a (id int)
ROLLBACK
	01000 CREATE TABLE a (id int)
	ROLLBACK
`},
	{"savepoint of the open part", rewrite.CommitDDL, `
BEGIN
SAVEPOINT s
CREATE TABLE a (id int)
INSERT INTO a VALUES (1)
	COMMIT
	BEGIN
	01000 CREATE TABLE a (id int)
	INSERT INTO a VALUES (1)
SAVEPOINT s
ROLLBACK TO u
RELEASE s
RELEASE s
	answers RELEASE s
`},
	{"steps behind steps", rewrite.CommitDDL, `
BEGIN
ALTER TABLE a ADD COLUMN b int DEFAULT 1
	COMMIT
	ALTER TABLE a ADD COLUMN b int DEFAULT 1
	BEGIN
	01000 ALTER TABLE a ADD COLUMN b int DEFAULT 1
INSERT INTO a VALUES (1)
SELECT 1 AS conflict
	SELECT 1 AS conflict
	25000 ALTER TABLE a ADD COLUMN b int DEFAULT 1
`},
	{"steps within a pipeline", rewrite.CommitDDL, `
BEGIN
INSERT INTO a VALUES (1)
! pipeline
ALTER TABLE a ADD COLUMN b int DEFAULT 1
	0A000 the transaction cannot be committed in the middle of a pipeline
`},
	{"text in a failed block", rewrite.CommitDDL, `
BEGIN
SELECT 1/0
	SELECT 1/0
	22012
CREATE TABLE a (id int); CREATE TABLE b (id int)
COMMIT
COMMIT
`},
	{"savepoint above DDL", rewrite.CommitDDL, `
BEGIN
SAVEPOINT s
CREATE TABLE a (id int)
CREATE TABLE b (id int)
	COMMIT
	BEGIN
	01000 CREATE TABLE a (id int)
	CREATE TABLE b (id int)
ROLLBACK TO s
	0A000 CREATE TABLE a (id int)
ROLLBACK
	01000 CREATE TABLE a (id int)
	ROLLBACK
`},
	{"two queries of one block", rewrite.CommitDDL, `
BEGIN; CREATE TABLE a (id int)
CREATE TABLE b (id int); COMMIT
	COMMIT
	BEGIN
	01000 CREATE TABLE a (id int)
	CREATE TABLE b (id int)
	COMMIT
`},
	{"empty savepoint", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
SAVEPOINT s
INSERT INTO a VALUES (1)
	COMMIT
	BEGIN
	SAVEPOINT "s"
	01000 CREATE TABLE a (id int)
	INSERT INTO a VALUES (1)
ROLLBACK TO s
COMMIT
`},
	{"empty savepoint that fails", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
SAVEPOINT s
! fail SAVEPOINT
INSERT INTO a VALUES (1)
	COMMIT
	BEGIN
	failing SAVEPOINT "s"
	01000 CREATE TABLE a (id int)
	INSERT INTO a VALUES (1)
ROLLBACK TO s
	0A000 CREATE TABLE a (id int)
COMMIT
	01000 CREATE TABLE a (id int)
	COMMIT
`},
	{"time of the parts", rewrite.CommitDDL, `
BEGIN
SELECT now()
CREATE TABLE a (id int)
CREATE TABLE b (id int)
	asks for the time
	COMMIT
	BEGIN
	has the time of an earlier part
	01000 CREATE TABLE a (id int)
	CREATE TABLE b (id int)
INSERT INTO b VALUES (1)
	COMMIT
	BEGIN
	has the time of an earlier part
	01000 CREATE TABLE b (id int)
	INSERT INTO b VALUES (1)
COMMIT
`},
	{"COMMIT that fails", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
! fail COMMIT
CREATE TABLE b (id int)
	failing COMMIT
	BEGIN
	40001 conflict
ROLLBACK
`},
	{"BEGIN that fails", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
! fail BEGIN
CREATE TABLE b (id int)
	COMMIT
	failing BEGIN
	25000 CREATE TABLE a (id int)
`},
	{"COMMIT and BEGIN that fail", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
CREATE TABLE b (id int)
	COMMIT
	BEGIN
	01000 CREATE TABLE a (id int)
	CREATE TABLE b (id int)
! fail COMMIT
! fail BEGIN
CREATE TABLE c (id int)
	failing COMMIT
	failing BEGIN
	25000 conflict. Committed: CREATE TABLE a (id int)
`},
	{"skipped COMMIT", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
! skip
CREATE TABLE b (id int)
	ROLLBACK
	BEGIN
	57014 skipped
ROLLBACK
`},
	{"steps that fail", rewrite.CommitDDL, `
BEGIN
INSERT INTO a VALUES (1)
! fail ALTER
ALTER TABLE a ADD COLUMN b int DEFAULT 1
	COMMIT
	01000 INSERT INTO a VALUES (1)
	failing ALTER TABLE a ADD COLUMN b int DEFAULT 1
	BEGIN
ROLLBACK
	01000 INSERT INTO a VALUES (1)
	ROLLBACK
`},
	{"steps behind a COMMIT that fails", rewrite.CommitDDL, `
BEGIN
INSERT INTO a VALUES (1)
! fail COMMIT
ALTER TABLE a ADD COLUMN b int DEFAULT 1
	failing COMMIT
	BEGIN
	40001 conflict
ROLLBACK
`},
	{"steps without BEGIN", rewrite.CommitDDL, `
BEGIN
INSERT INTO a VALUES (1)
! fail BEGIN
ALTER TABLE a ADD COLUMN b int DEFAULT 1
	COMMIT
	01000 INSERT INTO a VALUES (1)
	ALTER TABLE a ADD COLUMN b int DEFAULT 1
	failing BEGIN
	25000 INSERT INTO a VALUES (1); ALTER TABLE a ADD COLUMN b int DEFAULT 1
`},
	{"query that is canceled", rewrite.CommitDDL, `
! cancel
CREATE TABLE a (id int); CREATE TABLE b (id int)
	CREATE TABLE a (id int)
	01000 CREATE TABLE a (id int)
	57014 canceled
`},
	{"time of a query", rewrite.CommitDDL, `
INSERT INTO a SELECT now(); CREATE TABLE b (id int); INSERT INTO b SELECT now()
	asks for the time
	INSERT INTO a SELECT now()
	01000 INSERT INTO a SELECT now()
	CREATE TABLE b (id int)
	01000 CREATE TABLE b (id int)
	INSERT INTO b SELECT now()
`},
	{"pipeline in front of BEGIN", rewrite.CommitDDL, `
! pipeline
INSERT INTO a VALUES (1)
BEGIN
! sync
CREATE TABLE b (id int)
	COMMIT
	BEGIN
	01000 INSERT INTO a VALUES (1)
	CREATE TABLE b (id int)
ROLLBACK
	01000 INSERT INTO a VALUES (1)
	ROLLBACK
`},
	{"refused text of a pipeline", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int)
! pipeline
CREATE TEMP TABLE b (id int)
`},
	{"query that fails in a block", rewrite.CommitDDL, `
BEGIN
CREATE TABLE a (id int); INSERT INTO a VALUES (1); SELECT 1/0; CREATE TABLE b (id int)
	CREATE TABLE a (id int)
	COMMIT
	BEGIN
	01000 CREATE TABLE a (id int)
	INSERT INTO a VALUES (1); SELECT 1/0
	22012
ROLLBACK
	01000 CREATE TABLE a (id int)
	ROLLBACK
`},
	{"index behind rows", rewrite.CommitDDL, `
BEGIN
INSERT INTO a VALUES (1)
CREATE INDEX ASYNC i ON a (id)
	COMMIT
	BEGIN
	01000 INSERT INTO a VALUES (1)
	CREATE INDEX ASYNC i ON a (id)
COMMIT
`},
}

// A Tx decides for each text of a client what precedes it, whether it runs outside its block or in groups, and what the
// client is told.
func TestPlay(t *testing.T) {
	t.Parallel()
	for _, play := range plays {
		t.Run(play.name, func(t *testing.T) {
			t.Parallel()
			p, got := newPlayer(t, play.policy), "\n"
			for text := range strings.Lines(strings.TrimPrefix(play.script, "\n")) {
				if strings.HasPrefix(text, "\t") {
					continue
				}
				got += text
				if text = strings.TrimSpace(text); strings.HasPrefix(text, "! ") {
					p.order(text[2:])
					continue
				}
				p.out = nil
				if p.query(text); len(p.out) != 1 || p.out[0] != text {
					got += "\t" + strings.Join(p.out, "\n\t") + "\n"
				}
				if !p.pipeline && !p.at.IsOpen() {
					p.tx.Reset()
				}
			}
			if got != play.script {
				t.Errorf("got%swant%s", got, play.script)
			}
		})
	}
}
