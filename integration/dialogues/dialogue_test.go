package dialogues

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// dialogue is what two or three clients do in turn.
type dialogue struct {
	// fault is planned at the stand-in before the first step; JSON, or empty.
	fault string
	steps []step
}

// step is what one party does before another does something.
type step struct {
	who    string // a, b, c: a client; x: the outsider
	op     string // frames, connect, end, quit, vanish; of the outsider: sql, replace
	arg    string // of connect: startup parameters; of sql: the text
	frames []frame
	// cancel sends a cancel request behind the frames, after so many milliseconds.
	cancel int
	// times is how often all frames but the last are there; 0: once.
	times int
	// half closes the client's half of the connection behind the frames.
	half bool
}

// frame is one message of a client.
type frame struct {
	verb   byte     // Q P B D E C H S; d c f of a COPY
	kind   byte     // of D and C: S or P
	name   string   // of a statement, or of a portal for B, E, D P and C P
	from   string   // of B: the statement
	parts  []string // of Q: the statements of the string; of P: its one
	values []string // of B; \N is NULL
	rows   int      // of E
}

// lookMacro stands for the text of look in a script.
const lookMacro = "{look}"

// noCancel is step.cancel of a step that cancels nothing.
const noCancel = -1

// settled is the dialogue with a Sync of each client that has not ended what it sent last,
// where it connects again and at the end: what a server does with frames that nothing follows
// is a matter of time, and what the Sync is answered is a part of the dialogue.
func (d dialogue) settled() dialogue {
	all := dialogue{fault: d.fault}
	open := map[string]step{} // what each client has sent last, where that has no end
	sync := func(who string) {
		if s, ok := open[who]; ok {
			all.steps = append(all.steps, step{who: who, op: s.op, frames: []frame{{verb: 'S'}}, cancel: noCancel})
			delete(open, who)
		}
	}
	for _, s := range d.steps {
		f := s.frames
		switch {
		case s.op == "connect", s.op == "end":
			sync(s.who)
		case len(f) > 0 && f[len(f)-1].verb != 'S' && f[len(f)-1].verb != 'Q':
			open[s.who] = s
		default:
			delete(open, s.who)
		}
		all.steps = append(all.steps, s)
	}
	for _, who := range slices.Sorted(maps.Keys(open)) {
		sync(who)
	}
	return all
}

func (d dialogue) String() string {
	var b strings.Builder
	if d.fault != "" {
		fmt.Fprintf(&b, "fault %s\n", d.fault)
	}
	for _, s := range d.steps {
		b.WriteString(s.String())
	}
	return b.String()
}

