package reservoir

import (
	"fmt"
	"strings"
)

// DialStep is a part of a dial, at which the dial may fail. The constants below are all steps.
type DialStep string

// These are the steps of a dial, in their order.
const (
	StepCredentials DialStep = "credentials" // AWS credentials
	StepToken       DialStep = "token"       // IAM token
	StepDNS         DialStep = "dns"
	StepTCP         DialStep = "tcp"
	StepTLS         DialStep = "tls"
	StepAuth        DialStep = "auth"    // the server refused the password, the token or the role
	StepStartup     DialStep = "startup" // all else up to ReadyForQuery
)

// DialError is the error of a dial, with the step that failed.
type DialError struct {
	Step    DialStep
	Address string // host:port
	// Server is the ErrorResponse of the server, and SQLState its code. Server is nil and SQLState "" when the server sent
	// no error.
	Server   *ServerError
	SQLState string
	Err      error
}

func (e *DialError) Error() string { return fmt.Sprintf("dial %s: %s: %v", e.Address, e.Step, e.Err) }

func (e *DialError) Unwrap() error { return e.Err }

// Notice holds the fields of a NoticeResponse.
type Notice ServerError

// ServerError holds the fields of an ErrorResponse.
type ServerError struct {
	Severity            string
	SeverityUnlocalized string
	Code                string
	Message             string
	Detail              string
	Hint                string
	Position            int32
	InternalPosition    int32
	InternalQuery       string
	Where               string
	SchemaName          string
	TableName           string
	ColumnName          string
	DataTypeName        string
	ConstraintName      string
	File                string
	Line                int32
	Routine             string
}

func (e *ServerError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s (SQLSTATE %s)", e.Severity, e.Message, e.Code)
	if e.Detail != "" {
		fmt.Fprintf(&b, "; detail: %s", e.Detail)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "; hint: %s", e.Hint)
	}
	return b.String()
}

// dialStep returns StepAuth when the server refused the identity, otherwise StepStartup. PostgreSQL reports a refused
// identity by class 28. DSQL sends 08006 "unable to accept connection, access denied".
func (e *ServerError) dialStep() DialStep {
	denied := e.Code == "08006" && strings.Contains(strings.ToLower(e.Message), "access denied")
	if denied || strings.HasPrefix(e.Code, "28") {
		return StepAuth
	}
	return StepStartup
}
