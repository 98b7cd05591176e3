package serversettings

import (
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// AppName is the setting application_name. Sluice stores it for each session: the server never gets the client's value.
// A function may still set the name at the backend, which reports it. AppNames makes the reported name the session's. A
// RESET inside a function changes nothing at the backend.
const AppName = "application_name"

// AppNames are the application names that functions have set in the current transaction. The zero AppNames has none.
type AppNames struct {
	lastReported  *string // the last name that the backend reported in the block; nil: none
	leftAtBackend *string // the name that the transaction left at the backend, and that becomes the session's; nil: none
}

// MayChange reports whether Adopt may change the client's name.
func (n *AppNames) MayChange(b *Backend) bool { return b.reported != b.idle || n.lastReported != nil }

// Adopt gives the client the application name that the backend b reports within a block. A failed block drops the
// name together with the block's other settings.
func (n *AppNames) Adopt(b *Backend, of *settings.Client) {
	was, _ := b.idle.Get(AppName)
	is, _ := b.reported.Get(AppName)
	switch {
	case is == was && n.lastReported != nil: // a function or ROLLBACK TO SAVEPOINT has restored the name
		if of.ShownValue(AppName) == *n.lastReported {
			of.ResetLocalToStartup(AppName, true)
		}
		n.lastReported = nil
	case is != was && (n.lastReported == nil || *n.lastReported != is):
		of.StoreLocal(AppName, is, true) // a function has set the name
		n.lastReported = &is
	}
}

// Commit forgets, at a COMMIT, the application name that the block's functions set, if the client still has that name.
func (n *AppNames) Commit(of *settings.Client) {
	if n.lastReported != nil && *n.lastReported == of.ShownValue(AppName) {
		n.lastReported = nil
	}
}

// recordLeft records that a transaction left the application name value at the backend, and returns the change that
// sets it. A name that a function has set takes precedence even over a later SET of the client.
func (n *AppNames) recordLeft(value string) rewrite.SettingChange {
	if n.lastReported == nil || *n.lastReported != value {
		n.leftAtBackend = &value
	}
	return rewrite.SettingChange{Action: rewrite.Set, Name: AppName, SQL: settings.QuoteLiteral(value), Text: value}
}

// EndTransaction applies the transaction's end to the client's settings that Sluice itself stores. An application name
// that the transaction left at the backend becomes the client's. The caller calls AdoptReports first.
func (n *AppNames) EndTransaction(of *settings.Client, failed bool) {
	left := n.leftAtBackend
	of.EndLocalChanges(failed)
	if *n = (AppNames{}); left != nil {
		of.StoreLocal(AppName, *left, false)
		of.EndLocalChanges(false)
	}
}
