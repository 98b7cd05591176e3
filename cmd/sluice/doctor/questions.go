package doctor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
)

// question is one question to a cluster.
type question struct {
	name, text string
	mapped     bool // concerns mapped columns
	ask        func(*inquiry)
}

// questions lists all questions of doctor in order. The answer to the first question decides how doctor asks the
// others. The name of a question never changes.
var questions = []question{
	{"encode", "Does the cluster make hexadecimal digits of bytea, and bytea of digits?", false, askConversion},
	{"index", "Does an index serve comparisons with digits that the cluster makes?", true, askIndex},
	{"for_update", "Does FOR UPDATE by such a comparison flag that row, and no other?", true, askLocks},
	{"lock_outside", "Does FOR KEY SHARE outside of a block conflict with a DELETE of the row?", false, askLockOutside},
	{"key_size", "How long may text in a key be, beside varchar(255)?", false, askKeySize},
	{"check", "Does a table take the CHECK of a mapped column?", true, askCheck},
	{"upsert_key", "May ON CONFLICT DO UPDATE assign columns of the key?", false, askUpsert},
	{"add_column", "Does ALTER TABLE take ADD COLUMN with NULL, and several of them?", false, askAddColumn},
	{"numeric", "Does a numeric column keep 38 digits behind the point?", false, askNumeric},
	{"serial", "May a sequence be a column's DEFAULT, and be owned by it?", false, askSerial},
	{"generated_key", "May a generated column be a primary key?", false, askGenerated},
}

// inquiry is one question to the cluster, in progress.
type inquiry struct {
	doctorQuestion
	e   *examination
	ctx context.Context
	err error // set if the connection is lost, or after a signal
}

func (a *inquiry) found(format string, args ...any) {
	a.Found = append(a.Found, fmt.Sprintf(format, args...))
}

// settle sets the answer to the question: yes if fine, otherwise no.
func (a *inquiry) settle(fine bool) {
	if a.Answer = no; fine {
		a.Answer = yes
	}
}

// refusal returns err if it is an error of the server. It records any other error, which ends the examination.
func (a *inquiry) refusal(err error) *serverError {
	refused, ok := err.(*serverError)
	if err != nil && !ok && a.err == nil {
		a.err = err
	}
	return refused
}

// do runs a statement. It returns the server's error, if any, and whether the statement succeeded.
func (a *inquiry) do(sql string) (refused *serverError, fine bool) {
	refused = a.refusal(a.e.here.do(a.ctx, sql))
	return refused, refused == nil && a.err == nil
}

// value returns one value, the server's error, and whether the statement succeeded.
func (a *inquiry) value(sql string) (value string, refused *serverError, fine bool) {
	value, err := a.e.here.value(a.ctx, sql)
	refused = a.refusal(err)
	return value, refused, err == nil
}

// hex returns SQL for the hexadecimal digits of an operand.
func (a *inquiry) hex(operand string) string { return a.e.how.Hex(operand) }

// setting records the value of a key and the reason for it.
func (a *inquiry) setting(key, value, why string) {
	a.e.setting(key, value)
	a.So = strings.TrimSpace(a.So + " " + key + ": " + value + ": " + why)
}

// askConversion decides how columns are mapped: by functions, by casts, or not at all.
func askConversion(a *inquiry) {
	for _, how := range []rewrite.ByteaMapping{rewrite.ByteaHex, rewrite.ByteaHexCast} {
		by := map[rewrite.ByteaMapping]string{rewrite.ByteaHex: "encode() and decode()", rewrite.ByteaHexCast: "casts"}[how]
		digits, refused, fine := a.value("SELECT " + how.Hex(`'\x00ff'::bytea`))
		same := ""
		if fine {
			same, refused, fine = a.value("SELECT " + how.Bytea("'00ff'::text") + ` = '\x00ff'::bytea`)
		}
		switch {
		case a.err != nil:
			return
		case !fine:
			a.found("By %s: no: %v", by, refused)
		case digits != "00ff" || same != "t":
			a.found(`By %s: no: the digits of \x00ff are %q, and the bytea of 00ff is it: %q`, by, digits, same)
		default:
			a.found("By %s: yes", by)
			a.e.how = how
		}
		if a.e.how != rewrite.ByteaOff {
			break
		}
	}
	switch a.e.how {
	case rewrite.ByteaHex:
		a.setting("rewrite.bytea", "hex", "columns of type bytea in keys are mapped by encode() and decode()")
	case rewrite.ByteaHexCast:
		a.setting("rewrite.bytea", "hex-cast", "columns of type bytea in keys are mapped by casts")
	default:
		a.setting("rewrite.bytea", "off", "columns of type bytea in keys cannot be mapped on this cluster")
	}
	a.settle(a.e.how != rewrite.ByteaOff)
}

