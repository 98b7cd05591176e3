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

// Where AWS credentials come from, and credentials.require, which insists on one of these: a
// pod without the annotation that gives it a role silently gets its node's.

// credentialKinds are the kinds by the names that the SDK's providers give themselves.
var credentialKinds = map[string]string{
	stscreds.WebIdentityProviderName: config.CredentialsWebIdentity,
	endpointcreds.ProviderName:       config.CredentialsContainer,
	ec2rolecreds.ProviderName:        config.CredentialsInstance,
	awsconfig.CredentialsSourceName:  config.CredentialsEnvironment,
}

// credentialKind tells the kind of credentials by their source: shared files, and what these
// name (a role, SSO, a process), are a profile.
func credentialKind(source string) string {
	name, _, _ := strings.Cut(source, ":") // some have a file's name behind it
	if kind, ok := credentialKinds[name]; ok {
		return kind
	}
	return config.CredentialsProfile
}

// watchedCredentials are credentials whose kind is logged when it is another than the last,
// and refused where it is not the one that is required.
type watchedCredentials struct {
	from    aws.CredentialsProvider
	require string // a kind, or config.CredentialsAny
	log     *slog.Logger
	last    atomic.Pointer[string] // the source of the last
}

// Retrieve returns the credentials. It may be called from several goroutines.
func (w *watchedCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
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

// AWSChain loads the AWS default configuration, with credentials that are watched. A region
// of the environment wins over that of the cluster.
func AWSChain(ctx context.Context, c *config.Config, log *slog.Logger) (aws.Config, error) {
	chain, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithDefaultRegion(nearRegion(c.Backend.DialConfig)))
	if err != nil {
		return chain, fmt.Errorf("AWS configuration (environment or shared files): %w", err)
	}
	chain.Credentials = &watchedCredentials{from: chain.Credentials, require: c.Credentials.Require, log: log}
	return chain, nil
}