func (s step) String() string {
	if s.op != "frames" {
		return strings.TrimRight(fmt.Sprintf("%s %s %s", s.who, s.op, escape(s.arg)), " ") + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s", s.who)
	frames := s.frames
	if s.times > 1 {
		fmt.Fprintf(&b, " x%d", s.times)
		frames = append(slices.Clone(frames[:(len(frames)-1)/s.times]), frames[len(frames)-1])
	}
	for _, f := range frames {
		fmt.Fprintf(&b, " [%s]", f)
	}
	if s.cancel != noCancel {
		fmt.Fprintf(&b, " cancel %d", s.cancel)
	}
	if s.half {
		b.WriteString(" half")
	}
	return b.String() + "\n"
}

// String is the frame as a script has it; "-" is the empty name.
func (f frame) String() string {
	named := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	switch f.verb {
	case 'Q':
		return "Q " + strings.Replace(escape(f.sql()), escape(look), lookMacro, 1)
	case 'P':
		return "P " + named(f.name) + " | " + escape(f.sql())
	case 'B':
		text := "B " + named(f.name) + " | " + named(f.from)
		for _, v := range f.values {
			text += " | " + escape(v)
		}
		return text
	case 'E':
		if f.rows > 0 {
			return fmt.Sprintf("E %s %d", named(f.name), f.rows)
		}
		return "E " + named(f.name)
	case 'd', 'f':
		return string(f.verb) + " " + escape(f.name)
	case 'D', 'C':
		return fmt.Sprintf("%c %c %s", f.verb, f.kind, named(f.name))
	}
	return string(f.verb)
}

func (f frame) sql() string { return strings.Join(f.parts, "; ") }

// escape writes bytes that are not printable ASCII, and brackets, as \xNN.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '[' || c == ']' {
			fmt.Fprintf(&b, `\x%02x`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && s[i+1] == 'x' {
			if n, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// parseDialogue reads a script as String writes it; # begins a comment line.
func parseDialogue(script string) (d dialogue, err error) {
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		who, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || line[0] == '#':
		case who == "fault":
			d.fault = rest
		case strings.HasPrefix(rest, "[") || repeated.MatchString(rest):
			s := step{who: who, op: "frames", cancel: noCancel}
			if n := repeated.FindStringSubmatch(rest); n != nil {
				s.times, _ = strconv.Atoi(n[1])
				rest = rest[len(n[0])-1:]
			}
			for strings.HasPrefix(rest, "[") {
				text, after, ok := strings.Cut(rest[1:], "]")
				if !ok {
					return d, fmt.Errorf("no ] in %q", line)
				}
				f, err := parseFrame(text)
				if err != nil {
					return d, err
				}
				s.frames = append(s.frames, f)
				rest = strings.TrimSpace(after)
			}
			s.half = rest == "half"
			if n := len(s.frames) - 1; s.times > 1 {
				s.frames = append(slices.Repeat(s.frames[:n], s.times), s.frames[n])
			}
			if n, ok := strings.CutPrefix(rest, "cancel "); ok {
				if s.cancel, err = strconv.Atoi(n); err != nil {
					return d, err
				}
			}
			d.steps = append(d.steps, s)
		default:
			op, arg, _ := strings.Cut(rest, " ")
			d.steps = append(d.steps, step{who: who, op: op, arg: unescape(arg), cancel: noCancel})
		}
	}
	return d, nil
}

var repeated = regexp.MustCompile(`^x(\d+) \[`)

func parseFrame(text string) (f frame, err error) {
	verb, rest, _ := strings.Cut(text, " ")
	if len(verb) != 1 || !strings.Contains("QPBDECHSdcf", verb) {
		return f, fmt.Errorf("unknown frame %q", text)
	}
	f.verb = verb[0]
	name := func(s string) string {
		if s == "-" {
			return ""
		}
		return s
	}
	args := strings.Split(rest, " | ")
	switch f.verb {
	case 'Q':
		f.parts = strings.Split(unescape(strings.Replace(rest, lookMacro, look, 1)), "; ")
	case 'P':
		f.name, f.parts = name(args[0]), []string{unescape(strings.Join(args[1:], " | "))}
	case 'B':
		if len(args) < 2 {
			return f, fmt.Errorf("B without a statement: %q", text)
		}
		f.name, f.from = name(args[0]), name(args[1])
		for _, v := range args[2:] {
			f.values = append(f.values, unescape(v))
		}
	case 'E':
		portal, rows, _ := strings.Cut(rest, " ")
		f.name = name(portal)
		if rows != "" {
			f.rows, err = strconv.Atoi(rows)
		}
	case 'd', 'f':
		f.name = unescape(rest)
	case 'D', 'C':
		kind, which, _ := strings.Cut(rest, " ")
		f.kind, f.name = kind[0], name(which)
	}
	return f, err
}

// encode appends the frame's bytes.
func (f frame) encode(dst []byte) ([]byte, error) {
	var m pgproto3.FrontendMessage
	switch f.verb {
	case 'Q':
		m = &pgproto3.Query{String: f.sql()}
	case 'P':
		m = &pgproto3.Parse{Name: f.name, Query: f.sql()}
	case 'B':
		b := &pgproto3.Bind{DestinationPortal: f.name, PreparedStatement: f.from}
		for _, v := range f.values {
			if v == `\N` {
				b.Parameters = append(b.Parameters, nil)
			} else {
				b.Parameters = append(b.Parameters, []byte(v))
			}
		}
		m = b
	case 'D':
		m = &pgproto3.Describe{ObjectType: f.kind, Name: f.name}
	case 'E':
		m = &pgproto3.Execute{Portal: f.name, MaxRows: uint32(f.rows)}
	case 'C':
		m = &pgproto3.Close{ObjectType: f.kind, Name: f.name}
	case 'd':
		m = &pgproto3.CopyData{Data: []byte(f.name)}
	case 'c':
		m = &pgproto3.CopyDone{}
	case 'f':
		m = &pgproto3.CopyFail{Message: f.name}
	case 'H':
		m = &pgproto3.Flush{}
	case 'S':
		m = &pgproto3.Sync{}
	default:
		return nil, fmt.Errorf("unknown frame %q", f.verb)
	}
	return m.Encode(dst)
}
