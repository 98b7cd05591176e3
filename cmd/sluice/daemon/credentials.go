package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
)

// This file has the sources of AWS credentials. credentials.require insists on one kind of source. Without
// credentials.require, a pod that lacks the annotation for its role silently gets the role of its node.

// credentialKinds maps the names of the AWS SDK's providers to kinds of credentials.
var credentialKinds = map[string]string{
	stscreds.WebIdentityProviderName: config.CredentialsWebIdentity,
	endpointcreds.ProviderName:       config.CredentialsContainer,
	ec2rolecreds.ProviderName:        config.CredentialsInstance,
	awsconfig.CredentialsSourceName:  config.CredentialsEnvironment,
}

// credentialKind returns the kind of a source of credentials. Shared files are of the kind profile, and so are the
// roles, SSO and processes that shared files name.
func credentialKind(source string) string {
	name, _, _ := strings.Cut(source, ":") // some sources contain a file's name
	if kind, ok := credentialKinds[name]; ok {
		return kind
	}
	return config.CredentialsProfile
}

// checkedCredentials logs the kind of credentials when their source changes. checkedCredentials refuses credentials of
// another kind than credentials.require.
type checkedCredentials struct {
	from    aws.CredentialsProvider
	require string // a kind, or config.CredentialsAny
	log     *slog.Logger
	last    atomic.Pointer[string] // the last source
}

// Retrieve returns the AWS credentials. Retrieve is safe for concurrent use.
func (w *checkedCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	got, err := w.from.Retrieve(ctx)
	if err != nil {
		return got, err
	}
	kind := credentialKind(got.Source)
	if last := w.last.Load(); last == nil || *last != got.Source {
		source := got.Source
		w.last.Store(&source)
		w.log.Info("AWS credentials", "kind", kind, "source", source)
	}
	if w.require != config.CredentialsAny && w.require != kind {
		return aws.Credentials{}, fmt.Errorf("credentials.require: %q: the AWS credentials that were found are of kind %s (%s); "+
			"give this pod or process the role it should have, or set another kind", w.require, kind, got.Source)
	}
	return got, nil
}

// LoadAWSConfig loads AWS's default configuration with checkedCredentials. A region in the environment
// has precedence over the cluster's.
func LoadAWSConfig(ctx context.Context, c *config.Config, log *slog.Logger) (aws.Config, error) {
	chain, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithDefaultRegion(stsRegion(c.Backend.DialConfig)))
	if err != nil {
		return chain, fmt.Errorf("AWS configuration (environment or shared files): %w", err)
	}
	chain.Credentials = &checkedCredentials{from: chain.Credentials, require: c.Credentials.Require, log: log}
	return chain, nil
}
