package lint

import (
	"iter"
	"regexp"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// logLine matches a line of PostgreSQL's log that holds a statement, as
// log_statement, log_min_duration_statement and errors write them, whatever
// log_line_prefix is: the statement is what follows.
var logLine = regexp.MustCompile(`^.*?\b(?:LOG:  (?:duration: [0-9.]+ ms  )?(?:statement|(?:parse|bind|execute) [^:]*)|STATEMENT|QUERY): +`)

// logMessage matches the beginning of any other line of a log.
var logMessage = regexp.MustCompile(`^\S.*\b(?:LOG|ERROR|FATAL|PANIC|WARNING|NOTICE|INFO|DETAIL|HINT|CONTEXT|DEBUG[1-5]):  `)

// isStatementLog tells a log from a script by its first lines.
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

// logged takes the statements out of a log. Further lines of a statement begin
// with a tab; a log may tell a statement twice, when it is prepared and when it
// runs, and again below its error.
func logged(log string) iter.Seq[parse.Snippet] {
	return func(yield func(parse.Snippet) bool) {
		var text strings.Builder // of the statement that begins at begun
		var begun int
		var last string
		flush := func() bool {
			sql := strings.TrimSpace(text.String())
			if sql == "" || sql == last {
				return true
			}
			last = sql
			return yield(parse.Snippet{Line: begun, SQL: sql})
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
