package settings

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Treatment says how Sluice handles one setting.
type Treatment uint8

const (
	// Carried settings go to the server, and to each later backend of the client.
	Carried Treatment = iota
	// LocalOnly settings are not sent to the server: Sluice answers SET and SHOW, and enforces the value.
	LocalOnly
	// Ignored settings are not sent to the server: Sluice answers SET and SHOW, and the value has no effect.
	Ignored
	// Foreign settings go to the server, which refuses them.
	Foreign
	// Own settings are Sluice's own options, which clients may set and servers do not know.
	Own
)

// ProxySettingKey returns the configuration key of a setting of Sluice's own. ok is false for other settings.
func ProxySettingKey(name string) (key string, ok bool) {
	return strings.CutPrefix(name, rewrite.OwnPrefix)
}

// IsProxySetting reports whether a setting is one of Sluice's own.
func IsProxySetting(name string) bool { return strings.HasPrefix(name, rewrite.OwnPrefix) }

// dsqlSettings are the settings that DSQL allows clients to set (its documentation, "Supported session parameters",
// 2026), without application_name.
var dsqlSettings = map[string]bool{
	"client_encoding": true, "datestyle": true, "extra_float_digits": true, "intervalstyle": true,
	"timezone": true, "search_path": true, "enable_bitmapscan": true, "enable_hashjoin": true,
	"enable_indexonlyscan": true, "enable_indexscan": true, "enable_material": true,
	"enable_mergejoin": true, "enable_nestloop": true, "dsql.enable_batched_nestloop": true,
	"enable_seqscan": true, "disable_sync_create_index": true, "role": true,
}

// Treatments decides the Treatment of each setting, by the configuration.
type Treatments struct {
	dsql    bool
	reapply bool
	ignored map[string]string // the ignored value; empty means any
}

// NewTreatments returns the Treatments for a server that is DSQL or is not. With reapply, application_name is Carried
// (backends get it). An entry of ignored is "name", or "name=value" if only that value is ignored.
func NewTreatments(dsql, reapply bool, ignored []string) Treatments {
	t := Treatments{dsql: dsql, reapply: reapply, ignored: map[string]string{}}
	for _, entry := range ignored {
		name, value, _ := strings.Cut(entry, "=")
		t.ignored[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	return t
}

// ForSet returns the Treatment of a SET of name to value. If only one value of an ignored setting is ignored, other
// values go to the server.
func (t Treatments) ForSet(name, value string) Treatment {
	how := t.ForName(name)
	if only := t.ignored[name]; how == Ignored && only != "" && !EqualValues(value, only) {
		return Foreign
	}
	return how
}

// EqualValues reports whether two values of a setting are equal, in any of PostgreSQL's spellings of booleans.
func EqualValues(a, b string) bool {
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

// ForName returns the Treatment of SHOW and RESET of a setting.
func (t Treatments) ForName(name string) Treatment {
	switch {
	case name == "application_name":
		if t.reapply {
			return Carried
		}
		return LocalOnly
	case IsProxySetting(name):
		return Own
	case !t.dsql:
		return Carried
	case name == "statement_timeout", name == "idle_in_transaction_session_timeout", name == rewrite.ReadOnlyDefault:
		return LocalOnly
	case dsqlSettings[name]:
		return Carried
	}
	if _, ok := t.ignored[name]; ok {
		return Ignored
	}
	return Foreign
}

// AnswersLocally reports whether Sluice answers a statement itself, because no server gets any of the settings that it
// changes.
func (t Treatments) AnswersLocally(st *rewrite.Statement) bool {
	if st.Kind != rewrite.Setting || len(st.Changes) == 0 {
		return false
	}
	for i := range st.Changes {
		c := &st.Changes[i]
		if c.Name == "" {
			return false
		}
		how := t.ForName(c.Name)
		if c.Action == rewrite.Set || c.Action == rewrite.SetLocal {
			how = t.ForSet(c.Name, c.Text)
		}
		if how == Carried || how == Foreign {
			return false
		}
	}
	return true
}
