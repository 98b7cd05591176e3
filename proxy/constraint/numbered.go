package constraint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// This file performs CREATE TABLE with serial columns (rewrite.SerialTable). The statement itself is sent first. If the
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
// If the server refuses such a step (0A000), Sluice creates the table with identity columns of bigint, if that is
// allowed. Columns that refer to such a column also become bigint, and the client gets a NOTICE.

// SerialTableCreator is a running CREATE TABLE with serial columns.
type SerialTableCreator struct {
	*rewrite.SerialTable
	Notices [][]byte // sent to the client before the tag

	server Server
	schema string // schema of the table
	wide   []bool // which of Narrow become bigint
	made   []madeObject
}

// NewSerialTableCreator returns a SerialTableCreator that executes st.
func NewSerialTableCreator(server Server, st *rewrite.SerialTable) *SerialTableCreator {
	n := &SerialTableCreator{server: server, SerialTable: st, wide: make([]bool, len(st.Narrow))}
	for i := range st.Narrow {
		n.wide[i] = st.Narrow[i].OwnWide
	}
	return n
}

// unknownType is the SQLSTATE of an unknown type.
const unknownType = "42704"

// Run sends the CREATE TABLE to the server. If the server refuses it, Run performs it by other statements.
func (n *SerialTableCreator) Run() error {
	if n.IfNotExists { // the server's NOTICE would not reach the client
		if there, err := n.lookUpRelation(); err != nil || there {
			return err
		}
	}
	if err := n.findWidenedKeys(); err != nil {
		return err
	}
	if !n.HasSequences() {
		return n.createWithIdentities()
	}
	if !slices.Contains(n.wide, true) {
		err := n.server.Ask(n.ServerSerialSQL(), nil)
		told := n.server.RefusalFrom(err)
		if told == nil || told.Code != retry.StateUnsupported && told.Code != unknownType {
			return err
		}
	}
	there, err := n.lookUpRelation()
	if err != nil || there {
		return err
	}
	err = n.runSteps()
	if err == nil {
		n.noticeWidened()
		return nil
	}
	if err = n.dropMadeObjects(err); !n.canUseIdentity(err) {
		return err
	}
	return n.createWithIdentities()
}

// canUseIdentity reports whether identity columns may replace sequences, after the server has refused the sequences
// with err.
func (n *SerialTableCreator) canUseIdentity(err error) bool {
	told := n.server.RefusalFrom(err)
	return told != nil && told.Code == retry.StateUnsupported && n.Identity && len(n.made) == 0
}

// createWithIdentities creates the table with identity columns of bigint instead of serial columns.
func (n *SerialTableCreator) createWithIdentities() error {
	err := n.server.Ask(n.CreateWithIdentities(n.wide), nil)
	if err == nil {
		for i := range n.Narrow {
			n.wide[i] = n.wide[i] || n.Narrow[i].OwnKey
		}
		for _, column := range n.Widens {
			n.addNotice(fmt.Sprintf("column \"%s\" of table \"%s\" is bigint, and wider than declared", column, n.Relation), "It is an identity column, which a cluster has of bigint only.")
		}
		n.noticeWidened()
	}
	return err
}

// findWidenedKeys finds the table's columns that refer to a key which is wider than declared.
func (n *SerialTableCreator) findWidenedKeys() error {
	for i := range n.Narrow {
		for _, key := range n.Narrow[i].Refers {
			wide, err := isWidenedKey(n.server, key)
			if err != nil {
				return err
			}
			n.wide[i] = n.wide[i] || wide
		}
	}
	return nil
}

// isWidenedKey reports whether a referred key is a bigint identity that replaces a smaller type. Such an identity
// has the smaller type's maximum.
func isWidenedKey(server Server, key rewrite.ReferredKey) (wide bool, err error) {
	of := fmt.Sprintf("a.attnum = (SELECT p.conkey[%d] FROM pg_catalog.pg_constraint p WHERE p.conrelid = a.attrelid AND p.contype = 'p')", key.Nth)
	if key.Column != "" {
		of = "a.attname = " + quoteLiteral(key.Column)
	}
	err = server.Ask(`SELECT s.seqmax FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_depend d ON d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype = 'i'`+
		` AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = d.classid JOIN pg_catalog.pg_sequence s ON s.seqrelid = d.objid`+
		` WHERE a.attrelid = pg_catalog.to_regclass(`+quoteLiteral(key.Table)+`) AND a.attidentity <> '' AND a.atttypid = 'pg_catalog.int8'::pg_catalog.regtype`+
		` AND s.seqmax IN (32767, 2147483647, -1) AND (s.seqmax > 0 OR s.seqmin IN (-32768, -2147483648)) AND `+of,
		func([]string) { wide = true })
	return wide, err
}

