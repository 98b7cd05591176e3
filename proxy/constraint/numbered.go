package constraint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file performs CREATE TABLE with serial columns (rewrite.Numbered). The statement itself is sent first. If the
// server refuses it, these are the steps, each in its own transaction:
//
//	look       finds an existing relation of the name, and names that are free for sequences
//	sequence   creates one for each serial column
//	table      creates the table, with DEFAULT nextval
//	own        makes the columns own the sequences (OWNED BY)
//
// If a step fails, the objects that were created are dropped, the last first. The table is dropped only if it has no
// rows.
//
// If the server refuses a step (0A000), the table is created with identity columns of bigint instead, if that is
// allowed. Columns that refer to such a key also become bigint, and the client gets a NOTICE.

// Numbered is a running CREATE TABLE with serial columns.
type Numbered struct {
	*rewrite.Numbered
	Notices [][]byte // sent to the client before the tag

	server Server
	schema string // schema of the table
	wide   []bool // which of Narrow become bigint
	made   []thing
}

// NewNumbered returns a Numbered that executes st.
func NewNumbered(server Server, st *rewrite.Numbered) *Numbered {
	n := &Numbered{server: server, Numbered: st, wide: make([]bool, len(st.Narrow))}
	for i := range st.Narrow {
		n.wide[i] = st.Narrow[i].OwnWide
	}
	return n
}

// unknownType is the SQLSTATE of an unknown type.
const unknownType = "42704"

// Run sends the CREATE TABLE to the server, and performs it in steps if the server refuses it.
func (n *Numbered) Run() error {
	if n.IfNotExists { // the server's NOTICE would not reach the client
		if there, err := n.relation(); err != nil || there {
			return err
		}
	}
	if err := n.look(); err != nil {
		return err
	}
	if !n.HasSequences() {
		return n.withIdentities()
	}
	if !slices.Contains(n.wide, true) {
		err := n.server.Ask(n.ByServer(), nil)
		told := n.server.Refused(err)
		if told == nil || told.Code != retry.StateUnsupported && told.Code != unknownType {
			return err
		}
	}
	there, err := n.relation()
	if err != nil || there {
		return err
	}
	err = n.steps()
	if err == nil {
		n.tellWide()
		return nil
	}
	if err = n.takeBack(err); !n.mayBeIdentity(err) {
		return err
	}
	return n.withIdentities()
}

// mayBeIdentity reports whether identity columns may replace sequences, after the server has refused the sequences with
// err.
func (n *Numbered) mayBeIdentity(err error) bool {
	told := n.server.Refused(err)
	return told != nil && told.Code == retry.StateUnsupported && n.Identity && len(n.made) == 0
}

// withIdentities creates the table with identity columns of bigint instead of serial columns.
func (n *Numbered) withIdentities() error {
	err := n.server.Ask(n.WithIdentities(n.wide), nil)
	if err == nil {
		for i := range n.Narrow {
			n.wide[i] = n.wide[i] || n.Narrow[i].OwnKey
		}
		for _, column := range n.Widens {
			n.notice(fmt.Sprintf("column \"%s\" of table \"%s\" is bigint, and wider than declared", column, n.Relation), "It is an identity column, which a cluster has of bigint only.")
		}
		n.tellWide()
	}
	return err
}

// look finds the table's columns that refer to a key which is wider than declared.
func (n *Numbered) look() error {
	for i := range n.Narrow {
		for _, key := range n.Narrow[i].Refers {
			wide, err := widened(n.server, key)
			if err != nil {
				return err
			}
			n.wide[i] = n.wide[i] || wide
		}
	}
	return nil
}

// widened reports whether a referred key is a bigint identity that replaces a smaller type. The identity's maximum is
// then that of the smaller type.
func widened(server Server, key rewrite.ReferredKey) (wide bool, err error) {
	of := fmt.Sprintf("a.attnum = (SELECT p.conkey[%d] FROM pg_catalog.pg_constraint p WHERE p.conrelid = a.attrelid AND p.contype = 'p')", key.Nth)
	if key.Column != "" {
		of = "a.attname = " + literal(key.Column)
	}
	err = server.Ask(`SELECT s.seqmax FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_depend d ON d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype = 'i'`+
		` AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = d.classid JOIN pg_catalog.pg_sequence s ON s.seqrelid = d.objid`+
		` WHERE a.attrelid = pg_catalog.to_regclass(`+literal(key.Table)+`) AND a.attidentity <> '' AND a.atttypid = 'pg_catalog.int8'::pg_catalog.regtype`+
		` AND s.seqmax IN (32767, 2147483647, -1) AND (s.seqmax > 0 OR s.seqmin IN (-32768, -2147483648)) AND `+of,
		func([]string) { wide = true })
	return wide, err
}

