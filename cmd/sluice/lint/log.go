package lint

import (
	"iter"
	"regexp"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// logLine matches a line of PostgreSQL's log with a statement, up to the statement. log_statement,
// log_min_duration_statement and errors write these lines, with any log_line_prefix.
var logLine = regexp.MustCompile(`^.*?\b(?:LOG:  (?:duration: [0-9.]+ ms  )?(?:statement|(?:parse|bind|execute) [^:]*)|STATEMENT|QUERY): +`)

// logMessage matches the start of a line of PostgreSQL's log without a statement.
var logMessage = regexp.MustCompile(`^\S.*\b(?:LOG|ERROR|FATAL|PANIC|WARNING|NOTICE|INFO|DETAIL|HINT|CONTEXT|DEBUG[1-5]):  `)

// isStatementLog reports whether a text is a log of PostgreSQL, judged by its first lines.
func isStatementLog(text string) bool {
	lines := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "--") {
			continue // a comment
		}
		if logLine.MatchString(line) || logMessage.MatchString(line) {
			return true
		}
		if lines++; lines == 100 {
			break
		}
	}
	return false
}

// statementsInLog returns the statements of a PostgreSQL log. Further lines of a statement begin with a tab. A log may
// repeat a statement: when it is prepared, when it runs, and after its error.
func statementsInLog(log string) iter.Seq[parse.ScriptStatement] {
	return func(yield func(parse.ScriptStatement) bool) {
		var text strings.Builder // text of the statement at line begun
		var begun int
		var last string
		flush := func() bool {
			sql := strings.TrimSpace(text.String())
			if sql == "" || sql == last {
				return true
			}
			last = sql
			return yield(parse.ScriptStatement{Line: begun, SQL: sql})
		}
		n := 0
		for line := range strings.Lines(log) {
			n++
			if text.Len() > 0 && strings.HasPrefix(line, "\t") {
				text.WriteString(line[1:])
				continue
			}
			if !flush() {
				return
			}
			text.Reset()
			if head := logLine.FindString(line); head != "" {
				begun = n
				text.WriteString(line[len(head):])
			}
		}
		flush()
	}
}
