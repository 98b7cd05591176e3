// Package serversettings follows the settings of a server's sessions: which settings a backend has, and which
// parameters the server has reported. It returns the SQL that brings a backend to the settings of a client. It also
// decides which parameters a client must be sent, and finds the settings that functions have changed. The package
// sends nothing and knows no connections. Package settings holds the values themselves.
//
//	shared.go   Shared: what all backends of a server have in common
//	backend.go  Backend: the settings of one backend
//	report.go   the parameters that a client must be sent
//	adopt.go    the settings that functions have changed
//	appname.go  AppNames: application names that functions have set
//	restore.go  the startup values that a RESET has replaced by the server's own
//	parsing.go  TxParsing, TurnParsing: cache keys by the settings that affect how texts are parsed
//	reset.go    the SQL of a SET, and the RESETs of all settings
package serversettings
