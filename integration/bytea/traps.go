package bytea

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Trap is a mistake that a simple rewriting of bytea keys makes, with texts that show the mistake. The mapped
// database (bytea keys stored as text) must answer these texts as a plain PostgreSQL does. A parameter in text format
// follows a text after a |.
type Trap struct {
	// Number is the number of the trap in the design for bytea keys as text, or 0 for a trap found later.
	Number int
	Name   string
	Texts  []string
	// Undone means that each of the Texts runs in a transaction that is rolled back.
	Undone bool
	// Refused means that the mapped database (bytea keys stored as text) must refuse the Texts, because it would answer
	// them differently.
	Refused bool
	// Plain means that DSQL refuses the Texts, or answers them differently from PostgreSQL.
	Plain bool
}

// FindDifferences runs the Trap's Texts in both databases. It returns those texts that the mapped database (bytea
// keys stored as text) answers differently or refuses, or accepts against Refused.
func (t Trap) FindDifferences(ctx context.Context, stock, mapped *Client) (all []string, err error) {
	p := &schemaRun{stock: stock, mapped: mapped}
	for _, text := range t.Texts {
		if t.Undone {
			if err := p.execInBoth(ctx, "BEGIN"); err != nil {
				return nil, err
			}
		}
		differs, err := p.runTrap(ctx, text, t.Refused)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		if differs != "" {
			all = append(all, differs)
		}
		if t.Undone {
			if err := p.execInBoth(ctx, "ROLLBACK"); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// runTrap runs a text, which may end in | and a parameter, in both databases. It returns how the answers differ, or
// "" if they are equal. If refuse is set, it demands that the mapped database refuses the text.
func (p *schemaRun) runTrap(ctx context.Context, both string, refuse bool) (string, error) {
	text, value, has := strings.Cut(both, "|")
	if strings.HasPrefix(value, "|") { // the operator
		text, has = both, false
	}
	s := statement{text: text, simple: !has}
	if has {
		s.params = []param{{value: []byte(value)}}
	}
	want, got, v, err := p.runInBoth(ctx, s)
	switch {
	case err != nil:
		return "", err
	case refuse && v.kind == refused:
	case refuse || v.kind != same && v.kind != bothFail && v.kind != codesDiffer:
		return fmt.Sprintf("%s\nsent: %s\n%s (stock %s, mapped %s)", both, got.sent, v.text, want.resultText(), got.resultText()), nil
	case strings.Contains(text, "ORDER BY") && !slices.Equal(want.rows, got.rows):
		return fmt.Sprintf("%s: rows are\n%s\nwant\n%s", both, strings.Join(got.rows, "\n"), strings.Join(want.rows, "\n")), nil
	}
	return "", nil
}

// TrapTables creates the tables for the statements in Traps, which a wrong rewriting of bytea keys would change.
// Column d and the columns of table p are in no key.
const TrapTables = `CREATE TABLE t (k bytea PRIMARY KEY, n int, d bytea, u bytea UNIQUE);
CREATE TABLE p (k bytea, n int);
CREATE TABLE s (a int, k bytea DEFAULT '\x7a', PRIMARY KEY (a, k), CHECK (length(k) < 5));
CREATE VIEW v AS SELECT * FROM t;
INSERT INTO t VALUES ('\x61', 3, '\x62', NULL), ('\x', 1, '\x6161', '\x01'), ('\x62', 2, '\x61', NULL), ('\xff00', 2, NULL, '\x02');
INSERT INTO p VALUES ('\x61', 1), ('\x62', 2), (NULL, 3), ('\x63', 4);
INSERT INTO s (a) VALUES (1);
INSERT INTO s VALUES (1, '\x61'), (2, '\x61'), (3, '\x6262')`

// Traps has all traps: mistakes that a simple rewriting makes, each with texts that show the mistake.
var Traps = append(trapCases, trapForms)

func (t Trap) String() string {
	if t.Number == 0 {
		return t.Name
	}
	return fmt.Sprintf("%d, %s", t.Number, t.Name)
}