// noticeWidened adds a notice for each foreign-key column that became bigint.
func (n *SerialTableCreator) noticeWidened() {
	for i := range n.Narrow {
		if n.wide[i] {
			n.addNotice(fmt.Sprintf("column \"%s\" of table \"%s\" is bigint, and wider than declared", n.Narrow[i].Column, n.Relation),
				"It refers to an identity column, which is bigint: clients that compare types would not find its rows.")
		}
	}
}

// addNotice adds a NOTICE for the client, which gets the NOTICE before the tag.
func (n *SerialTableCreator) addNotice(message, detail string) {
	notice := &wire.Error{Code: "00000", Message: message, Detail: detail, Hint: rewrite.SerialKey + " says when that is so."}
	n.Notices = append(n.Notices, notice.AppendNotice(nil, "NOTICE"))
}

// lookUpRelation looks up the table's schema, and whether a relation has the table's name already. For an existing
// relation lookUpRelation returns an error or adds a notice.
func (n *SerialTableCreator) lookUpRelation() (there bool, err error) {
	schema := "pg_catalog.current_schema()"
	if n.Schema != "" {
		schema = quoteLiteral(n.Schema)
	}
	known := false
	err = n.server.Ask(`SELECT s.nspname, EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.relnamespace = s.oid AND c.relname = `+quoteLiteral(n.Relation)+`)`+
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
		return true, n.existsError()
	}
	return false, nil
}

// existsError returns PostgreSQL's error for an existing relation. With IF NOT EXISTS, existsError adds PostgreSQL's
// notice instead.
func (n *SerialTableCreator) existsError() error {
	message := fmt.Sprintf("relation \"%s\" already exists", n.Relation)
	if !n.IfNotExists {
		return &wire.Error{Code: takenRelation, Message: message}
	}
	skipped := &wire.Error{Code: takenRelation, Message: message + ", skipping"}
	n.Notices = append(n.Notices, skipped.AppendNotice(nil, "NOTICE"))
	return nil
}

