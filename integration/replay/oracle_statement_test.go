package replay

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/integration/replay/oracle"
)

// oracleSchema is what the programs work on. A register is a list of writes, each
// behind a comma; row 0 of mark is there to be in the way.
var oracleSchema = []string{
	"DROP TABLE IF EXISTS register", "DROP TABLE IF EXISTS mark",
	"CREATE TABLE register (k int PRIMARY KEY, log text NOT NULL, touched timestamptz)",
	"CREATE TABLE mark (id int PRIMARY KEY, u uuid, at timestamptz, chance float8)",
	"INSERT INTO mark VALUES (0)",
	"DROP TABLE IF EXISTS made", "DROP SEQUENCE IF EXISTS number", "CREATE SEQUENCE number CACHE 1",
	`CREATE TABLE made (id int PRIMARY KEY, n text DEFAULT nextval('number')::text, u text DEFAULT gen_random_uuid()::text, chance text DEFAULT random()::text,
		at text DEFAULT now()::text, number bigint GENERATED ALWAYS AS IDENTITY (CACHE 1))`,
}

// statement is one statement for a speaker to say.
type statement struct {
	sql  string
	args []any // int or string
	rows bool  // it returns some, all of them text
	// copies is the COPY that a client says in its place who can, and data are its data; "" for none.
	copies, data string
	coin         uint64
}

// plain is a statement without parameters or rows.
func plain(sql string) *statement { return &statement{sql: sql} }

// literal is the statement with its parameters written into it.
func (s *statement) literal() string {
	sql := s.sql
	for i := len(s.args); i > 0; i-- {
		value := fmt.Sprint(s.args[i-1])
		if _, ok := s.args[i-1].(string); ok {
			value = "'" + value + "'"
		}
		sql = strings.ReplaceAll(sql, "$"+strconv.Itoa(i), value)
	}
	return sql
}

// answer is what a speaker was told to one statement.
type answer struct {
	rows [][]string
	tag  string // "UPDATE 1"; a driver that hides it gives the number of rows alone
}

// matched is how many rows a statement found. A tag counts those of the last portion.
func (a *answer) matched() int {
	if len(a.rows) > 0 {
		return len(a.rows)
	}
	n, _ := strconv.Atoi(a.tag[strings.LastIndexByte(a.tag, ' ')+1:])
	return n
}

// lists is what a client knows of keys.
type lists map[int]string