// tellWide adds a notice for each foreign-key column that became bigint.
func (n *Numbered) tellWide() {
	for i := range n.Narrow {
		if n.wide[i] {
			n.notice(fmt.Sprintf("column \"%s\" of table \"%s\" is bigint, and wider than declared", n.Narrow[i].Column, n.Relation),
				"It refers to an identity column, which is bigint: clients that compare types would not find its rows.")
		}
	}
}

// notice adds a NOTICE for the client, which gets it before the tag.
func (n *Numbered) notice(message, detail string) {
	notice := &wire.Error{Code: "00000", Message: message, Detail: detail, Hint: rewrite.SerialKey + " says when that is so."}
	n.Notices = append(n.Notices, notice.AppendNotice(nil, "NOTICE"))
}

// relation looks up the table's schema, and whether a relation has the table's name already. For an existing relation
// it returns an error or adds a notice.
func (n *Numbered) relation() (there bool, err error) {
	schema := "pg_catalog.current_schema()"
	if n.Schema != "" {
		schema = literal(n.Schema)
	}
	known := false
	err = n.server.Ask(`SELECT s.nspname, EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.relnamespace = s.oid AND c.relname = `+literal(n.Relation)+`)`+
		` FROM pg_catalog.pg_namespace s WHERE s.nspname = `+schema, func(v []string) {
		if len(v) == 2 {
			known, n.schema, there = true, v[0], v[1] == "t"
		}
	})
	switch {
	case err != nil:
		return false, err
	case !known && n.Schema != "":
		return false, &wire.Error{Code: "3F000", Message: fmt.Sprintf("schema \"%s\" does not exist", n.Schema)}
	case !known:
		return false, &wire.Error{Code: "3F000", Message: "no schema has been selected to create in"}
	case there:
		return true, n.exists()
	}
	return false, nil
}

// exists returns PostgreSQL's error for an existing relation. With IF NOT EXISTS, exists adds PostgreSQL's notice
// instead.
func (n *Numbered) exists() error {
	message := fmt.Sprintf("relation \"%s\" already exists", n.Relation)
	if !n.IfNotExists {
		return &wire.Error{Code: takenRelation, Message: message}
	}
	skipped := &wire.Error{Code: takenRelation, Message: message + ", skipping"}
	n.Notices = append(n.Notices, skipped.AppendNotice(nil, "NOTICE"))
	return nil
}

