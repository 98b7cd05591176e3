package alter

import "github.com/sluice-proxy/sluice/rewrite/parse"

// OwnedSequence is the sequence of a serial or identity column.
type OwnedSequence struct {
	Column  string
	Options string // the options of its CREATE SEQUENCE, in a form that DSQL takes
}

// CandidateName returns a name that PostgreSQL may give to the sequence of a column in table relation. pass is the
// number of earlier candidates that other relations of the schema have.
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