// statement spells a step out. known is what the client has read: in this
// transaction, and before.
func (s *step) statement(known, before lists) *statement {
	const columns = "k::text, log"
	st := &statement{coin: s.coin, args: make([]any, 0, 3)}
	for _, k := range s.keys {
		st.args = append(st.args, k)
	}
	element := "," + strconv.Itoa(s.id)
	switch s.kind {
	case readOne:
		st.sql, st.rows = "SELECT "+columns+" FROM register WHERE k = $1", true
	case lock:
		st.sql, st.rows = "SELECT "+columns+" FROM register WHERE k = $1"+s.strong, true
	case readSome:
		places := []string{"$1", "$2", "$3", "$4"}[:len(s.keys)]
		st.sql, st.rows = "SELECT "+columns+" FROM register WHERE k IN ("+strings.Join(places, ", ")+") ORDER BY k", true
	case readAll:
		st.sql, st.rows = fmt.Sprintf("SELECT %s FROM register WHERE k BETWEEN $1 AND $1 + %d ORDER BY k DESC", columns, keysOfBatch-1), true
	case add:
		st.sql, st.args = "UPDATE register SET log = log || $2::text, touched = clock_timestamp() WHERE k = $1", append(st.args, element)
	case addTold:
		st.sql, st.args, st.rows = "UPDATE register SET log = log || $2::text WHERE k = $1 RETURNING "+columns, append(st.args, element), true
	case addSome:
		st.sql, st.args = "UPDATE register SET log = log || $3::text WHERE k IN ($1, $2)", append(st.args, element)
	case rewrite:
		st.sql = "UPDATE register SET log = $2::text WHERE k = $1"
		if list, ok := known[s.keys[0]]; ok {
			element = list + element
		} else {
			st.sql = "UPDATE register SET log = log || $2::text WHERE k = $1"
		}
		st.args = append(st.args, element)
	case swap:
		st.sql, st.args = "UPDATE register SET log = log || $2::text WHERE k = $1 AND log = $3::text", append(st.args, element, s.expects(known, before))
	case mark:
		st.sql, st.args = "INSERT INTO mark VALUES ($1, gen_random_uuid(), now(), random())", []any{s.id}
	case markTold:
		st.sql = "INSERT INTO mark VALUES ($1, gen_random_uuid(), now(), random()) RETURNING u::text, at::text, chance::text"
		st.args, st.rows = []any{s.id}, true
	case made:
		st.sql, st.args = "INSERT INTO made (id) VALUES ($1)", []any{s.id}
	case madeTold:
		st.sql, st.args, st.rows = "INSERT INTO made (id) VALUES ($1) RETURNING n, u, chance, number", []any{s.id}, true
	case madeTimed:
		st.sql, st.args, st.rows = "INSERT INTO made (id) VALUES ($1) RETURNING n, u, chance, number, at", []any{s.id}, true
	case madeTwice:
		st.sql = "INSERT INTO made (id, n) VALUES ($1, DEFAULT), ($2, nextval('number')::text) RETURNING n, u, chance, number"
		st.args, st.rows = []any{s.id, s.id + 1}, true
	case copied:
		st.sql, st.args = "INSERT INTO made (id) VALUES ($1), ($2)", []any{s.id, s.id + 1}
		st.copies, st.data = "COPY made (id) FROM STDIN", fmt.Sprintf("%d\n%d\n", s.id, s.id+1)
	case declare:
		st.sql = fmt.Sprintf("DECLARE c NO SCROLL CURSOR FOR SELECT %s FROM register WHERE k BETWEEN $1 AND $1 + %d ORDER BY k", columns, keysOfBatch-1)
	case fetch, fetchRest:
		return &statement{sql: map[kind]string{fetch: fmt.Sprintf("FETCH %d FROM c", fetched), fetchRest: "FETCH ALL FROM c"}[s.kind], rows: true, coin: s.coin}
	case closed:
		return plain("CLOSE c")
	case drawn:
		st.sql, st.args, st.rows = "SELECT nextval('number')::text", nil, true
	case now:
		st.sql, st.args, st.rows = "SELECT now()::text", nil, true
	case chance:
		st.sql, st.args, st.rows = "SELECT random()::text", nil, true
	case duplicate:
		st.sql, st.args = "INSERT INTO mark (id) VALUES ($1)", []any{0}
	case pin:
		return plain(fmt.Sprintf("PREPARE p%d AS SELECT 'kept'::text", s.id))
	case pinned:
		return &statement{sql: fmt.Sprintf("EXECUTE p%d", s.id), rows: true, coin: s.coin}
	case save, back, release:
		return plain(map[kind]string{save: "SAVEPOINT s", back: "ROLLBACK TO SAVEPOINT s", release: "RELEASE s"}[s.kind] + strconv.Itoa(s.level))
	case division:
		st.sql, st.args, st.rows = "SELECT (1 / ($1::int - $1::int))::text", []any{1}, true
	}
	verb, rest, _ := strings.Cut(st.sql, " ")
	if s.tagged {
		rest = oracle.TagComment(s.id/idStride) + rest
	}
	if s.optOut {
		rest = "/* sluice: no-retry */ " + rest
	}
	st.sql = verb + " " + rest
	return st
}

// fetched is how many rows the first FETCH of a cursor has.
const fetched = 5

// fits reports whether a step can have been answered so.
func (s *step) fits(a *answer) bool {
	width := map[kind]int{markTold: 3, madeTold: 4, madeTimed: 5, madeTwice: 4, drawn: 1, now: 1, chance: 1, pinned: 1}[s.kind]
	for _, row := range a.rows {
		if len(row) != cmp.Or(width, 2) {
			return false
		}
	}
	want := map[kind]int{readAll: keysOfBatch, mark: 1, markTold: 1, made: 1, madeTold: 1, madeTimed: 1, madeTwice: 2, copied: 2, fetch: fetched, fetchRest: keysOfBatch - fetched, drawn: 1, now: 1, chance: 1, pinned: 1}[s.kind]
	switch s.kind {
	case swap:
		return a.matched() <= 1
	case declare, closed:
		return true
	case readOne, readSome, lock, add, addTold, addSome, rewrite:
		want = len(s.keys)
	}
	return a.matched() == want
}

// expects is the list that a swap takes for the present one.
func (s *step) expects(known, before lists) string {
	if len(s.keys) == 0 {
		return ""
	}
	if list, ok := known[s.keys[0]]; ok {
		return list
	}
	return before[s.keys[0]]
}

