package doctor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
)

// question is something that sluice doctor asks a cluster, with the function that finds the answer.
type question struct {
	name, text string
	mapped     bool // concerns mapped columns
	ask        func(*questionRun)
}

// questions lists all questions of doctor in order. The answer to the first question decides how doctor asks the
// others. The name of a question never changes.
var questions = []question{
	{"encode", "Does the cluster make hexadecimal digits of bytea, and bytea of digits?", false, askByteaConversion},
	{"index", "Does an index serve comparisons with digits that the cluster makes?", true, askIndexUse},
	{"for_update", "Does FOR UPDATE by such a comparison flag that row, and no other?", true, askForUpdate},
	{"lock_outside", "Does FOR KEY SHARE outside of a block conflict with a DELETE of the row?", false, askLockOutsideBlock},
	{"key_size", "How long may text in a key be, beside varchar(255)?", false, askKeySize},
	{"check", "Does a table take the CHECK of a mapped column?", true, askCheckConstraint},
	{"upsert_key", "May ON CONFLICT DO UPDATE assign columns of the key?", false, askUpsertKey},
	{"add_column", "Does ALTER TABLE take ADD COLUMN with NULL, and several of them?", false, askAddColumn},
	{"numeric", "Does a numeric column keep 38 digits behind the point?", false, askNumericPrecision},
	{"serial", "May a sequence be a column's DEFAULT, and be owned by it?", false, askSerialColumn},
	{"generated_key", "May a generated column be a primary key?", false, askGeneratedKey},
}

// questionRun is the state of one question of sluice doctor while doctor asks the cluster.
type questionRun struct {
	doctorQuestion
	e   *examination
	ctx context.Context
	err error // set if the connection is lost, or after a signal
}

func (a *questionRun) addFinding(format string, args ...any) {
	a.Found = append(a.Found, fmt.Sprintf(format, args...))
}

// setAnswer sets the answer to the question: yes if fine, otherwise no.
func (a *questionRun) setAnswer(fine bool) {
	if a.Answer = no; fine {
		a.Answer = yes
	}
}

// asServerError returns err if err is an error of the server. asServerError records any other error, which ends the
// examination.
func (a *questionRun) asServerError(err error) *serverError {
	refused, ok := err.(*serverError)
	if err != nil && !ok && a.err == nil {
		a.err = err
	}
	return refused
}

// execute runs a statement. execute returns the server's error, if any, and whether the statement succeeded.
func (a *questionRun) execute(sql string) (refused *serverError, fine bool) {
	refused = a.asServerError(a.e.mainConn.execute(a.ctx, sql))
	return refused, refused == nil && a.err == nil
}

// queryValue runs a statement, and returns its first value, the server's error, and whether the statement succeeded.
func (a *questionRun) queryValue(sql string) (value string, refused *serverError, fine bool) {
	value, err := a.e.mainConn.queryValue(a.ctx, sql)
	refused = a.asServerError(err)
	return value, refused, err == nil
}

// hexSQL returns SQL for the hexadecimal digits of an operand of type bytea.
func (a *questionRun) hexSQL(operand string) string { return a.e.byteaMapping.HexSQL(operand) }

// recommendSetting records the value of a configuration key that fits the cluster, and the reason for the value.
func (a *questionRun) recommendSetting(key, value, why string) {
	a.e.recordSetting(key, value)
	a.So = strings.TrimSpace(a.So + " " + key + ": " + value + ": " + why)
}

// askByteaConversion finds how the cluster can convert bytea columns of keys to digits: by functions, by casts, or not
// at all.
func askByteaConversion(a *questionRun) {
	for _, how := range []rewrite.ByteaMapping{rewrite.ByteaHex, rewrite.ByteaHexCast} {
		by := map[rewrite.ByteaMapping]string{rewrite.ByteaHex: "encode() and decode()", rewrite.ByteaHexCast: "casts"}[how]
		digits, refused, fine := a.queryValue("SELECT " + how.HexSQL(`'\x00ff'::bytea`))
		same := ""
		if fine {
			same, refused, fine = a.queryValue("SELECT " + how.ByteaSQL("'00ff'::text") + ` = '\x00ff'::bytea`)
		}
		switch {
		case a.err != nil:
			return
		case !fine:
			a.addFinding("By %s: no: %v", by, refused)
		case digits != "00ff" || same != "t":
			a.addFinding(`By %s: no: the digits of \x00ff are %q, and the bytea of 00ff is it: %q`, by, digits, same)
		default:
			a.addFinding("By %s: yes", by)
			a.e.byteaMapping = how
		}
		if a.e.byteaMapping != rewrite.ByteaOff {
			break
		}
	}
	switch a.e.byteaMapping {
	case rewrite.ByteaHex:
		a.recommendSetting("rewrite.bytea", "hex", "columns of type bytea in keys are mapped by encode() and decode()")
	case rewrite.ByteaHexCast:
		a.recommendSetting("rewrite.bytea", "hex-cast", "columns of type bytea in keys are mapped by casts")
	default:
		a.recommendSetting("rewrite.bytea", "off", "columns of type bytea in keys cannot be mapped on this cluster")
	}
	a.setAnswer(a.e.byteaMapping != rewrite.ByteaOff)
}

