package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// healthTimeout bounds the wait for the answer to a health probe.
const healthTimeout = 5 * time.Second

// newHealthcheck returns the command that asks a dsqlsim on this machine whether it is healthy. The container image
// has no other program for that.
func newHealthcheck() *cobra.Command {
	var admin string
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Exit with 0 if a local stand-in and its PostgreSQL answer",
		Long:  "Healthcheck asks /readyz of the admin interface.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkHealth(cmd.Context(), "http://"+admin+"/readyz"); err != nil {
				return &runtimeError{err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&admin, "admin", defaultAdmin, "address of the admin HTTP interface")
	return cmd
}

func checkHealth(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}
