package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/config"
)

// NewHealthcheck returns the command that probes a daemon in a container without a shell.
func NewHealthcheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Probe a running daemon; exits with 0 when it is well",
		Long: "Send a probe to the daemon of the same configuration on this machine: startupz (it accepts\n" +
			"clients), readyz (it has backends) or livez (it is not hung). It serves probes of kind exec,\n" +
			"because Sluice's image has no shell.",
		Example: "  sluice healthcheck --probe readyz",
		Args:    cobra.NoArgs,
	}
	path := config.AddFlags(cmd.Flags())
	probe := cmd.Flags().String("probe", "startupz", "the probe: startupz, readyz or livez")
	within := cmd.Flags().Duration("within", time.Second, "longest wait for the answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch *probe {
		case "startupz", "readyz", "livez":
		default:
			return fmt.Errorf("--probe %s: want startupz, readyz or livez", *probe)
		}
		c, err := config.Load(*path, cmd.Flags())
		if err != nil {
			return err
		}
		if c.Admin.Address == "" {
			return fmt.Errorf("admin.address: \"\": the daemon serves no probes; set it, such as to %v", config.KeyByName("admin.address").Default)
		}
		text, err := sendProbe(cmd.Context(), c.Admin.Address, *probe, *within)
		if err != nil {
			return cli.AsRuntimeError(err)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
		return cli.AsRuntimeError(err)
	}
	return cmd
}

// maxProbeAnswer bounds the text of the answer to a health probe, in bytes.
const maxProbeAnswer = 4 << 10

// sendProbe sends a health probe to the admin listener at address. The error says why the daemon is not well.
func sendProbe(ctx context.Context, address, probe string, within time.Duration) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // the daemon listens on all addresses
	}
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/"+probe, nil)
	if err != nil {
		return "", err
	}
	// The client ignores proxies in the environment, which are for requests to other machines.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxProbeAnswer))
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(body))
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s: %s", probe, answer.Status, text)
	}
	return text, nil
}
