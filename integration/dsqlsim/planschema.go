package dsqlsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// faultKey is one key of a fault in JSON. kind and help describe its value, and field returns the field of Fault that
// it fills.
type faultKey struct {
	name, kind, help string
	field            func(*Fault) any
}

// These are the kinds of value that a key of a fault may have in JSON, as the help text names them.
const (
	text        = "text"
	number      = "number"
	wholeNumber = "whole number"
	yesOrNo     = "true or false"
)

var faultKeys = []faultKey{
	{"at", text, "when it may happen; see below", func(f *Fault) any { return &f.At }},
	{"action", text, "fail (answer error, do nothing), cut (close without a word) or stall", func(f *Fault) any { return &f.Action }},
	{"error", text, "of a fail: conflict (OC000), schema (OC001), timeout or refused;\nat connect rate, connections, denied or waking-up", func(f *Fault) any { return &f.Error }},
	{"seconds", number, "length of a stall", func(f *Fault) any { return &f.Seconds }},
	{"row", wholeNumber, "at row: how many rows are sent before", func(f *Fault) any { return &f.Row }},
	{"session", wholeNumber, "only the connection of this number in the ledger", func(f *Fault) any { return &f.Session }},
	{"transaction", wholeNumber, "only the n-th transaction of a session", func(f *Fault) any { return &f.Transaction }},
	{"statement", wholeNumber, "only the n-th statement of a transaction, BEGIN not counted", func(f *Fault) any { return &f.Statement }},
	{"verb", text, "only statements with this first word", func(f *Fault) any { return &f.Verb }},
	{"contains", text, "only statements with this in their text", func(f *Fault) any { return &f.Contains }},
	{"question", text, "only what Sluice asks by itself, by the question's name", func(f *Fault) any { return &f.Question }},
	{"name", text, "a name for after, and for the ledger", func(f *Fault) any { return &f.Name }},
	{"after", text, "wait until the fault of this name has happened", func(f *Fault) any { return &f.After }},
	{"skip", wholeNumber, "then let this many such moments pass", func(f *Fault) any { return &f.Skip }},
	{"probability", number, "then happen with this probability at each (0.05 is 5 %)", func(f *Fault) any { return &f.Probability }},
	{"seed", wholeNumber, "of the probability, to repeat a run", func(f *Fault) any { return &f.Seed }},
	{"count", wholeNumber, "happen so often; -1 always (default 1, with a probability -1)", func(f *Fault) any { return &f.Count }},
	{"per_session", yesOrNo, "keep skip and count for each session apart", func(f *Fault) any { return &f.PerSession }},
}

const pointHelp = `
  connect     the startup packet was read
  statement   before a statement goes to PostgreSQL, COMMIT included
  row         in the middle of a result (or at its end, if it has fewer rows)
  running     it is on its way: its outcome is open
  answered    it has run to its end, the client does not know
  commit      before a COMMIT goes to PostgreSQL
  committing  the COMMIT is on its way: its outcome is open
  committed   it has committed, the client does not know
`

// FaultPlanHelp returns a description of the JSON of faults for users.
func FaultPlanHelp() string {
	var b strings.Builder
	for _, k := range faultKeys {
		help := strings.ReplaceAll(k.help, "\n", "\n"+strings.Repeat(" ", 30))
		fmt.Fprintf(&b, "  %-13s%-15s%s\n", k.name, k.kind, help)
	}
	return b.String() + "\nat is one of" + pointHelp
}

// AddFaultsJSON adds the faults in a JSON list to the plan, as AddFaults does; see FaultPlanHelp.
func (s *Server) AddFaultsJSON(list []byte) error { return s.plan.addJSON(list) }

func (p *faultPlan) addJSON(list []byte) error {
	var objects []json.RawMessage
	if err := json.Unmarshal(list, &objects); err != nil || objects == nil {
		return fmt.Errorf("%s: want a JSON list of faults such as [%s]", shortenText(string(list)), exampleFault)
	}
	faults := make([]Fault, len(objects))
	form := make([]error, len(objects))
	for i, object := range objects {
		form[i] = faults[i].parseJSON(object)
	}
	return p.addFaults(faults, form)
}

const exampleFault = `{"at":"commit","action":"cut"}`

func (f *Fault) parseJSON(object []byte) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(object, &values); err != nil || values == nil {
		return fmt.Errorf("%s: want an object such as %s", shortenText(string(object)), exampleFault)
	}
	var problems []error
	for _, k := range faultKeys {
		value, given := values[k.name]
		delete(values, k.name)
		if !given {
			continue
		}
		if err := json.Unmarshal(value, k.field(f)); err != nil || bytes.Equal(value, []byte("null")) {
			problems = append(problems, fmt.Errorf("%s %s: want %s", k.name, shortenText(string(value)), k.expectedValue()))
		}
	}
	var unknown []string
	for name, value := range values {
		unknown = append(unknown, fmt.Sprintf("%q %s: there is no such key, only %s", shortenText(name), shortenText(string(value)), faultKeyNames()))
	}
	slices.Sort(unknown)
	for _, problem := range unknown {
		problems = append(problems, errors.New(problem))
	}
	return errors.Join(problems...)
}

func (k *faultKey) expectedValue() string {
	if k.kind == wholeNumber || k.kind == number {
		return "a " + k.kind
	}
	return k.kind
}

func faultKeyNames() string {
	var names []string
	for _, k := range faultKeys {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ")
}
