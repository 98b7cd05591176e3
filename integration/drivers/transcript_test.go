package drivers

import (
	"crypto/md5"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
)

// transcript is what a client was told, in lines: "a: statement", "| row",
// "= tag", "! error", "~ notice".
type transcript struct{ strings.Builder }

func (w *transcript) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// longest is what is shown of a value; longer ones are shown by length and digest.
const longest = 300

// row shows values with their Go types, so that a difference in format between
// two routes is seen even where the values are equal.
func (w *transcript) row(values []any) {
	w.WriteString("|")
	for _, v := range values {
		fmt.Fprintf(w, " %T(%s)", v, abbreviated(fmt.Sprint(v)))
	}
	w.WriteString("\n")
}

// fail shows an error: what any client shows of it in the first line, which
// [refusedAt] reads, and the rest of a server's fields.
func (w *transcript) fail(err error) {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		w.line("! %s %s %s", e.Severity, e.Code, abbreviated(e.Message))
		w.fields(e.Detail, e.Hint, fmt.Sprint(e.Position), e.InternalQuery, e.Where, e.SchemaName, e.TableName, e.ColumnName, e.DataTypeName, e.ConstraintName)
		return
	}
	if e, ok := errors.AsType[*pq.Error](err); ok {
		w.line("! %s %s %s", e.Severity, e.Code, e.Message)
		w.fields(e.Detail, e.Hint, e.Position, e.InternalQuery, e.Where, e.Schema, e.Table, e.Column, e.DataTypeName, e.Constraint)
		return
	}
	w.line("! the client: %v", err)
}

func (w *transcript) fields(values ...string) {
	if slices.ContainsFunc(values, func(v string) bool { return v != "" && v != "0" }) {
		w.line("!   %q", values)
	}
}

// withoutFields leaves out what is told of an error besides its first line.
func withoutFields(transcript string) string {
	return errorFields.ReplaceAllString(transcript, "")
}

var errorFields = regexp.MustCompile(`(?m)^!   .*\n`)

func (w *transcript) notice(severity, code, message string) {
	w.line("~ %s %s %s", severity, code, abbreviated(message))
}

func abbreviated(text string) string {
	if len(text) <= longest {
		return text
	}
	return fmt.Sprintf("%d bytes, md5 %x", len(text), md5.Sum([]byte(text)))
}

// difference is empty for equal transcripts, else where they part.
func difference(got, want string) string {
	if got == want {
		return ""
	}
	g, w, at := parting(got, want)
	from := max(0, at-8)
	return fmt.Sprintf("line %d:\n%s\n--- directly:\n%s", at+1, excerpt(g, from, at+4), excerpt(w, from, at+4))
}

// parting splits two transcripts into lines and finds the first that differs.
func parting(got, want string) (g, w []string, at int) {
	g, w = strings.Split(got, "\n"), strings.Split(want, "\n")
	for at < len(g) && at < len(w) && g[at] == w[at] {
		at++
	}
	return g, w, at
}

func excerpt(lines []string, from, to int) string {
	from = max(0, from)
	return strings.Join(lines[min(from, len(lines)):min(to, len(lines))], "\n")
}

// refusedAt checks a transcript from a backend that lacks a feature: the same
// as want until a statement got the refusal, and a session that lives on.
func refusedAt(got, want string, r refusal) string {
	g, _, at := parting(got, want)
	line := fmt.Sprintf("! ERROR %s %s", r.code, r.message)
	if at >= len(g) || g[at] != line {
		return fmt.Sprintf("want the refusal %q here: %s", line, difference(got, want))
	}
	if end := got[max(0, strings.LastIndex(got, alive)):]; strings.Count(end, "alive") < 2 {
		return "the session is not alive at the end:\n" + end
	}
	return ""
}

// errorIn returns the first line of a transcript that is an error.
func errorIn(transcript string) string {
	for line := range strings.Lines(transcript) {
		if strings.HasPrefix(line, "!") {
			return "want no error: " + line
		}
	}
	return ""
}

func TestRefusedAt(t *testing.T) {
	t.Parallel()
	r := refusal{"0A000", "unsupported"}
	const refused, end = "! ERROR 0A000 unsupported\n", "a: " + alive + "\n| alive\n"
	for _, c := range []struct {
		name, got, want string
		ok              bool
	}{
		{"refused", "x\n" + refused + end, "x\n= TAG\n" + end, true},
		{"followed by other differences", "x\n" + refused + "! ERROR 25P02\n" + end, "x\n= TAG\ny\n" + end, true},
		{"not refused", "x\n= TAG\n" + end, "x\n= TAG\n" + end, false},
		{"different before", "z\n" + refused + end, "x\n= TAG\n" + end, false},
		{"another refusal", "x\n! ERROR 0A000 other\n" + end, "x\n= TAG\n" + end, false},
		{"dead afterwards", "x\n" + refused + "! gone\n", "x\n= TAG\n" + end, false},
		{"cut short", "x\n", "x\n= TAG\n" + end, false},
	} {
		if problem := refusedAt(c.got, c.want, r); (problem == "") != c.ok {
			t.Errorf("%s: %q", c.name, problem)
		}
	}
}
