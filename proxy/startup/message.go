package startup

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// supportedProtocol returns the newest protocol version that both the client and Sluice support. A version 3.1 does not
// exist.
func supportedProtocol(asked uint32) uint32 {
	if asked < pgproto3.ProtocolVersion32 {
		return pgproto3.ProtocolVersion30
	}
	return pgproto3.ProtocolVersion32
}

// startupMessage is a decoded startup packet.
type startupMessage struct {
	protocol       uint32
	user, database string
	params, spelt  map[string]string // as in Client
	unknown        []string          // _pq_. options, all of them unknown
}

// parseStartup decodes a startup packet as PostgreSQL does.
func parseStartup(packet []byte) (m startupMessage, err error) {
	m.protocol = binary.BigEndian.Uint32(packet)
	if m.protocol>>16 != 3 {
		return m, &wire.Error{Fatal: true, Code: "0A000",
			Message: fmt.Sprintf("unsupported frontend protocol %d.%d: server supports 3.0 to 3.2",
				m.protocol>>16, m.protocol&0xffff)}
	}
	m.params, m.spelt = map[string]string{}, map[string]string{}
	var given [][2]string
	options := ""
	rest := packet[4:]
	for {
		name, after, ok := wire.CutCString(rest)
		if ok && len(name) == 0 && len(after) == 0 {
			break
		}
		value, after, whole := wire.CutCString(after)
		if len(name) == 0 || !whole {
			return m, wire.ProtocolViolation("invalid startup packet layout: expected terminator as last byte")
		}
		rest = after
		switch key := string(name); {
		case key == "user":
			m.user = string(value)
		case key == "database":
			m.database = string(value)
		case key == "options":
			options = string(value)
		case strings.HasPrefix(key, "_pq_."):
			m.unknown = append(m.unknown, key)
		default:
			given = append(given, [2]string{key, string(value)})
		}
	}
	if m.database == "" {
		m.database = m.user
	}
	if err := m.parseOptions(options); err != nil {
		return m, err
	}
	for _, p := range given { // a separate parameter has precedence over options
		m.setParam(p[0], p[1])
	}
	return m, nil
}

// setParam records a setting of the startup packet by its name in lower case, and the client's spelling of the name.
func (m *startupMessage) setParam(name, value string) {
	lower := strings.ToLower(name)
	m.params[lower] = value
	if delete(m.spelt, lower); lower != name {
		m.spelt[lower] = name
	}
}

// parseOptions parses the settings in the startup parameter `options`: -c name=value, -cname=value and --name=value.
// PostgreSQL's other switches are refused.
func (m *startupMessage) parseOptions(options string) error {
	words := splitOptions(options)
	for i := 0; i < len(words); i++ {
		option := words[i]
		setting, ok := strings.CutPrefix(option, "--")
		if !ok {
			if setting, ok = strings.CutPrefix(option, "-c"); ok && setting == "" && i+1 < len(words) {
				i++
				setting = words[i]
			}
		}
		name, value, whole := strings.Cut(setting, "=")
		switch {
		case !ok || name == "":
			return errOption("invalid command-line argument for server process: %s", option)
		case !whole:
			return errOption("%s requires a value", option)
		}
		m.setParam(strings.ReplaceAll(name, "-", "_"), value)
	}
	return nil
}

func errOption(format, option string) *wire.Error {
	return &wire.Error{Fatal: true, Code: "42601", Message: fmt.Sprintf(format, option),
		Hint: "Settings are given as -c name=value or --name=value."}
}

// splitOptions splits options at white space that no backslash precedes. A backslash quotes the next character
// (pg_split_opts of PostgreSQL's postinit.c).
func splitOptions(options string) []string {
	var words []string
	var word []byte
	inWord, escaped := false, false
	for i := range len(options) {
		switch c := options[i]; {
		case escaped:
			word, escaped = append(word, c), false
		case c == '\\':
			inWord, escaped = true, true
		case strings.IndexByte(" \t\n\v\f\r", c) < 0:
			word, inWord = append(word, c), true
		case inWord:
			words, word, inWord = append(words, string(word)), word[:0], false
		}
	}
	if inWord {
		words = append(words, string(word))
	}
	return words
}
