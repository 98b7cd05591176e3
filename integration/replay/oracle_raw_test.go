package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// manner is how a raw speaker uses the extended protocol.
type manner uint8

const (
	// unnamed: Parse, Bind, Describe, Execute, Sync, as node-postgres does.
	unnamed manner = iota
	// flushing: Parse and Describe of a named statement, a Flush, and the rest when
	// that is answered, as asyncpg does.
	flushing
	// portions: a named portal, read row by row with a Flush behind each, as JDBC
	// does with a fetch size.
	portions
)

// rawSpeaker writes and reads messages itself.
type rawSpeaker struct {
	wire
	manner  manner
	front   *pgproto3.Frontend
	key     pgproto3.BackendKeyData
	addr    string
	names   map[string]string // of the statements that are prepared
	made    int
	portals int
}

func rawIn(m manner) func(context.Context, string) (speaker, error) {
	return func(ctx context.Context, dsn string) (speaker, error) {
		u, err := url.Parse(dsn)
		if err != nil {
			return nil, err
		}
		s := &rawSpeaker{manner: m, addr: u.Host, names: make(map[string]string)}
		if _, err := s.dial(ctx, "tcp", u.Host); err != nil {
			return nil, err
		}
		s.front = pgproto3.NewFrontend(s.conn, s.conn)
		s.front.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30,
			Parameters: map[string]string{"user": u.User.Username(), "database": u.Path[1:]}})
		_, err = s.sync(&tale{}, 1)
		return s, err
	}
}

// tale is what was told in a turn so far.
type tale struct {
	answers   []*answer
	current   answer
	failed    error
	described bool
	suspended bool
	synced    int
}

// hear reads one message.
func (s *rawSpeaker) hear(t *tale) error {
	message, err := s.front.Receive()
	if err != nil {
		return err
	}
	switch m := message.(type) {
	case *pgproto3.BackendKeyData:
		s.key = *m
	case *pgproto3.DataRow:
		t.current.rows = append(t.current.rows, texts(m.Values))
	case *pgproto3.CommandComplete:
		t.current.tag = string(m.CommandTag)
		done := t.current
		t.answers, t.current = append(t.answers, &done), answer{}
	case *pgproto3.PortalSuspended:
		t.suspended = true
	case *pgproto3.RowDescription, *pgproto3.NoData:
		t.described = true
	case *pgproto3.ErrorResponse:
		if t.failed == nil {
			t.failed = pgconn.ErrorResponseToPgError(m)
		}
	case *pgproto3.ReadyForQuery:
		t.synced++
	}
	return nil
}

// until hears until something has been told, or failed.
func (s *rawSpeaker) until(t *tale, told func() bool) error {
	for !told() {
		if err := s.hear(t); err != nil {
			return errors.Join(t.failed, err)
		}
	}
	return nil
}

// sync ends a turn; a server that has failed it waits for that.
func (s *rawSpeaker) sync(t *tale, turns int) ([]*answer, error) {
	if err := s.front.Flush(); err != nil {
		return t.answers, err
	}
	if err := s.until(t, func() bool { return t.synced == turns }); err != nil {
		return t.answers, err
	}
	return t.answers, t.failed
}

func (s *rawSpeaker) ask(st *statement) (*answer, error) {
	var answers []*answer
	var err error
	if len(st.args) == 0 && !st.rows {
		answers, err = s.script([]*statement{st})
	} else {
		answers, err = s.group([]*statement{st})
	}
	if err != nil {
		return nil, err
	}
	if len(answers) != 1 {
		return nil, fmt.Errorf("%d answers to one statement", len(answers))
	}
	return answers[0], nil
}

func (s *rawSpeaker) script(all []*statement) ([]*answer, error) {
	s.front.SendQuery(&pgproto3.Query{String: join(all)})
	return s.sync(&tale{}, 1)
}

func (s *rawSpeaker) group(all []*statement) ([]*answer, error) {
	t := &tale{}
	for i, st := range all {
		if t.failed != nil {
			break
		}
		if err := s.say(t, i, st); err != nil {
			return t.answers, err
		}
	}
	s.front.SendSync(&pgproto3.Sync{})
	return s.sync(t, 1)
}