// askKeySize finds the sizes of values that a key of the cluster accepts, by trying.
func askKeySize(a *questionRun) {
	const most = 4096
	declared := a.findLargest(most, func(n int) *serverError {
		refused, fine := a.execute(fmt.Sprintf("CREATE TABLE %s (v varchar(%d), digits text, PRIMARY KEY (v, digits))", a.e.tableName("declared"), n))
		if fine {
			_, _ = a.execute("DROP TABLE " + a.e.tableName("declared"))
		}
		return refused
	})
	if a.err != nil {
		return
	}
	a.addFinding("Declared beside text: %s", declared.describe("varchar(%d)"))
	if refused, fine := a.execute("CREATE TABLE " + a.e.tableName("wide") + " (v varchar(255), digits text, PRIMARY KEY (v, digits))"); !fine {
		a.addFinding("varchar(255) and text are refused in one key: %v", refused)
		a.setAnswer(false)
		return
	}
	for _, beside := range []int{0, 255} {
		room := a.findLargest(most, func(n int) *serverError {
			refused, _ := a.execute(fmt.Sprintf("INSERT INTO %s VALUES ('%s', '%s')", a.e.tableName("wide"), randomHex(beside), randomHex(n)))
			return refused
		})
		if a.err != nil {
			return
		}
		a.addFinding("Stored beside %d bytes in the varchar(255): %s", beside, room.describe("%d bytes of text"))
		a.So = fmt.Sprintf("a mapped bytea column may hold %d bytes beside a full varchar(255): hex takes two for each.", room.n/2)
	}
	a.setAnswer(true)
}

// largestAccepted is the largest number that the cluster accepts, with the refusal of the next number.
type largestAccepted struct {
	n       int
	refused *serverError
}

func (b largestAccepted) describe(form string) string {
	if b.refused == nil {
		return fmt.Sprintf(form, b.n) + ", and more was not tried"
	}
	return fmt.Sprintf(form, b.n) + ", then " + b.refused.Error()
}

// findLargest returns the largest number up to limit that the function try accepts. findLargest assumes that all
// smaller numbers are accepted too.
func (a *questionRun) findLargest(limit int, try func(n int) *serverError) (found largestAccepted) {
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

// randomHex returns n random hexadecimal digits, which do not compress.
func randomHex(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[rand.IntN(16)]
	}
	return string(b)
}

// askCheckConstraint creates a table with a mapped column (bytea stored as hexadecimal digits), as Sluice does. It
// then inserts values that the column's CHECK must accept or refuse.
func askCheckConstraint(a *questionRun) {
	table := a.e.tableName("checked")
	refused, fine := a.execute("CREATE TABLE " + table + " (digits__byteahex text " + a.e.byteaMapping.CheckSQL("digits__byteahex") + ")")
	if a.err != nil {
		return
	}
	if !fine {
		a.addFinding("The table is refused: %v", refused)
		a.recommendSetting("rewrite.bytea_check", "false", "mapped columns are known by their names and types alone")
		a.setAnswer(false)
		return
	}
	_, taken := a.execute("INSERT INTO " + table + " VALUES ('00ff'), ('')")
	held := true
	for _, digits := range []string{"AB", "a", "zz"} {
		refused, fine := a.execute("INSERT INTO " + table + " VALUES ('" + digits + "')")
		if a.err != nil {
			return
		}
		if held = held && !fine; !held {
			a.addFinding("It lets %q pass", digits)
		} else {
			a.addFinding("It refuses %q: SQLSTATE %s", digits, refused.code)
		}
	}
	if !taken {
		a.addFinding("It refuses digits that are right.")
		a.recommendSetting("rewrite.bytea_check", "false", "mapped columns are known by their names and types alone")
	} else {
		a.recommendSetting("rewrite.bytea_check", "true", "the CHECK holds what is written past Sluice to digits")
	}
	a.setAnswer(taken && held)
}

func askUpsertKey(a *questionRun) {
	refused, fine := a.execute("INSERT INTO " + a.e.tableName("keyed") + " VALUES (7, '3f', 1000) ON CONFLICT (a, digits)" +
		" DO UPDATE SET a = excluded.a, digits = excluded.digits, n = excluded.n")
	if a.err != nil {
		return
	}
	if !fine {
		a.addFinding("It is refused: %v", refused)
		a.So = "statements of this form fail through Sluice too; Temporal sends them."
		a.setAnswer(false)
		return
	}
	n, refused, fine := a.queryValue("SELECT n FROM " + a.e.tableName("keyed") + " WHERE a = 7 AND digits = '3f'")
	if a.err != nil {
		return
	}
	switch {
	case !fine:
		a.addFinding("The row could not be read: %v", refused)
	case n == "1000":
		a.addFinding("The row is updated.")
	default:
		a.addFinding("The row has %s where 1000 was assigned.", n)
	}
	a.setAnswer(fine && n == "1000")
}

