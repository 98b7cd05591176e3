package alter

import "github.com/sluice-proxy/sluice/rewrite/parse"

// OwnedSequence is the sequence that Sluice creates for a serial or identity column, which then owns the sequence.
type OwnedSequence struct {
	Column  string
	Options string // the options of CREATE SEQUENCE as SQL, in a form that DSQL accepts
}

// CandidateName returns a name that PostgreSQL may choose for the sequence of the column in table relation. pass counts
// the earlier candidates whose names other relations of the schema have.
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