// learn is what a step did and was told; a is nil if it was sent and not answered.
// expected is what a swap took for the present list.
func (s *step) learn(known lists, expected string, a *answer) (ops []oracle.Op) {
	switch s.kind {
	case readOne, readSome, readAll, lock, fetch, fetchRest:
		if a == nil {
			return nil
		}
		return seen(known, a.rows, s.kind == lock)
	case add, addTold, addSome, rewrite, swap:
		element := "," + strconv.Itoa(s.id)
		op := oracle.Op{Kind: oracle.Append, Write: s.id}
		if s.kind == swap && a != nil {
			if a.matched() == 0 {
				op.Kind = oracle.Missed
			} else {
				ops = append(ops, oracle.Op{Kind: oracle.Read, Key: s.keys[0], Seen: elements(expected)})
				known[s.keys[0]] = expected
			}
		}
		for _, op.Key = range s.keys {
			ops = append(ops, op)
			if list, ok := known[op.Key]; ok && op.Kind == oracle.Append {
				known[op.Key] = list + element
			}
		}
		if s.kind == addTold && a != nil {
			ops = append(ops, seen(known, a.rows, false)...)
		}
	case mark, markTold:
		op := oracle.Op{Kind: oracle.Mark, Write: s.id}
		if s.kind == markTold && a != nil {
			op.Value = a.rows[0][0] + " " + a.rows[0][2]
			ops = append(ops, oracle.Op{Kind: oracle.Now, Value: a.rows[0][1]})
		}
		ops = append(ops, op)
	case made, madeTold, madeTimed, madeTwice, copied:
		ops = append(ops, s.filled(a)...)
	case drawn:
		if a != nil {
			ops = append(ops, oracle.Op{Kind: oracle.Drawn, Value: a.rows[0][0]})
		}
	case now:
		if a != nil {
			ops = append(ops, oracle.Op{Kind: oracle.Now, Value: a.rows[0][0]})
		}
	case save:
		ops = append(ops, oracle.Op{Kind: oracle.Save, Write: s.level})
	case back:
		if a != nil {
			ops = append(ops, oracle.Op{Kind: oracle.Back, Write: s.level})
		}
	}
	return ops
}

// undo takes out of what a client knows what a ROLLBACK TO, the last of the ops, has undone. What
// the client has read there of others it still knows.
func undo(known lists, ops []oracle.Op) {
	last := len(ops) - 1
	undone := map[int]bool{}
	for i := last - 1; i >= 0 && !(ops[i].Kind == oracle.Save && ops[i].Write == ops[last].Write); i-- {
		if ops[i].Kind == oracle.Append {
			undone[ops[i].Write] = true
		}
	}
	for k, list := range known {
		kept := ""
		for _, id := range elements(list) {
			if !undone[id] {
				kept += "," + strconv.Itoa(id)
			}
		}
		known[k] = kept
	}
}

// filled is what a step that inserts into made did, and was told of what the server filled in.
func (s *step) filled(a *answer) (ops []oracle.Op) {
	rows := 1
	if s.kind == madeTwice || s.kind == copied {
		rows = 2
	}
	for i := range rows {
		op := oracle.Op{Kind: oracle.Mark, Write: s.id + i}
		if a != nil && s.kind != made && s.kind != copied {
			row := a.rows[i]
			op.Value = strings.Join(row[:4], " ")
			ops = append(ops, oracle.Op{Kind: oracle.Drawn, Value: row[0]}, oracle.Op{Kind: oracle.Drawn, Value: "identity " + row[3]})
			if s.kind == madeTimed {
				ops = append(ops, oracle.Op{Kind: oracle.Now, Value: row[4]})
				op.Value = strings.Join(row, " ")
			}
		}
		ops = append(ops, op)
	}
	return ops
}

// seen takes lists from rows.
func seen(known lists, rows [][]string, locked bool) (ops []oracle.Op) {
	for _, row := range rows {
		k, err := strconv.Atoi(row[0])
		if err != nil {
			panic(err)
		}
		known[k] = row[1]
		op := oracle.Op{Kind: oracle.Read, Key: k, Seen: elements(row[1])}
		if locked {
			op.Kind = oracle.Lock
		}
		ops = append(ops, op)
	}
	return ops
}

// elements of a list as it is stored.
func elements(text string) []int {
	var ids []int
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		id, err := strconv.Atoi(part)
		if err != nil {
			panic("not a list: " + text)
		}
		ids = append(ids, id)
	}
	return ids
}
