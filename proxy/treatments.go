package proxy

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
)

// treatment is what becomes of one setting.
type treatment uint8

const (
	// carried settings go to the server and to every backend that serves next.
	carried treatment = iota
	// kept settings are answered locally and enforced by Sluice.
	kept
	// ignored settings are answered locally and have no effect.
	ignored
	// foreign settings go to the server, which refuses them.
	foreign
)

// dsqlSettings is DSQL's allow-list (its documentation, "Supported session
// parameters", 2026), application_name aside.
var dsqlSettings = map[string]bool{
	"client_encoding": true, "datestyle": true, "extra_float_digits": true, "intervalstyle": true,
	"timezone": true, "search_path": true, "enable_bitmapscan": true, "enable_hashjoin": true,
	"enable_indexonlyscan": true, "enable_indexscan": true, "enable_material": true,
	"enable_mergejoin": true, "enable_nestloop": true, "dsql.enable_batched_nestloop": true,
	"enable_seqscan": true, "disable_sync_create_index": true, "role": true,
}

// treatments decides per configuration.
type treatments struct {
	dsql    bool
	reapply bool
	ignored map[string]string // the value that is ignored; empty: any
}

// newTreatments returns how settings are treated by a server that is DSQL or is not. reapply
// carries application_name; entries of ignored are "name", or "name=value" where only
// that value is ignored.
func newTreatments(dsql, reapply bool, ignored []string) treatments {
	t := treatments{dsql: dsql, reapply: reapply, ignored: map[string]string{}}
	for _, entry := range ignored {
		name, value, _ := strings.Cut(entry, "=")
		t.ignored[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	return t
}

// to is what becomes of setting name to value: where only one value may be
// ignored, others go to the server.
func (t treatments) to(name, value string) treatment {
	how := t.of(name)
	if only := t.ignored[name]; how == ignored && only != "" && !sameValue(value, only) {
		return foreign
	}
	return how
}

// sameValue compares values of a setting as PostgreSQL spells booleans.
func sameValue(a, b string) bool {
	truth := map[string]string{"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}
	norm := func(v string) string {
		v = strings.ToLower(strings.TrimSpace(v))
		if t, ok := truth[v]; ok {
			return t
		}
		return v
	}
	return norm(a) == norm(b)
}

// of is to without a value: for SHOW and RESET.
func (t treatments) of(name string) treatment {
	switch {
	case name == "application_name":
		if t.reapply {
			return carried
		}
		return kept
	case !t.dsql:
		return carried
	case name == "statement_timeout", name == "idle_in_transaction_session_timeout":
		return kept
	case dsqlSettings[name]:
		return carried
	}
	if _, ok := t.ignored[name]; ok {
		return ignored
	}
	return foreign
}

// local reports whether a statement's changes are all answered by Sluice.
func (t treatments) local(st *rewrite.Statement) bool {
	if st.Kind != rewrite.Setting || len(st.Changes) == 0 {
		return false
	}
	for i := range st.Changes {
		c := &st.Changes[i]
		if c.Name == "" {
			return false
		}
		how := t.of(c.Name)
		if c.Action == rewrite.Set || c.Action == rewrite.SetLocal {
			how = t.to(c.Name, c.Text)
		}
		if how == carried || how == foreign {
			return false
		}
	}
	return true
}
