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

// NewDoctor returns the command doctor.
func NewDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Ask a cluster what the configuration depends on",
		Long: "Ask the configured Aurora DSQL cluster what nobody but a cluster can say, in a schema with\n" +
			"a random name that is made for it and removed again, and print what was found with the\n" +
			"setting that follows. Tables and rows of others are not touched. It takes about 120 short\n" +
			"statements on two connections, and a role that may create schemas.\n\n" +
			"The exit code is 1 when a setting should change, when the cluster could not be asked, or\n" +
			"when something is left behind there; then the statement that removes it is printed.",
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
			return &config.Error{Problems: c.Problems(fmt.Errorf("backend.kind: %q: sluice doctor asks Aurora DSQL clusters only; set it to dsql", c.Backend.Kind))}
		}
		return doctor(cmd.Context(), c, *format, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// doctor asks, cleans up and prints the report. A signal ends the asking, and a second one
// the process.
func doctor(ctx context.Context, c *config.Config, format string, out, errs io.Writer) error {
	chain, err := daemon.BackendChain(ctx, c, slog.New(slog.DiscardHandler))
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
		stop() // a second signal has its usual effect
		fmt.Fprintf(errs, "sluice: interrupted: the schema %s is removed if it is there\n", e.schema)
	})
	if err = e.run(asking); err != nil {
		e.report.Error = err.Error()
	}
	unheard()
	if err := e.report.write(out, format); err != nil {
		return cli.AtRuntime(err)
	}
	return cli.AtRuntime(errors.Join(err, e.report.verdict()))
}

// doctorReport is what doctor says, in the form of its JSON. Fields and questions may be
// added to it; those that are there stay.
type doctorReport struct {
	Endpoint      string           `json:"endpoint"`
	Role          string           `json:"role"`
	ServerVersion string           `json:"server_version"`
	Questions     []doctorQuestion `json:"questions"`
	Settings      []doctorSetting  `json:"settings"`
	// Error is why not every question was asked.
	Error string `json:"error,omitempty"`
	// LeftBehind are statements that remove what is still there; none as a rule.
	LeftBehind []string `json:"left_behind"`
}

// doctorQuestion is a question with its answer.
type doctorQuestion struct {
	// Name tells questions apart, and never changes.
	Name     string `json:"name"`
	Question string `json:"question"`
	// Answer is yes, no, or unknown where the cluster could not be asked.
	Answer string `json:"answer"`
	// Found are sentences.
	Found []string `json:"found"`
	// So is what follows, "" for nothing.
	So string `json:"so,omitempty"`
}

// Answers to a question.
const (
	yes     = "yes"
	no      = "no"
	unknown = "unknown"
)

// doctorSetting is a key with the value that the cluster asks for.
type doctorSetting struct {
	Key        string `json:"key"`
	Value      string `json:"value"`
	Configured string `json:"configured"`
}

// differs reports whether the configuration is to be changed.
func (s doctorSetting) differs() bool { return s.Value != s.Configured }

// verdict is the error of a configuration that does not fit the cluster, or of a schema that
// is left behind.
func (r *doctorReport) verdict() error {
	var errs []error
	for _, s := range r.Settings {
		if s.differs() {
			errs = append(errs, fmt.Errorf("%s: %q: this cluster needs %q; set it so", s.Key, s.Configured, s.Value))
		}
	}
	if len(r.LeftBehind) > 0 {
		errs = append(errs, fmt.Errorf("left behind in the cluster; to remove it run:\n  %s", strings.Join(r.LeftBehind, "\n  ")))
	}
	return errors.Join(errs...)
}

func (r *doctorReport) write(w io.Writer, format string) error {
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
		if s.differs() {
			fmt.Fprintf(&b, "   (the configuration has %s)", s.Configured)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// scratchName is the name of a schema that nobody has.
func scratchName() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return "sluice_doctor_" + hex.EncodeToString(random[:])
}