// steps creates the sequences and the table, and makes the table's columns own the sequences.
func (n *Numbered) steps() error {
	var names []string
	for i := range n.Sequences {
		if err := n.server.More(); err != nil {
			return err
		}
		name, err := n.sequence(&n.Sequences[i])
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := n.server.More(); err != nil {
		return err
	}
	table := quoted(n.schema) + "." + quoted(n.Relation)
	err := n.make(n.WithSequences(names, n.wide), thing{what: fmt.Sprintf("table \"%s\"", n.Relation), undo: "DROP TABLE " + table})
	if told := n.server.Refused(err); told != nil && told.Code == takenRelation && told.Message == n.taken() && n.IfNotExists {
		if err = n.takeBack(err); n.server.Refused(err) == told {
			return n.exists()
		}
	}
	if err != nil {
		return err
	}
	for i := range n.Sequences {
		if err := n.server.Ask(n.Sequences[i].Own(names[i], table), nil); err != nil {
			return err
		}
	}
	return nil
}

// taken returns PostgreSQL's message for a CREATE TABLE whose relation exists already.
func (n *Numbered) taken() string { return fmt.Sprintf("relation \"%s\" already exists", n.Relation) }

// sequence creates the sequence of a serial column under the first free name that PostgreSQL would choose. It returns
// the sequence's SQL name.
func (n *Numbered) sequence(s *rewrite.OwnedSequence) (name string, err error) {
	return sequence(n.server, s, n.schema, n.Relation, func(name, candidate string) error {
		return n.make(s.Create(name), thing{what: fmt.Sprintf("sequence \"%s\"", candidate), undo: "DROP SEQUENCE " + name})
	})
}

// sequence calls create with names in a schema, in PostgreSQL's order, until one is free. It returns that sequence's
// SQL name.
func sequence(server Server, s *rewrite.OwnedSequence, schema, relation string, create func(name, candidate string) error) (name string, err error) {
	for pass := 0; ; pass += candidates {
		names, err := free(server, s, schema, relation, pass)
		if err != nil {
			return "", err
		}
		for _, candidate := range names {
			name = quoted(schema) + "." + quoted(candidate)
			err := create(name, candidate)
			if told := server.Refused(err); told == nil || told.Code != takenRelation && !meets(told) {
				return name, err
			}
		}
	}
}

// free returns the names that PostgreSQL would choose for a sequence and that no relation in the schema has.
func free(server Server, s *rewrite.OwnedSequence, schema, relation string, pass int) (names []string, err error) {
	list := make([]string, candidates)
	for i := range candidates {
		names = append(names, s.Candidate(relation, pass+i))
		list[i] = literal(names[i])
	}
	err = server.Ask(`SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = `+literal(schema)+
		` AND c.relname IN (`+strings.Join(list, ", ")+`)`, func(v []string) {
		names = slices.DeleteFunc(names, func(name string) bool { return name == firstOf(v) })
	})
	return names, err
}

// make sends a statement that creates an object. The object is recorded first, because its existence is unknown after a
// lost connection.
func (n *Numbered) make(sql string, t thing) error {
	n.made = append(n.made, t)
	err := n.server.Ask(sql, nil)
	if err != nil && n.server.Undone(err) {
		n.made = n.made[:len(n.made)-1]
	}
	return err
}

// takeBack drops the objects that the statement has created, the last first. takeBack returns why, the reason that the
// statement failed, or the error of a lost server. If an object cannot be dropped, it stays in made, with the objects
// before it.
func (n *Numbered) takeBack(why error) error {
	if !n.server.Undone(why) {
		return why
	}
	n.server.Heed(why)
	for len(n.made) > 0 {
		t, rows := n.made[len(n.made)-1], false
		err := error(nil)
		if table, is := strings.CutPrefix(t.undo, "DROP TABLE "); is { // its rows belong to other clients
			err = n.server.Ask("SELECT 1 FROM "+table+" LIMIT 1", func([]string) { rows = true })
		}
		if err == nil && !rows {
			err = n.server.Ask(t.undo, nil)
		}
		told := n.server.Refused(err)
		switch {
		case err != nil && !n.server.Undone(err):
			return err
		case rows, err != nil && (told == nil || !slices.Contains(notThere, told.Code)):
			return why
		}
		n.made = n.made[:len(n.made)-1]
	}
	return why
}

// Partly adds to an error the objects that the failed statement has left.
func (n *Numbered) Partly(err error) error {
	told, ok := err.(*wire.Error)
	if !ok || told.Fatal || len(n.made) == 0 {
		return err
	}
	var what, undo []string
	for _, t := range slices.Backward(n.made) {
		what, undo = append(what, t.what), append(undo, t.undo)
	}
	verb := "stands"
	if told.Code == unknownOutcome {
		verb = "may stand"
	}
	with := *told
	with.Detail = strings.TrimSpace(fmt.Sprintf("%s Of what the statement makes there %s: %s.", told.Detail, verb, strings.Join(what, "; ")))
	with.Hint = "Take it back, and send the statement again: " + strings.Join(undo, "; ") + "."
	return &with
}

// tellNarrow warns about columns of a FOREIGN KEY that are narrower than the referred key: int or smallint, while the
// key is a bigint identity that replaces a smaller type. An existing column retains its type. tellNarrow ignores a
// refusal by the server.
func (c *Work) tellNarrow(name string) error {
	var columns []string
	err := c.server.Ask(`SELECT a.attname FROM pg_catalog.pg_constraint p CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(p.conkey), pg_catalog.unnest(p.confkey)) AS k (c, f)`+
		` JOIN pg_catalog.pg_attribute a ON a.attrelid = p.conrelid AND a.attnum = k.c JOIN pg_catalog.pg_attribute b ON b.attrelid = p.confrelid AND b.attnum = k.f`+
		` JOIN pg_catalog.pg_depend d ON d.refobjid = b.attrelid AND d.refobjsubid = b.attnum AND d.deptype = 'i' AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = d.classid`+
		` JOIN pg_catalog.pg_sequence s ON s.seqrelid = d.objid WHERE p.conrelid = `+c.oid+` AND p.conname = `+literal(name)+` AND p.contype = 'f'`+
		` AND a.atttypid IN ('pg_catalog.int2'::pg_catalog.regtype, 'pg_catalog.int4'::pg_catalog.regtype) AND b.attidentity <> '' AND b.atttypid = 'pg_catalog.int8'::pg_catalog.regtype`+
		` AND s.seqmax IN (32767, 2147483647) ORDER BY k.c`, func(v []string) { columns = append(columns, firstOf(v)) })
	for _, column := range columns {
		notice := &wire.Error{Code: "00000", Message: fmt.Sprintf("column \"%s\" of table \"%s\" is narrower than the key that it refers to", column, c.table),
			Detail: "The key is an identity column, which is bigint: clients that compare types do not find its rows.",
			Hint:   fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE bigint, where %s is rewrite; or see %s.", c.Table, quoted(column), rewrite.RetypeKey, rewrite.SerialKey)}
		c.Notices = append(c.Notices, notice.AppendNotice(nil, "NOTICE"))
	}
	if c.server.Refused(err) != nil {
		return nil
	}
	return err
}
