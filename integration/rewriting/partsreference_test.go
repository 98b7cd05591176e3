package rewriting

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// reference runs a program on plain PostgreSQL as ddl.in_transactions promises: it commits in
// front of a statement that does not go with what its transaction holds.
type reference struct {
	c         *pgconn.PgConn
	ddl, rows bool
	// partly: a part of the block is committed.
	partly bool
	// saves are the block's savepoints, in their order.
	saves []savepoint
	// holds: the program has cursors WITH HOLD. older are those from before a block that is partly committed.
	holds bool
	older []string
}

// held lists the cursors WITH HOLD that fulfil a condition.
func (r *reference) held(ctx context.Context, condition string) (names []string) {
	for _, row := range r.c.ExecParams(ctx, "SELECT name FROM pg_cursors WHERE is_holdable AND "+condition, nil, nil, nil, nil).Read().Rows {
		names = append(names, string(row[0]))
	}
	return names
}

// endHeld closes the cursors WITH HOLD of committed parts behind a ROLLBACK of their block, which PostgreSQL would not
// have committed.
func (r *reference) endHeld(ctx context.Context, out []string) []string {
	if !r.holds || !r.partly || r.c.TxStatus() != 'I' {
		return out
	}
	if r.partly = false; slices.Contains(out, "ROLLBACK") {
		for _, name := range r.held(ctx, "true") {
			if !slices.Contains(r.older, name) {
				r.c.Exec(ctx, "CLOSE "+name).Close()
			}
		}
	}
	return out
}

func ofDDL(sql string) bool {
	return slices.Contains([]string{"CREATE", "ALTER", "DROP"}, strings.Fields(sql)[0])
}

func ofRows(sql string) bool {
	return slices.Contains([]string{"INSERT", "UPDATE", "DELETE", "COPY"}, strings.Fields(sql)[0])
}

// ask runs one request.
func (r *reference) ask(ctx context.Context, q request) []string {
	tooMuch, ddl, rows, ends := false, false, false, false
	anyDDL := slices.ContainsFunc(q.statements, ofDDL)
	for _, sql := range q.statements {
		if ends = ends || ofBlock(sql); sql == "COMMIT" || sql == "ROLLBACK" {
			ddl, rows = false, false
		}
		tooMuch = tooMuch || ofDDL(sql) && (ddl || rows) || ofRows(sql) && ddl
		ddl, rows = ddl || ofDDL(sql), rows || ofRows(sql)
	}
	switch {
	case len(q.statements) == 1:
		return r.one(ctx, q.sql(), q.extended)
	case q.extended:
		return r.pipeline(ctx, q)
	case r.c.TxStatus() == 'E' && !r.partly, r.c.TxStatus() == 'I' && !(anyDDL && tooMuch), r.c.TxStatus() == 'T' && !anyDDL && !(ends && (r.partly || r.ddl)):
		return r.whole(ctx, q)
	}
	var out []string
	for i := 0; i < len(q.statements); i++ {
		sql := q.statements[i]
		for alone := ofDDL(sql) || ofBlock(sql); !alone && i+1 < len(q.statements); i++ {
			if next := q.statements[i+1]; ofDDL(next) || ofBlock(next) {
				break
			}
			sql += "; " + q.statements[i+1]
		}
		got := r.one(ctx, sql, false)
		out = append(out, got[:len(got)-1]...)
		if strings.HasPrefix(got[max(0, len(got)-2)], "error") {
			break
		}
	}
	return append(out, string(r.c.TxStatus()))
}

// ofBlock reports a command that begins or ends a block.
func ofBlock(sql string) bool { return sql == "BEGIN" || sql == "COMMIT" || sql == "ROLLBACK" }

// whole runs a string that is not cut: behind each end what the transaction holds is counted again.
func (r *reference) whole(ctx context.Context, q request) []string {
	first := slices.IndexFunc(q.statements, func(sql string) bool { return sql == "COMMIT" || sql == "ROLLBACK" })
	if first < 0 {
		first = len(q.statements)
	}
	r.note(ctx, q.sql(), slices.ContainsFunc(q.statements[:first], ofDDL), slices.ContainsFunc(q.statements[:first], ofRows))
	out := answers(ctx, r.c, q.sql(), false)
	if first < len(q.statements) || r.ddl == false && r.rows == false {
		r.ddl, r.rows = false, false
		for _, sql := range q.statements {
			if sql == "COMMIT" || sql == "ROLLBACK" {
				r.ddl, r.rows, r.partly, r.saves = false, false, false, nil
			}
			r.ddl, r.rows = r.ddl || ofDDL(sql), r.rows || ofRows(sql)
		}
	}
	return out
}

