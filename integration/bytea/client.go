package bytea

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Client is a session in one of the two databases that the oracle compares. The stock database is a plain PostgreSQL.
// The mapped database stores bytea keys as text.
type Client struct {
	Conn *pgconn.PgConn
	// Plan returns the text that the server gets instead of a client's text, or the error that the client gets. If Plan
	// is nil, the server gets the client's text.
	Plan func(sql string) (string, error)
	// Mapped means that Conn reaches the mapped database directly, without the proxy that maps its columns. A mapped
	// database stores bytea keys as text.
	Mapped bool
}

// resultColumn describes a column of a result, as the client got the description.
type resultColumn struct {
	name string
	typ  uint32
	size int16
	mod  int32
}

// statementOutcome is the answer that a client got to a statement.
type statementOutcome struct {
	sent   string
	code   string // the SQLSTATE of its error
	reason string
	params []uint32
	fields []resultColumn
	rows   []string
	keys   [][]string // the rows' values
	tag    string
}

// firstOwn is the least oid of a type or table that a user has created.
const firstOwn = 16384

// record is the oid of the type of an anonymous row.
const record = 2249

// runStatement runs a statement and returns its outcome. A returned error is an error of the connection.
func (c *Client) runStatement(ctx context.Context, s statement) (statementOutcome, error) {
	o := statementOutcome{sent: s.text}
	err := c.sendStatement(ctx, s, &o)
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		o.code, o.reason = refused.Code, refused.Message
		return o, nil
	}
	return o, err
}

func (c *Client) sendStatement(ctx context.Context, s statement, o *statementOutcome) error {
	if c.Plan != nil {
		text, err := c.Plan(s.text)
		if err != nil {
			return err
		}
		o.sent = text
	}
	if s.simple {
		results, err := c.Conn.Exec(ctx, o.sent).ReadAll()
		if len(results) > 0 {
			o.addResult(results[0])
		}
		return err
	}
	var given []uint32
	for _, p := range s.params {
		given = append(given, p.oid)
	}
	described, err := c.Conn.Prepare(ctx, "", o.sent, given)
	if err != nil {
		return err
	}
	o.params = described.ParamOIDs
	var values [][]byte
	var formats []int16
	for _, p := range s.params {
		format := int16(0)
		if p.binary {
			format = 1
		}
		values, formats = append(values, p.value), append(formats, format)
	}
	if len(values) != len(o.params) {
		return &pgconn.PgError{Code: "08P01", Message: "the statement has another number of parameters"}
	}
	result := c.Conn.ExecPrepared(ctx, "", values, formats, []int16{s.results}).Read()
	o.addResult(result)
	if o.fields == nil {
		o.setFields(described.Fields)
	}
	return result.Err
}

func (o *statementOutcome) setFields(fields []pgconn.FieldDescription) {
	for _, f := range fields {
		typ := f.DataTypeOID
		if typ >= firstOwn {
			typ = record
		}
		o.fields = append(o.fields, resultColumn{f.Name, typ, f.DataTypeSize, f.TypeModifier})
	}
}

// addResult adds the result of a statement to the outcome.
func (o *statementOutcome) addResult(r *pgconn.Result) {
	o.tag = r.CommandTag.String()
	o.setFields(r.FieldDescriptions)
	for _, row := range r.Rows {
		var values []string
		for i, v := range row {
			switch {
			case v == nil:
				values = append(values, "NULL")
			case r.FieldDescriptions[i].Format == 1 && o.fields[i].typ == record:
				// This text replaces the value of an anonymous row in binary format. The value contains the types of its columns,
				// which differ in the two databases.
				values = append(values, fmt.Sprintf("a row of %d values", v[3]))
			default:
				values = append(values, fmt.Sprintf("%q", v))
			}
		}
		o.keys = append(o.keys, values)
		o.rows = append(o.rows, strings.Join(values, " | "))
	}
}

// tableRows returns the rows of a table, in no particular order.
func (c *Client) tableRows(ctx context.Context, t *Table) ([]string, error) {
	text := "SELECT * FROM public." + QuoteIdent(t.Name) // a call can have hidden the search path
	if c.Mapped && t.Of == nil {
		var all []string
		for i := range t.Columns {
			all = append(all, t.Columns[i].readExpression(true))
		}
		text = "SELECT " + strings.Join(all, ", ") + " FROM " + QuoteIdent(t.Name)
	}
	var o statementOutcome
	result := c.Conn.ExecParams(ctx, text, nil, nil, nil, nil).Read()
	o.addResult(result)
	if e, ok := errors.AsType[*pgconn.PgError](result.Err); ok {
		return nil, fmt.Errorf("%s: %w (%s)", text, e, e.Detail)
	}
	return o.rows, result.Err
}
