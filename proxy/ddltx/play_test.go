package ddltx_test

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/ddltx"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A player does with a client's texts what a session does: it follows the block, asks the Tx, and carries its decisions
// out. out has what a server would get, and the messages for the client.
type player struct {
	t       *testing.T
	planner *rewrite.Planner
	tx      *ddltx.Tx
	at      block.Block
	names   []string // savepoints of the open part
	sent    bool     // within a pipeline
	outside bool     // a text runs that does not belong to the client's block
	before  *listing.Statements
	out     []string
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

func (p *player) position() ddltx.Position {
	return ddltx.Position{Next: p.at, InBlock: p.at.IsOpen(), Failed: p.at.Status() == 'E', Outside: p.outside, Sent: p.sent, PureReads: true}
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
		return p.runOutside(plan.SingleStatement(), sql)
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
	if step.Commit {
		l := p.tx.Changing(true)
		p.commitAndBegin()
		p.tell(ddltx.CommittedWarning(&l))
	}
	if step.Adds {
		p.tx.Add(p.at, plan, sql)
	}
	return p.send(plan, sql)
}

// commitAndBegin commits the open part, runs what is between, and begins the next part.
func (p *player) commitAndBegin(between ...func()) {
	p.tx.BeginCommit(p.names, nil, false)
	p.outside = true
	p.query("COMMIT")
	p.tx.EndCommit(true, true)
	for _, run := range between {
		run()
	}
	p.query("BEGIN")
	p.outside = false
}

func (p *player) runOutside(st *rewrite.Statement, sql string) (failed bool) {
	if p.fail(p.tx.CheckOutside(st, sql, true)) {
		return true
	}
	l := p.tx.Changing(true)
	p.commitAndBegin(func() {
		if !l.IsEmpty() {
			p.tell(ddltx.CommittedWarning(&l))
		}
		p.query(sql)
	})
	var own listing.Statements
	own.Add(sql)
	p.tx.AddCommitted(own)
	p.tell(ddltx.CommittedWarning(&own))
	return false
}

func (p *player) runGroups(plan *rewrite.Plan, sql string, bounds [][2]int) (failed bool) {
	groups, err := p.tx.Split(p.at, plan, sql, bounds)
	if p.fail(err) {
		return true
	}
	for groups.Next() {
		if groups.BeginsTx() && groups.ShareTime() && !p.at.IsOpen() {
			p.say("asks time")
		}
		p.before = groups.Committed()
		if p.query(groups.Text()) {
			p.tell(groups.Failed(p.at.IsOpen()))
			return true
		}
		p.tell(groups.Ran(p.tx, p.at.IsOpen()))
	}
	p.before = nil
	return false
}

// send is a text that the server gets. One with "1/0" fails, one with "conflict" meets a conflict.
func (p *player) send(plan *rewrite.Plan, sql string) (failed bool) {
	if st := plan.SingleStatement(); st != nil && (st.Tx.Verb == rewrite.ReleaseSavepoint || st.Tx.Verb == rewrite.RollbackTo) && p.at.FindSavepoint(st.Tx.Name) < 0 {
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
			if p.names = nil; !p.outside {
				p.tx.EndBlock()
			}
		case st.Tx.Verb == rewrite.Savepoint:
			p.names = append(p.names, st.Tx.Name)
		}
	}
	if !p.sent {
		p.at.RecordSync()
	}
	return false
}

// plays has what a client sends, each text at the beginning of a line. The indented lines behind it have what the server
// gets and the client is told, where that is not the text alone. A line "pipeline" says that the texts behind it are
// behind others of one pipeline.
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
pipeline
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
	asks time
	CREATE TABLE a (id int)
	01000 CREATE TABLE a (id int)
	BEGIN
	CREATE TABLE b (id int)
	COMMIT
	BEGIN
	01000 CREATE TABLE b (id int)
	INSERT INTO b VALUES (1)
	01000 CREATE TABLE a (id int); CREATE TABLE b (id int)
	ROLLBACK
	SELECT 1
`},
	{"query with a block behind rows", rewrite.CommitDDL, `
INSERT INTO a VALUES (1); BEGIN; CREATE TABLE b (id int); COMMIT
	asks time
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
	01000 CREATE TABLE a (id int)
	INSERT INTO a VALUES (1)
RELEASE t
	answers RELEASE t
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
pipeline
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
				if text = strings.TrimSpace(text); text == "pipeline" {
					p.sent = true
					continue
				}
				p.out = nil
				if p.query(text); len(p.out) != 1 || p.out[0] != text {
					got += "\t" + strings.Join(p.out, "\n\t") + "\n"
				}
				if !p.at.IsOpen() {
					p.tx.Reset()
				}
			}
			if got != play.script {
				t.Errorf("got%swant%s", got, play.script)
			}
		})
	}
}