func (s *rawSpeaker) burst(turns [][]*statement) ([]*answer, error) {
	for _, turn := range turns {
		for _, st := range turn {
			s.parse("", st)
			s.bind("", "", st)
			s.front.SendExecute(&pgproto3.Execute{})
		}
		s.front.SendSync(&pgproto3.Sync{})
	}
	return s.sync(&tale{}, len(turns))
}

// say says one statement up to its Execute, in the speaker's manner; index counts
// those of the turn.
func (s *rawSpeaker) say(t *tale, index int, st *statement) error {
	flush := func(told func() bool) error {
		s.front.Send(&pgproto3.Flush{})
		if err := s.front.Flush(); err != nil {
			return err
		}
		return s.until(t, func() bool { return t.failed != nil || told() })
	}
	switch s.manner {
	case flushing:
		name, ok := s.names[st.sql]
		if !ok {
			s.made++ // a name whose Parse may have failed is not used again
			name = fmt.Sprintf("st%d", s.made)
			t.described = false
			s.parse(name, st)
			s.front.SendDescribe(&pgproto3.Describe{ObjectType: 'S', Name: name})
			if err := flush(func() bool { return t.described }); err != nil || t.failed != nil {
				return err
			}
			s.names[st.sql] = name
		}
		s.bind("", name, st)
		s.front.SendExecute(&pgproto3.Execute{})
	case portions:
		s.portals++
		portal := fmt.Sprintf("C_%d", s.portals)
		s.parse("", st)
		s.bind(portal, "", st)
		s.front.SendDescribe(&pgproto3.Describe{ObjectType: 'P', Name: portal})
		if !st.rows || strings.HasPrefix(st.sql, "FETCH") { // whose rows do not come in portions
			s.front.SendExecute(&pgproto3.Execute{Portal: portal})
			break
		}
		for len(t.answers) <= index {
			t.suspended = false
			s.front.SendExecute(&pgproto3.Execute{Portal: portal, MaxRows: 1 + uint32(st.coin>>16%5)})
			if err := flush(func() bool { return t.suspended || len(t.answers) > index }); err != nil || t.failed != nil {
				return err
			}
		}
		s.front.SendClose(&pgproto3.Close{ObjectType: 'P', Name: portal})
	default:
		s.parse("", st)
		s.bind("", "", st)
		s.front.SendDescribe(&pgproto3.Describe{ObjectType: 'P'})
		s.front.SendExecute(&pgproto3.Execute{})
	}
	return nil
}

func (s *rawSpeaker) parse(name string, st *statement) {
	p := &pgproto3.Parse{Name: name, Query: st.sql}
	for _, arg := range st.args {
		oid := uint32(25) // text
		if _, ok := arg.(int); ok {
			oid = 23 // int4
		}
		p.ParameterOIDs = append(p.ParameterOIDs, oid)
	}
	s.front.SendParse(p)
}

// bind gives numbers in binary form.
func (s *rawSpeaker) bind(portal, name string, st *statement) {
	b := &pgproto3.Bind{DestinationPortal: portal, PreparedStatement: name}
	for _, arg := range st.args {
		switch v := arg.(type) {
		case int:
			b.ParameterFormatCodes = append(b.ParameterFormatCodes, 1)
			b.Parameters = append(b.Parameters, binary.BigEndian.AppendUint32(nil, uint32(v)))
		case string:
			b.ParameterFormatCodes = append(b.ParameterFormatCodes, 0)
			b.Parameters = append(b.Parameters, []byte(v))
		}
	}
	s.front.SendBind(b)
}

func (s *rawSpeaker) cancel() {
	conn, err := net.DialTimeout("tcp", s.addr, speakLimit)
	if err != nil {
		return
	}
	defer conn.Close()
	request := &pgproto3.CancelRequest{ProcessID: s.key.ProcessID, SecretKey: s.key.SecretKey}
	if message, err := request.Encode(nil); err == nil {
		_, _ = conn.Write(message) // the daemon may be gone
	}
}

func (s *rawSpeaker) close() {
	s.front.Send(&pgproto3.Terminate{})
	_ = s.front.Flush() // the connection may be gone
	_ = s.conn.Close()
}
