package rewrite

import (
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DSQL has no COPY FROM STDIN. Sluice carries out COPY FROM STDIN by INSERTs. Errors about its options are
// PostgreSQL's.

// CopyFromKey is the configuration key that sets Rules.CopyIn.
const CopyFromKey = "copy.from"

// CopyIn is a COPY FROM STDIN that Sluice carries out by INSERTs.
type CopyIn struct {
	Table   string   // the table as SQL, for a cast to regclass and for INSERT
	Schema  string   // the table's schema as the client writes it; "" if the client writes none
	Name    string   // the table's name without its schema
	Columns []string // the column names that the client lists; nil for all columns
	// CSV and Binary say in which format the client sends data. The text format sets neither.
	CSV, Binary              bool
	Delimiter, Quote, Escape byte
	Null                     string
	Header, MatchHeader      bool
	// ForceNull and ForceNotNull are the columns in the COPY options FORCE_NULL and FORCE_NOT_NULL.
	ForceNull, ForceNotNull []string
}

// byInserts is the Finding.Action for a COPY that Sluice carries out.
const byInserts = "carried out by INSERTs, of at most 3,000 rows and 8 MiB in a transaction: a COPY of more is not atomic"

// planCopyIn plans or refuses a COPY FROM STDIN. If it returns true, no other rule applies, because Sluice plans the
// INSERTs as separate texts. planCopyIn returns false for any other statement.
func (r *rewriter) planCopyIn(p *statementPart) bool {
	m := p.node
	if p.st.Copy != CopyFromClient {
		return false
	}
	if !r.rules.CopyIn {
		p.st.Hint = finding.Sentence(finding.Remedy(finding.CopyFrom)) // no finding: a cluster may accept a COPY
		return false
	}
	c, refusal := parseCopyIn(m)
	if refusal == nil && len(r.parts) > 1 {
		refusal = &Refusal{Code: "0A000", Message: "COPY FROM STDIN cannot be carried out in a string of several statements", Hint: "Send it in a request of its own."}
	}
	if refusal != nil {
		// If a server accepted this COPY in a multi-statement query, the server would wait for data.
		refusal.Unsent = true
		p.st.Refusal = refusal
		f := finding.Handled(finding.CopyFrom, finding.Rejected, finding.Error, "refused: it cannot be carried out by INSERTs", p.st.Start)
		f.Remedy = "leave out WHERE and FREEZE, ON_ERROR, DEFAULT and encodings but UTF8; or write INSERTs"
		r.addFinding(f)
		return true
	}
	p.st.Does, p.st.CopyIn = CopiesIn, c
	f := finding.Handled(finding.CopyFrom, finding.Answered, finding.Warning, byInserts, p.st.Start)
	f.Remedy = "for all or nothing, COPY at most 3,000 rows at a time"
	r.addFinding(f)
	return true
}

// bytes estimates the memory of the CopyIn c in bytes.
func (c *CopyIn) bytes() int {
	n := 256 + len(c.Table) + len(c.Schema) + len(c.Name) + len(c.Null)
	for _, names := range [][]string{c.Columns, c.ForceNull, c.ForceNotNull} {
		for _, name := range names {
			n += 16 + len(name)
		}
	}
	return n
}

// copyRefusal returns the error for a COPY that Sluice cannot carry out. The text what names the unsupported part.
func copyRefusal(what string) *Refusal {
	return &Refusal{Code: "0A000", Message: "COPY FROM STDIN with " + what + " is not carried out by INSERTs (" + CopyFromKey + ")",
		Hint: "Leave it out, or write INSERTs of at most 3,000 rows."}
}

// copyOptionError returns PostgreSQL's error about an option of a COPY.
func copyOptionError(code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// copyOptions collects the options of a COPY. A nil pointer means that the COPY does not have the option.
type copyOptions struct {
	*CopyIn
	given                    map[string]bool
	delimiter, quote, escape *string
	null                     *string
	freeze                   bool
}

// parseCopyIn returns the CopyIn of a COPY FROM STDIN, or the error with which Sluice refuses it.
func parseCopyIn(m parse.TreeNode) (*CopyIn, *Refusal) {
	relation := m.Child("relation")
	c := &copyOptions{CopyIn: &CopyIn{Name: relation.Text("relname"), Schema: relation.Text("schemaname"), Columns: m.Names("attlist")}, given: map[string]bool{}}
	switch {
	case relation.Text("catalogname") != "":
		return nil, copyRefusal("the name of a database")
	case m.Child("where_clause").Shape != nil:
		return nil, copyRefusal("WHERE")
	}
	c.Table = parse.QuoteIdent(c.Name)
	if c.Schema != "" {
		c.Table = parse.QuoteIdent(c.Schema) + "." + c.Table
	}
	for option := range m.List("options") {
		if refusal := c.readOption(option); refusal != nil {
			return nil, refusal
		}
	}
	if refusal := c.checkOptions(); refusal != nil {
		return nil, refusal
	}
	return c.CopyIn, nil
}

// readOption reads one option of the COPY into c. It returns PostgreSQL's error for an invalid option.
func (c *copyOptions) readOption(m parse.TreeNode) *Refusal {
	name := m.Text("defname")
	if c.given[name] {
		return copyOptionError("42601", "conflicting or redundant options")
	}
	c.given[name] = true
	value, constant := optionText(m)
	switch name {
	case "format":
		return c.setFormat(value)
	case "freeze":
		on, ok := parseBoolean(m, value)
		if !ok {
			return copyOptionError("42601", "freeze requires a Boolean value")
		}
		c.freeze = on
	case "delimiter", "null", "quote", "escape":
		if !constant {
			return copyOptionError("42601", "%s requires a parameter", name)
		}
		*map[string]**string{"delimiter": &c.delimiter, "null": &c.null, "quote": &c.quote, "escape": &c.escape}[name] = &value
	case "header":
		on, ok := parseBoolean(m, value)
		if !ok && !strings.EqualFold(value, "match") {
			return copyOptionError("42601", "header requires a Boolean value or \"match\"")
		}
		c.Header, c.MatchHeader = on || !ok, !ok
	case "force_null", "force_not_null":
		names := m.Child("arg").Names("items")
		if len(names) == 0 {
			return copyOptionError("22023", "argument to option \"%s\" must be a list of column names", name)
		}
		*map[string]*[]string{"force_null": &c.ForceNull, "force_not_null": &c.ForceNotNull}[name] = names
	case "force_quote":
	case "encoding":
		if clean := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(value)); clean != "utf8" && clean != "unicode" {
			return copyRefusal("an ENCODING but UTF8")
		}
	case "default", "on_error", "log_verbosity", "reject_limit", "convert_selectively":
		return copyRefusal(strings.ToUpper(name))
	default:
		return copyOptionError("42601", "option \"%s\" not recognized", name)
	}
	return nil
}

// optionText returns the value of a COPY option. constant is false if the value is not one constant.
func optionText(m parse.TreeNode) (value string, constant bool) {
	switch arg := m.Child("arg"); arg.TypeName() {
	case "String":
		return arg.Text("sval"), true
	case "Integer":
		return fmt.Sprint(arg.Integer("ival")), true
	case "Boolean":
		return fmt.Sprint(arg.Flag("boolval")), true
	case "Float":
		return arg.Text("fval"), true
	case "TypeName":
		return strings.Join(arg.Names("names"), "."), true
	}
	return "", false
}

// parseBoolean returns the value of a boolean COPY option. An option without a value is true. ok is false for an
// invalid value.
func parseBoolean(m parse.TreeNode, value string) (on, ok bool) {
	if m.Child("arg").Shape == nil {
		return true, true
	}
	switch strings.ToLower(value) {
	case "true", "on", "1":
		return true, true
	case "false", "off", "0":
		return false, true
	}
	return false, false
}

func (c *copyOptions) setFormat(value string) *Refusal {
	switch value {
	case "text":
	case "csv":
		c.CSV = true
	case "binary":
		c.Binary = true
	default:
		return copyOptionError("22023", "COPY format \"%s\" not recognized", value)
	}
	return nil
}

// checkOptions checks the COPY's options in PostgreSQL's order, and sets the defaults of missing ones.
func (c *copyOptions) checkOptions() *Refusal {
	delimiter, null := "\t", `\N`
	if c.CSV {
		delimiter, null = ",", ""
	}
	delimiter, null = valueOr(c.delimiter, delimiter), valueOr(c.null, null)
	quote := valueOr(c.quote, `"`)
	escape := valueOr(c.escape, quote)
	for _, rule := range []struct {
		bad           bool
		code, message string
	}{
		{c.Binary && c.delimiter != nil, "42601", "cannot specify DELIMITER in BINARY mode"},
		{c.Binary && c.null != nil, "42601", "cannot specify NULL in BINARY mode"},
		{len(delimiter) != 1, "0A000", "COPY delimiter must be a single one-byte character"},
		{strings.ContainsAny(delimiter, "\r\n"), "22023", "COPY delimiter cannot be newline or carriage return"},
		{strings.ContainsAny(null, "\r\n"), "22023", "COPY null representation cannot use newline or carriage return"},
		{!c.CSV && strings.Contains("\\.abcdefghijklmnopqrstuvwxyz0123456789", delimiter), "22023", "COPY delimiter cannot be \"" + delimiter + "\""},
		{c.Binary && c.Header, "0A000", "cannot specify HEADER in BINARY mode"},
		{!c.CSV && c.quote != nil, "0A000", "COPY quote available only in CSV mode"},
		{c.CSV && len(quote) != 1, "0A000", "COPY quote must be a single one-byte character"},
		{c.CSV && delimiter == quote, "22023", "COPY delimiter and quote must be different"},
		{!c.CSV && c.escape != nil, "0A000", "COPY escape available only in CSV mode"},
		{c.CSV && len(escape) != 1, "0A000", "COPY escape must be a single one-byte character"},
		{!c.CSV && c.given["force_quote"], "0A000", "COPY force quote available only in CSV mode"},
		{c.given["force_quote"], "0A000", "COPY force quote only available using COPY TO"},
		{!c.CSV && c.ForceNotNull != nil, "0A000", "COPY force not null available only in CSV mode"},
		{!c.CSV && c.ForceNull != nil, "0A000", "COPY force null available only in CSV mode"},
		{!c.Binary && strings.Contains(null, delimiter), "0A000", "COPY delimiter must not appear in the NULL specification"},
		{c.CSV && strings.Contains(null, quote), "0A000", "CSV quote character must not appear in the NULL specification"},
	} {
		if rule.bad {
			return copyOptionError(rule.code, "%s", rule.message)
		}
	}
	if c.freeze {
		return copyRefusal("FREEZE")
	}
	c.Delimiter, c.Null, c.Quote, c.Escape = delimiter[0], null, quote[0], escape[0]
	return nil
}

func valueOr(value *string, otherwise string) string {
	if value == nil {
		return otherwise
	}
	return *value
}

// InsertPrefix returns the beginning of an INSERT into columns, up to VALUES. always means that one of the columns is
// GENERATED ALWAYS AS IDENTITY. COPY may write this column, but INSERT only with OVERRIDING SYSTEM VALUE.
func (c *CopyIn) InsertPrefix(columns []string, always bool) string {
	text := "INSERT INTO " + c.Table + " (" + parse.QuoteIdents(columns, "") + ")"
	if always {
		text += " OVERRIDING SYSTEM VALUE"
	}
	return text + " VALUES "
}
