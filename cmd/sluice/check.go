package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite"
)

// check prints the effective configuration and makes sure that a daemon can be
// built of it. With dial it also opens one backend and uses it.
func check(ctx context.Context, c *Config, dial bool, out io.Writer) error {
	if _, err := io.WriteString(out, c.yaml()); err != nil {
		return atRuntime(err)
	}
	d, err := build(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	d.close()
	if !dial {
		return nil
	}
	chain, err := d.awsChain(ctx)
	if err != nil {
		return err
	}
	dialer, err := newDialer(c, chain, nil)
	if err != nil {
		return err
	}
	result, err := connect(ctx, dialer.Dial, c.Dial.Timeout)
	if err != nil {
		return atRuntime(err)
	}
	_, err = fmt.Fprintf(out, "# connect: ok, %s\n", result)
	return atRuntime(err)
}

// yaml prints the effective configuration in the file's form, the origin of each
// value behind it and secrets redacted.
func (c *Config) yaml() string {
	var b strings.Builder
	section := ""
	for i := range keys {
		k := &keys[i]
		outer, inner, nested := strings.Cut(k.name, ".")
		switch {
		case !nested:
			inner = k.name
		case outer != section:
			fmt.Fprintf(&b, "%s:\n", outer)
		}
		section = outer
		if nested {
			inner = "  " + inner
		}
		fmt.Fprintf(&b, "%s: %s # %s\n", inner, k.yaml(c.effective(k)), c.origins[k.name])
	}
	return b.String()
}

// effective is the value of a key that the process runs by: of text, what was made of it.
func (c *Config) effective(k *key) any {
	if text, ok := k.field(c).(*string); ok {
		return *text
	}
	return c.values[k.name]
}

// yaml prints a value as YAML. %q is a double-quoted YAML scalar for any text
// that a configuration holds.
func (k *key) yaml(value any) string {
	switch value := value.(type) {
	case string:
		return fmt.Sprintf("%q", k.plain(value))
	case []string:
		quoted := make([]string, len(value))
		for i, item := range value {
			quoted[i] = fmt.Sprintf("%q", item)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	return k.plain(value)
}

// stepQuery is the step after those of a dial.
const stepQuery reservoir.Step = "query"

// stepHints say where to look when a step of connecting failed.
var stepHints = map[reservoir.Step]string{
	reservoir.StepDNS:         "is the name in backend.endpoint or backend.address right, and does this machine's resolver know it?",
	reservoir.StepTCP:         "is backend.port right, and do routes and security groups (PrivateLink: backend.address) let this machine through?",
	reservoir.StepTLS:         "is backend.endpoint the name in the server's certificate, and backend.ca_file its authority?",
	reservoir.StepCredentials: "the AWS default chain found none that work: environment, shared files, web identity, container or instance role",
	reservoir.StepToken:       "is backend.region, or the region in backend.endpoint, right?",
	reservoir.StepAuth:        "may these credentials connect as backend.user (IAM dsql:DbConnectAdmin for admin, else dsql:DbConnect and AWS IAM GRANT), and is this machine's clock right? For postgres: backend.password",
	reservoir.StepStartup:     "the server took the credentials and refused the session",
	stepQuery:                 "the session was open and the query failed",
}

// connect opens one backend, runs a query on it and closes it. The error names
// the step that failed.
func connect(ctx context.Context, dial reservoir.DialFunc, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	conn, err := dial(ctx, nil)
	if err != nil {
		if failed, ok := errors.AsType[*reservoir.DialError](err); ok {
			return "", stepError(failed.Step, err)
		}
		return "", stepError(reservoir.StepStartup, err)
	}
	defer func() {
		_, _ = conn.Net.Write([]byte{'X', 0, 0, 0, 4}) // Terminate: a courtesy
		_ = conn.Net.Close()
	}()
	dialled := time.Since(began)
	deadline, _ := ctx.Deadline()
	if err := conn.Net.SetDeadline(deadline); err != nil {
		return "", stepError(stepQuery, err)
	}
	began = time.Now()
	if err := runQuery(conn.Net, "SELECT 1", func(string) {}); err != nil {
		return "", stepError(stepQuery, err)
	}
	answered := time.Since(began)
	var mapped []string
	if err := runQuery(conn.Net, askMapped, func(name string) { mapped = append(mapped, strings.TrimSuffix(name, rewrite.MappedSuffix)) }); err != nil {
		return "", stepError(stepQuery, err)
	}
	result := fmt.Sprintf("server_version %s, connected in %s, SELECT 1 in %s", conn.Params["server_version"],
		dialled.Round(time.Millisecond), answered.Round(time.Microsecond))
	if len(mapped) > 0 {
		result += "\n# bytea columns that are stored as text (rewrite.bytea): " + strings.Join(mapped, ", ")
	}
	return result, nil
}

// askMapped asks for the columns that are stored as text of hexadecimal digits.
const askMapped = "SELECT n.nspname || '.' || c.relname || '.' || a.attname FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid" +
	" JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = 25" +
	" AND pg_catalog.right(a.attname, 10) = '" + rewrite.MappedSuffix + "' ORDER BY 1"

func stepError(step reservoir.Step, err error) error {
	hint := stepHints[step]
	if hint != "" {
		hint = "\n  " + hint
	}
	return fmt.Errorf("connect failed at step %s: %w%s", step, err, hint)
}
