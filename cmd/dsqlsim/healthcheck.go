package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// healthTime is how long an answer about one's health may take.
const healthTime = 5 * time.Second

// newHealthcheck asks the admin interface of a stand-in on this machine: its image has
// no other program that could.
func newHealthcheck() *cobra.Command {
	var admin string
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Exit with 0 if a stand-in here can be used, and its PostgreSQL too",
		Long:  "Healthcheck asks /readyz of the admin interface.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := healthy(cmd.Context(), "http://"+admin+"/readyz"); err != nil {
				return &runtimeError{err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&admin, "admin", defaultAdmin, "address of the admin HTTP interface")
	return cmd
}

func healthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
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