// askKeySize finds the sizes that a key accepts, by trying.
func askKeySize(a *inquiry) {
	const most = 4096
	declared := a.most(most, func(n int) *serverError {
		refused, fine := a.do(fmt.Sprintf("CREATE TABLE %s (v varchar(%d), digits text, PRIMARY KEY (v, digits))", a.e.table("declared"), n))
		if fine {
			_, _ = a.do("DROP TABLE " + a.e.table("declared"))
		}
		return refused
	})
	if a.err != nil {
		return
	}
	a.found("Declared beside text: %s", declared.say("varchar(%d)"))
	if refused, fine := a.do("CREATE TABLE " + a.e.table("wide") + " (v varchar(255), digits text, PRIMARY KEY (v, digits))"); !fine {
		a.found("varchar(255) and text are refused in one key: %v", refused)
		a.settle(false)
		return
	}
	for _, beside := range []int{0, 255} {
		room := a.most(most, func(n int) *serverError {
			refused, _ := a.do(fmt.Sprintf("INSERT INTO %s VALUES ('%s', '%s')", a.e.table("wide"), randomHex(beside), randomHex(n)))
			return refused
		})
		if a.err != nil {
			return
		}
		a.found("Stored beside %d bytes in the varchar(255): %s", beside, room.say("%d bytes of text"))
		a.So = fmt.Sprintf("a mapped bytea column may hold %d bytes beside a full varchar(255): hex takes two for each.", room.n/2)
	}
	a.settle(true)
}

// bound is the largest accepted number, with the refusal of the next one.
type bound struct {
	n       int
	refused *serverError
}

func (b bound) say(form string) string {
	if b.refused == nil {
		return fmt.Sprintf(form, b.n) + ", and more was not tried"
	}
	return fmt.Sprintf(form, b.n) + ", then " + b.refused.Error()
}

// most returns the largest number up to limit that try accepts. It assumes that all smaller numbers are accepted too.
func (a *inquiry) most(limit int, try func(n int) *serverError) (found bound) {
	low, high := 0, limit+1 // low is accepted, high is not
	for high-low > 1 && a.err == nil {
		n := (low + high) / 2
		if refused := try(n); refused != nil {
			high, found.refused = n, refused
		} else {
			low = n
		}
	}
	found.n = low
	return found
}

// randomHex returns n random digits, which do not compress.
func randomHex(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[rand.IntN(16)]
	}
	return string(b)
}

// askCheck creates a table as Sluice does, and inserts values that its CHECK must accept and
// refuse.
func askCheck(a *inquiry) {
	table := a.e.table("checked")
	refused, fine := a.do("CREATE TABLE " + table + " (digits__byteahex text " + a.e.how.Check("digits__byteahex") + ")")
	if a.err != nil {
		return
	}
	if !fine {
		a.found("The table is refused: %v", refused)
		a.setting("rewrite.bytea_check", "false", "mapped columns are known by their names and types alone")
		a.settle(false)
		return
	}
	_, taken := a.do("INSERT INTO " + table + " VALUES ('00ff'), ('')")
	held := true
	for _, digits := range []string{"AB", "a", "zz"} {
		refused, fine := a.do("INSERT INTO " + table + " VALUES ('" + digits + "')")
		if a.err != nil {
			return
		}
		if held = held && !fine; !held {
			a.found("It lets %q pass", digits)
		} else {
			a.found("It refuses %q: SQLSTATE %s", digits, refused.code)
		}
	}
	if !taken {
		a.found("It refuses digits that are right.")
		a.setting("rewrite.bytea_check", "false", "mapped columns are known by their names and types alone")
	} else {
		a.setting("rewrite.bytea_check", "true", "the CHECK holds what is written past Sluice to digits")
	}
	a.settle(taken && held)
}

func askUpsert(a *inquiry) {
	refused, fine := a.do("INSERT INTO " + a.e.table("keyed") + " VALUES (7, '3f', 1000) ON CONFLICT (a, digits)" +
		" DO UPDATE SET a = excluded.a, digits = excluded.digits, n = excluded.n")
	if a.err != nil {
		return
	}
	if !fine {
		a.found("It is refused: %v", refused)
		a.So = "statements of this form fail through Sluice too; Temporal sends them."
		a.settle(false)
		return
	}
	n, refused, fine := a.value("SELECT n FROM " + a.e.table("keyed") + " WHERE a = 7 AND digits = '3f'")
	if a.err != nil {
		return
	}
	switch {
	case !fine:
		a.found("The row could not be read: %v", refused)
	case n == "1000":
		a.found("The row is updated.")
	default:
		a.found("The row has %s where 1000 was assigned.", n)
	}
	a.settle(fine && n == "1000")
}

