package doctor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/cmd/sluice/daemon"
	"github.com/sluice-proxy/sluice/proxy"
)

// NewDoctor returns the command sluice doctor, which asks a cluster what it supports.
func NewDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Ask a cluster which settings fit it",
		Long: "Ask the configured Aurora DSQL cluster questions that only a cluster can answer, and print\n" +
			"the answers with the settings that fit. doctor creates a schema with a random name for this,\n" +
			"removes it afterwards, and touches no other table. It runs about 120 short statements on two\n" +
			"connections, with a role that may create schemas.\n\n" +
			"The exit code is 1 when a setting should change, when the cluster could not be asked, or\n" +
			"when the schema could not be removed; doctor then prints the statement that removes it.",
		Example: "  sluice doctor --endpoint <id>.dsql.<region>.on.aws\n  sluice doctor --format json --config sluice.yaml",
		Args:    cobra.NoArgs,
	}
	path := config.AddFlags(cmd.Flags())
	format := cmd.Flags().String("format", "text", "form of the report: text or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *format != "text" && *format != "json" {
			return fmt.Errorf("--format: %q: want text or json", *format)
		}
		c, err := config.Load(*path, cmd.Flags())
		if err != nil {
			return err
		}
		if c.Proxy.Kind != proxy.DSQL {
			return &config.Error{Problems: c.FormatProblems(fmt.Errorf("backend.kind: %q: sluice doctor asks Aurora DSQL clusters only; set it to dsql", c.Backend.Kind))}
		}
		return runDoctor(cmd.Context(), c, *format, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// runDoctor asks the cluster the questions of sluice doctor, cleans up and prints the report. A signal ends the
// questions, and a second signal the process.
func runDoctor(ctx context.Context, c *config.Config, format string, out, errs io.Writer) error {
	chain, err := daemon.BackendAWSConfig(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	dialer, err := daemon.NewDialer(c, chain, nil)
	if err != nil {
		return err
	}
	asking, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	e := newExamination(c, dialer.Dial)
	unheard := context.AfterFunc(asking, func() {
		stop() // a second signal ends the process
		fmt.Fprintf(errs, "sluice: interrupted: the schema %s is removed if it is there\n", e.schema)
	})
	if err = e.run(asking); err != nil {
		e.report.Error = err.Error()
	}
	unheard()
	if err := e.report.writeReport(out, format); err != nil {
		return cli.AsRuntimeError(err)
	}
	return cli.AsRuntimeError(errors.Join(err, e.report.verdictError()))
}

// doctorReport is the report of sluice doctor in the form of its JSON. Fields and questions may be added, and never
// removed.
type doctorReport struct {
	Endpoint      string           `json:"endpoint"`
	Role          string           `json:"role"`
	ServerVersion string           `json:"server_version"`
	Questions     []doctorQuestion `json:"questions"`
	Settings      []doctorSetting  `json:"settings"`
	// Error says why doctor did not ask some of its questions.
	Error string `json:"error,omitempty"`
	// LeftBehind lists statements that remove the rest of the scratch schema. LeftBehind is mostly empty.
	LeftBehind []string `json:"left_behind"`
}

// doctorQuestion is a question of sluice doctor with the cluster's answer.
type doctorQuestion struct {
	// Name is the name that identifies the question, and never changes.
	Name     string `json:"name"`
	Question string `json:"question"`
	// Answer is the answer to the question: yes, no, or unknown if the cluster could not be asked.
	Answer string `json:"answer"`
	// Found lists the findings of doctor about the question, in sentences for users.
	Found []string `json:"found"`
	// So is the consequence of the answer for the user, in words, or "" for none.
	So string `json:"so,omitempty"`
}

// These are the answers to a question of doctor.
const (
	yes     = "yes"
	no      = "no"
	unknown = "unknown"
)

// doctorSetting is a configuration key with the value that fits the cluster.
type doctorSetting struct {
	Key        string `json:"key"`
	Value      string `json:"value"`
	Configured string `json:"configured"`
}

// shouldChange reports whether the configured value should change.
func (s doctorSetting) shouldChange() bool { return s.Value != s.Configured }

// verdictError returns an error if the configuration does not fit the cluster, or if the scratch schema was not
// removed.
func (r *doctorReport) verdictError() error {
	var errs []error
	for _, s := range r.Settings {
		if s.shouldChange() {
			errs = append(errs, fmt.Errorf("%s: %q: this cluster needs %q; set it so", s.Key, s.Configured, s.Value))
		}
	}
	if len(r.LeftBehind) > 0 {
		errs = append(errs, fmt.Errorf("left behind in the cluster; to remove it run:\n  %s", strings.Join(r.LeftBehind, "\n  ")))
	}
	return errors.Join(errs...)
}

func (r *doctorReport) writeReport(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s as %s", r.Endpoint, r.Role)
	if r.ServerVersion != "" {
		fmt.Fprintf(&b, ", server_version %s", r.ServerVersion)
	}
	b.WriteString("\n")
	for i, q := range r.Questions {
		fmt.Fprintf(&b, "\n%d. %s %s\n", i+1, q.Question, q.Answer)
		for _, found := range q.Found {
			fmt.Fprintf(&b, "   %s\n", found)
		}
		if q.So != "" {
			fmt.Fprintf(&b, "   so: %s\n", q.So)
		}
	}
	for i, s := range r.Settings {
		if i == 0 {
			b.WriteString("\nSettings that follow:\n")
		}
		fmt.Fprintf(&b, "  %s: %s", s.Key, s.Value)
		if s.shouldChange() {
			fmt.Fprintf(&b, "   (the configuration has %s)", s.Configured)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// randomSchemaName returns a random name for doctor's scratch schema.
func randomSchemaName() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return "sluice_doctor_" + hex.EncodeToString(random[:])
}
