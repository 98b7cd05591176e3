package dialect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// defineCache ends the refusals of sequences and identity columns.
const defineCache = "please define CACHE greater than or equal to 65536 or equal to 1"

// manyCached is the least CACHE above 1 that DSQL takes.
const manyCached = 65536

func indexForm(q *question) *Refusal {
	i := q.node.GetIndexStmt()
	switch {
	case i.Concurrent:
		return refuse("CONCURRENTLY not supported for CREATE INDEX")
	case !q.async:
		return refuse("unsupported mode. please use CREATE INDEX ASYNC.")
	case draw(q.text).clues&sawUsing != 0: // the tree says btree either way
		return refuse("USING not supported for CREATE INDEX")
	}
	for _, n := range i.IndexParams {
		e := n.GetIndexElem()
		switch {
		case e.Ordering != pg.SortByDir_SORTBY_DEFAULT:
			return refuse("specifying sort order not supported for index keys")
		case len(e.Opclass) > 0:
			return refuse("opclass not supported for index keys")
		}
	}
	return nil
}

func sequence(q *question) *Refusal {
	s := q.node.GetCreateSeqStmt()
	if s.Sequence.Relpersistence == "t" {
		return refuse("TEMPORARY or TEMP sequence not supported for CREATE SEQUENCE")
	}
	if !cached(s.Options) {
		return refuse("CREATE SEQUENCE is not supported without an explicit cache size. " + defineCache)
	}
	return nil
}

// cached tells whether the options of a sequence say a CACHE that DSQL takes.
func cached(options []*pg.Node) bool {
	for _, n := range options {
		e := n.GetDefElem()
		if e.GetDefname() != "cache" {
			continue
		}
		size := e.Arg.GetInteger().GetIval()
		// A size beyond 32 bits is a Float to the parser.
		return size == 1 || size >= manyCached || e.Arg.GetFloat() != nil
	}
	return false
}

func temporaryView(q *question) *Refusal {
	if q.node.GetViewStmt().View.Relpersistence == "t" {
		return refuse("TEMPORARY or TEMP view not supported for CREATE VIEW")
	}
	return nil
}

func function(q *question) *Refusal {
	f := q.node.GetCreateFunctionStmt()
	if f.IsProcedure {
		return refuse("PROCEDURE is not supported")
	}
	for _, n := range f.Options {
		e := n.GetDefElem()
		if language := strings.ToLower(e.Arg.GetString_().GetSval()); e.Defname == "language" && language != "sql" {
			return refuse("CREATE FUNCTION with language " + language + " not supported")
		}
	}
	return nil
}

func systemGrant(q *question) *Refusal {
	g := q.node.GetGrantStmt()
	if g.Objtype != pg.ObjectType_OBJECT_SCHEMA {
		return nil
	}
	for _, n := range g.Objects {
		if n.GetString_().GetSval() == "public" {
			return refuse("feature not supported on system entity")
		}
	}
	return nil
}