func askAddColumn(a *inquiry) {
	table := a.e.table("widened")
	if refused, fine := a.do("CREATE TABLE " + table + " (a int)"); !fine {
		if a.err == nil {
			a.found("Not asked: no table could be made: %v", refused)
		}
		return
	}
	all := true
	for _, test := range []struct{ what, add string }{
		{"ADD COLUMN ... NULL", "ADD COLUMN b int NULL"},
		{"Two ADD COLUMN in one statement", "ADD COLUMN c int, ADD COLUMN d int"},
	} {
		refused, fine := a.do("ALTER TABLE " + table + " " + test.add)
		switch {
		case a.err != nil:
			return
		case fine:
			a.found("%s: yes", test.what)
		default:
			a.found("%s: no: %v", test.what, refused)
		}
		if test.add == "ADD COLUMN b int NULL" && !fine {
			a.setting("rewrite.add_column", "true", "Sluice takes out the word NULL, which says nothing")
		}
		all = all && fine
	}
	a.settle(all)
}

func askGenerated(a *inquiry) {
	refused, fine := a.do("CREATE TABLE " + a.e.table("generated") + " (v text, g text GENERATED ALWAYS AS (lower(v)) STORED, PRIMARY KEY (g))")
	if a.err != nil {
		return
	}
	if !fine {
		a.found("It is refused: %v", refused)
	}
	a.settle(fine)
}

// askNumeric finds how a numeric column without a precision is stored, and which precision a key
// accepts.
func askNumeric(a *inquiry) {
	const written, wide = "1.23456789012345678901234567890123456789", "numeric(" + rewrite.WideNumeric + ")"
	keeps := true
	for _, column := range []struct{ what, kind string }{{"Without a precision", "numeric"}, {"As " + wide + ", in a key", wide}} {
		table := a.e.table("numeric")
		if column.kind == wide {
			table = a.e.table("numeric_key")
		}
		if refused, fine := a.do("CREATE TABLE " + table + " (n " + column.kind + ", PRIMARY KEY (n))"); !fine {
			a.found("%s: refused: %v", column.what, refused)
			keeps = keeps && column.kind != wide
			continue
		}
		stored, refused, fine := a.value("INSERT INTO " + table + " VALUES (" + written + ") RETURNING n::text")
		if !fine {
			a.found("%s: %s is refused: %v", column.what, written, refused)
			keeps = keeps && column.kind != wide
			continue
		}
		a.found("%s: %s is stored as %s", column.what, written, stored)
		if column.kind == wide {
			keeps = keeps && stored == written
		}
	}
	if cast, _, fine := a.value("SELECT (" + written + "::numeric)::text"); fine {
		a.found("Cast to numeric in a query: %s", cast)
	}
	if a.err != nil {
		return
	}
	if keeps {
		a.setting(rewrite.NumericKey, rewrite.NumericWide, "the cluster takes "+wide+" in columns and keys")
	} else {
		a.setting(rewrite.NumericKey, "38,18", "the cluster does not take "+wide+": a column holds 20 digits in front of the point and 18 behind it")
	}
	a.settle(keeps)
}

// askSerial creates the parts of a serial column: a sequence, a table whose default uses it, and
// OWNED BY.
func askSerial(a *inquiry) {
	sequence, table, all := a.e.table("drawn_id_seq"), a.e.table("drawn"), true
	for _, step := range []struct{ what, sql string }{
		{"CREATE SEQUENCE ... CACHE 1", "CREATE SEQUENCE " + sequence + " CACHE 1 MAXVALUE 2147483647"},
		{"DEFAULT nextval", "CREATE TABLE " + table + " (id integer DEFAULT nextval('" + sequence + "'::regclass) NOT NULL, n int)"},
		{"OWNED BY", "ALTER SEQUENCE " + sequence + " OWNED BY " + table + ".id"},
	} {
		refused, fine := a.do(step.sql)
		if a.err != nil {
			return
		}
		if all = all && fine; !fine {
			a.found("%s: no: %v", step.what, refused)
			break
		}
		a.found("%s: yes", step.what)
	}
	if all {
		id, refused, fine := a.value("INSERT INTO " + table + " (n) VALUES (7) RETURNING id")
		if a.err != nil {
			return
		}
		if all = fine && id == "1"; !all {
			a.found("The first row has the number %q: %v", id, refused)
		}
	}
	for _, sql := range []string{"DROP TABLE IF EXISTS " + table, "DROP SEQUENCE IF EXISTS " + sequence} {
		if _, _ = a.do(sql); a.err != nil {
			return
		}
	}
	if a.settle(all); !all {
		a.So = rewrite.SerialKey + ": serial columns are bigint identity columns on this cluster, as with identity, and so are columns of int made that refer to them."
	}
}