func askAddColumn(a *questionRun) {
	table := a.e.tableName("widened")
	if refused, fine := a.execute("CREATE TABLE " + table + " (a int)"); !fine {
		if a.err == nil {
			a.addFinding("Not asked: no table could be made: %v", refused)
		}
		return
	}
	all := true
	for _, test := range []struct{ what, add string }{
		{"ADD COLUMN ... NULL", "ADD COLUMN b int NULL"},
		{"Two ADD COLUMN in one statement", "ADD COLUMN c int, ADD COLUMN d int"},
	} {
		refused, fine := a.execute("ALTER TABLE " + table + " " + test.add)
		switch {
		case a.err != nil:
			return
		case fine:
			a.addFinding("%s: yes", test.what)
		default:
			a.addFinding("%s: no: %v", test.what, refused)
		}
		if test.add == "ADD COLUMN b int NULL" && !fine {
			a.recommendSetting("rewrite.add_column", "true", "Sluice takes out the word NULL, which says nothing")
		}
		all = all && fine
	}
	a.setAnswer(all)
}

func askGeneratedKey(a *questionRun) {
	refused, fine := a.execute("CREATE TABLE " + a.e.tableName("generated") + " (v text, g text GENERATED ALWAYS AS (lower(v)) STORED, PRIMARY KEY (g))")
	if a.err != nil {
		return
	}
	if !fine {
		a.addFinding("It is refused: %v", refused)
	}
	a.setAnswer(fine)
}

// askNumericPrecision finds how the cluster stores a numeric column without a precision, and which precision a key
// accepts.
func askNumericPrecision(a *questionRun) {
	const written, wide = "1.23456789012345678901234567890123456789", "numeric(" + rewrite.WideNumeric + ")"
	keeps := true
	for _, column := range []struct{ what, kind string }{{"Without a precision", "numeric"}, {"As " + wide + ", in a key", wide}} {
		table := a.e.tableName("numeric")
		if column.kind == wide {
			table = a.e.tableName("numeric_key")
		}
		if refused, fine := a.execute("CREATE TABLE " + table + " (n " + column.kind + ", PRIMARY KEY (n))"); !fine {
			a.addFinding("%s: refused: %v", column.what, refused)
			keeps = keeps && column.kind != wide
			continue
		}
		stored, refused, fine := a.queryValue("INSERT INTO " + table + " VALUES (" + written + ") RETURNING n::text")
		if !fine {
			a.addFinding("%s: %s is refused: %v", column.what, written, refused)
			keeps = keeps && column.kind != wide
			continue
		}
		a.addFinding("%s: %s is stored as %s", column.what, written, stored)
		if column.kind == wide {
			keeps = keeps && stored == written
		}
	}
	if cast, _, fine := a.queryValue("SELECT (" + written + "::numeric)::text"); fine {
		a.addFinding("Cast to numeric in a query: %s", cast)
	}
	if a.err != nil {
		return
	}
	if keeps {
		a.recommendSetting(rewrite.NumericKey, rewrite.NumericWide, "the cluster takes "+wide+" in columns and keys")
	} else {
		a.recommendSetting(rewrite.NumericKey, "38,18", "the cluster does not take "+wide+": a column holds 20 digits in front of the point and 18 behind it")
	}
	a.setAnswer(keeps)
}

// askSerialColumn creates the parts of a serial column: a sequence, a table whose default uses it, and
// OWNED BY.
func askSerialColumn(a *questionRun) {
	sequence, table, all := a.e.tableName("drawn_id_seq"), a.e.tableName("drawn"), true
	for _, step := range []struct{ what, sql string }{
		{"CREATE SEQUENCE ... CACHE 1", "CREATE SEQUENCE " + sequence + " CACHE 1 MAXVALUE 2147483647"},
		{"DEFAULT nextval", "CREATE TABLE " + table + " (id integer DEFAULT nextval('" + sequence + "'::regclass) NOT NULL, n int)"},
		{"OWNED BY", "ALTER SEQUENCE " + sequence + " OWNED BY " + table + ".id"},
	} {
		refused, fine := a.execute(step.sql)
		if a.err != nil {
			return
		}
		if all = all && fine; !fine {
			a.addFinding("%s: no: %v", step.what, refused)
			break
		}
		a.addFinding("%s: yes", step.what)
	}
	if all {
		id, refused, fine := a.queryValue("INSERT INTO " + table + " (n) VALUES (7) RETURNING id")
		if a.err != nil {
			return
		}
		if all = fine && id == "1"; !all {
			a.addFinding("The first row has the number %q: %v", id, refused)
		}
	}
	for _, sql := range []string{"DROP TABLE IF EXISTS " + table, "DROP SEQUENCE IF EXISTS " + sequence} {
		if _, _ = a.execute(sql); a.err != nil {
			return
		}
	}
	if a.setAnswer(all); !all {
		a.So = rewrite.SerialKey + ": serial columns are bigint identity columns on this cluster, as with identity, and so are columns of int made that refer to them."
	}
}