// runSteps creates the sequences and the table, and makes the table's columns own the sequences.
func (n *SerialTableCreator) runSteps() error {
	var names []string
	for i := range n.Sequences {
		if err := n.server.CheckMayContinue(); err != nil {
			return err
		}
		name, err := n.createSequence(&n.Sequences[i])
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := n.server.CheckMayContinue(); err != nil {
		return err
	}
	table := quoteIdent(n.schema) + "." + quoteIdent(n.Relation)
	err := n.createObject(n.CreateWithSequences(names, n.wide), madeObject{what: fmt.Sprintf("table \"%s\"", n.Relation), undo: "DROP TABLE " + table})
	if told := n.server.RefusalFrom(err); told != nil && told.Code == takenRelation && told.Message == n.existsMessage() && n.IfNotExists {
		if err = n.dropMadeObjects(err); n.server.RefusalFrom(err) == told {
			return n.existsError()
		}
	}
	if err != nil {
		return err
	}
	for i := range n.Sequences {
		if err := n.server.Ask(n.Sequences[i].OwnedBySQL(names[i], table), nil); err != nil {
			return err
		}
	}
	return nil
}

// existsMessage returns PostgreSQL's message for a CREATE TABLE whose relation exists already.
func (n *SerialTableCreator) existsMessage() string {
	return fmt.Sprintf("relation \"%s\" already exists", n.Relation)
}

// createSequence creates the sequence of a serial column under the first free name that PostgreSQL would choose.
// createSequence returns the sequence's SQL name.
func (n *SerialTableCreator) createSequence(s *alter.OwnedSequence) (name string, err error) {
	return createFreeSequence(n.server, s, n.schema, n.Relation, func(name, candidate string) error {
		return n.createObject(s.CreateSQL(name), madeObject{what: fmt.Sprintf("sequence \"%s\"", candidate), undo: "DROP SEQUENCE " + name})
	})
}

// createFreeSequence calls create with names in a schema, in PostgreSQL's order, until one is free. createFreeSequence
// returns that sequence's SQL name.
func createFreeSequence(server Server, s *alter.OwnedSequence, schema, relation string, create func(name, candidate string) error) (name string, err error) {
	for pass := 0; ; pass += candidates {
		names, err := freeNames(server, s, schema, relation, pass)
		if err != nil {
			return "", err
		}
		for _, candidate := range names {
			name = quoteIdent(schema) + "." + quoteIdent(candidate)
			err := create(name, candidate)
			if told := server.RefusalFrom(err); told == nil || told.Code != takenRelation && !isConcurrentChange(told) {
				return name, err
			}
		}
	}
}

// freeNames returns the names that PostgreSQL would choose for a sequence and that no relation in the schema has.
func freeNames(server Server, s *alter.OwnedSequence, schema, relation string, pass int) (names []string, err error) {
	list := make([]string, candidates)
	for i := range candidates {
		names = append(names, s.CandidateName(relation, pass+i))
		list[i] = quoteLiteral(names[i])
	}
	err = server.Ask(`SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = `+quoteLiteral(schema)+
		` AND c.relname IN (`+strings.Join(list, ", ")+`)`, func(v []string) {
		names = slices.DeleteFunc(names, func(name string) bool { return name == firstValue(v) })
	})
	return names, err
}

// createObject sends a statement that creates an object. The object is recorded first, because its existence is unknown
// after a lost connection.
func (n *SerialTableCreator) createObject(sql string, t madeObject) error {
	n.made = append(n.made, t)
	err := n.server.Ask(sql, nil)
	if err != nil && n.server.ChangedNothing(err) {
		n.made = n.made[:len(n.made)-1]
	}
	return err
}

// dropMadeObjects drops the objects that the statement has created, the last first. dropMadeObjects returns why, the
// reason that the statement failed, or the error of a lost server. If an object cannot be dropped, it stays in made,
// with the objects before it.
func (n *SerialTableCreator) dropMadeObjects(why error) error {
	if !n.server.ChangedNothing(why) {
		return why
	}
	n.server.ConsumeCancel(why)
	for len(n.made) > 0 {
		t, rows := n.made[len(n.made)-1], false
		err := error(nil)
		if table, is := strings.CutPrefix(t.undo, "DROP TABLE "); is { // its rows belong to other clients
			err = n.server.Ask("SELECT 1 FROM "+table+" LIMIT 1", func([]string) { rows = true })
		}
		if err == nil && !rows {
			err = n.server.Ask(t.undo, nil)
		}
		told := n.server.RefusalFrom(err)
		switch {
		case err != nil && !n.server.ChangedNothing(err):
			return err
		case rows, err != nil && (told == nil || !slices.Contains(notThere, told.Code)):
			return why
		}
		n.made = n.made[:len(n.made)-1]
	}
	return why
}

// WithPartialResult adds to an error the objects that the failed statement has left.
func (n *SerialTableCreator) WithPartialResult(err error) error {
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

// noticeNarrowColumns warns about columns of a FOREIGN KEY that are narrower than the referred key: int or smallint,
// while the key is a bigint identity that replaces a smaller type. An existing column retains its type.
// noticeNarrowColumns ignores a refusal by the server.
func (c *ConstraintAdder) noticeNarrowColumns(name string) error {
	var columns []string
	err := c.server.Ask(`SELECT a.attname FROM pg_catalog.pg_constraint p CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(p.conkey), pg_catalog.unnest(p.confkey)) AS k (c, f)`+
		` JOIN pg_catalog.pg_attribute a ON a.attrelid = p.conrelid AND a.attnum = k.c JOIN pg_catalog.pg_attribute b ON b.attrelid = p.confrelid AND b.attnum = k.f`+
		` JOIN pg_catalog.pg_depend d ON d.refobjid = b.attrelid AND d.refobjsubid = b.attnum AND d.deptype = 'i' AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = d.classid`+
		` JOIN pg_catalog.pg_sequence s ON s.seqrelid = d.objid WHERE p.conrelid = `+c.oid+` AND p.conname = `+quoteLiteral(name)+` AND p.contype = 'f'`+
		` AND a.atttypid IN ('pg_catalog.int2'::pg_catalog.regtype, 'pg_catalog.int4'::pg_catalog.regtype) AND b.attidentity <> '' AND b.atttypid = 'pg_catalog.int8'::pg_catalog.regtype`+
		` AND s.seqmax IN (32767, 2147483647) ORDER BY k.c`, func(v []string) { columns = append(columns, firstValue(v)) })
	for _, column := range columns {
		notice := &wire.Error{Code: "00000", Message: fmt.Sprintf("column \"%s\" of table \"%s\" is narrower than the key that it refers to", column, c.table),
			Detail: "The key is an identity column, which is bigint: clients that compare types do not find its rows.",
			Hint:   fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE bigint, where %s is rewrite; or see %s.", c.Table, quoteIdent(column), alter.RetypeKey, rewrite.SerialKey)}
		c.Notices = append(c.Notices, notice.AppendNotice(nil, "NOTICE"))
	}
	if c.server.RefusalFrom(err) != nil {
		return nil
	}
	return err
}
