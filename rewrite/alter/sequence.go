package alter

import "github.com/sluice-proxy/sluice/rewrite/parse"

// OwnedSequence is the sequence of a serial or identity column.
type OwnedSequence struct {
	Column  string
	Options string // the options of its CREATE SEQUENCE, in a form that DSQL takes
}

// CandidateName returns the name that PostgreSQL gives to the column's sequence. Each pass, counted from 0, returns the
// next name to try when relations of the schema have the earlier ones.
func (s *OwnedSequence) CandidateName(relation string, pass int) string {
	a := AddedConstraint{relation: relation, nameColumns: s.Column, Kind: ownedSequence}
	return a.CandidateName(pass)
}

// CreateSQL returns the statement that creates the column's sequence. name is SQL.
func (s *OwnedSequence) CreateSQL(name string) string { return "CREATE SEQUENCE " + name + s.Options }

// OwnedBySQL returns the statement that makes the column the owner of the sequence. name and table are SQL.
func (s *OwnedSequence) OwnedBySQL(name, table string) string {
	return "ALTER SEQUENCE " + name + " OWNED BY " + table + "." + parse.QuoteIdent(s.Column)
}