// pipeline runs statements with one Sync: it is the first, or the one behind BEGIN, that may not
// go with what the transaction holds.
func (r *reference) pipeline(ctx context.Context, q request) []string {
	for _, sql := range q.statements {
		switch sql {
		case "COMMIT":
		case "BEGIN":
			r.ddl, r.rows = false, false
		default:
			if q.statements[0] != "COMMIT" && r.c.TxStatus() != 'I' {
				r.note(ctx, sql, ofDDL(sql), ofRows(sql))
			} else {
				r.ddl, r.rows = ofDDL(sql), ofRows(sql)
			}
		}
	}
	return r.endHeld(ctx, answers(ctx, r.c, q.sql(), true))
}

// note commits where sql does not go with the transaction.
func (r *reference) note(ctx context.Context, sql string, ddl, rows bool) {
	switch r.c.TxStatus() {
	case 'I':
		r.ddl, r.rows, r.saves, r.partly = false, false, nil, false
		return
	case 'E':
		return
	}
	if ddl && (r.ddl || r.rows) || rows && r.ddl {
		if r.holds && !r.partly {
			r.older = r.held(ctx, "creation_time < now()")
		}
		r.c.Exec(ctx, "COMMIT; BEGIN").Close()
		r.ddl, r.rows, r.partly = false, false, true
		r.keepSaves(ctx)
	}
	r.ddl, r.rows = r.ddl || ddl, r.rows || rows
	for i := range r.saves {
		r.saves[i].ran = true
	}
}

func (r *reference) one(ctx context.Context, sql string, extended bool) []string {
	if verb := strings.Fields(sql); r.c.TxStatus() != 'I' && slices.Contains([]string{"SAVEPOINT", "ROLLBACK TO", "RELEASE"}, strings.Join(verb[:len(verb)-1], " ")) {
		return r.save(ctx, sql, extended)
	}
	var ddl, rows bool
	for one := range strings.SplitSeq(sql, "; ") {
		ddl, rows = ddl || ofDDL(one), rows || ofRows(one)
	}
	r.note(ctx, sql, ddl, rows)
	return r.endHeld(ctx, answers(ctx, r.c, sql, extended))
}

// savepoint is one of a block: whether its part is committed, what its part held when it was set, and
// whether anything was run since.
type savepoint struct {
	name            string
	gone, ddl, rows bool
	ran             bool
}

// keepSaves is told of an early commit. The savepoints behind which nothing was run stand at the beginning
// of the next part as well, and nobody can return to the others.
func (r *reference) keepSaves(ctx context.Context) {
	for i := range r.saves {
		if s := &r.saves[i]; s.ran || s.gone {
			s.gone = true
		} else {
			r.c.Exec(ctx, "SAVEPOINT "+s.name).Close()
			s.ddl, s.rows = false, false
		}
	}
}

// save runs a command of savepoints. One of a part that is committed can be released, with all behind it,
// and not returned to.
func (r *reference) save(ctx context.Context, sql string, extended bool) []string {
	words := strings.Fields(sql)
	verb, name := words[0], words[len(words)-1]
	at := -1
	for i := range r.saves {
		if r.saves[i].name == name {
			at = i
		}
	}
	if r.c.TxStatus() == 'T' && verb == "SAVEPOINT" {
		r.saves = append(r.saves, savepoint{name: name, ddl: r.ddl, rows: r.rows})
	} else if at >= 0 && r.saves[at].gone && verb == "RELEASE" && r.c.TxStatus() == 'T' {
		for _, s := range r.saves[at:] {
			if !s.gone {
				r.c.Exec(ctx, "RELEASE "+s.name).Close()
				break
			}
		}
		r.saves = r.saves[:at]
		return []string{"RELEASE", "T"}
	} else if at >= 0 && r.saves[at].gone && verb == "ROLLBACK" {
		r.c.Exec(ctx, "ROLLBACK TO nowhere").Close()
		return []string{"error 0A000", "E"}
	} else if at >= 0 && verb == "ROLLBACK" {
		r.ddl, r.rows = r.saves[at].ddl, r.saves[at].rows
		r.saves = r.saves[:at+1]
	} else if at >= 0 && r.c.TxStatus() == 'T' {
		r.saves = r.saves[:at]
	}
	return answers(ctx, r.c, sql, extended)
}
