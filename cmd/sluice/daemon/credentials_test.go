package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/cmd/sluice/config/configtest"
)

// Credentials of another kind than the one that is required are refused, and the log has each
// source once.
func TestCredentialsOfAKind(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ source, kind string }{
		{"WebIdentityCredentials", config.CredentialsWebIdentity},
		{"CredentialsEndpointProvider", config.CredentialsContainer},
		{"EC2RoleProvider", config.CredentialsInstance},
		{"EnvConfigCredentials", config.CredentialsEnvironment},
		{"SharedConfigCredentials: /home/app/.aws/credentials", config.CredentialsProfile},
		{"AssumeRoleProvider", config.CredentialsProfile},
		{"SSOProvider", config.CredentialsProfile},
	} {
		for _, require := range config.KeyByName("credentials.require").Choices {
			var log bytes.Buffer
			w := &checkedCredentials{require: require, log: slog.New(slog.NewTextHandler(&log, nil)),
				from: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
					return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "hidden", Source: test.source}, nil
				})}
			for range 2 {
				got, err := w.Retrieve(t.Context())
				switch ok := require == config.CredentialsAny || require == test.kind; {
				case ok && (err != nil || got.SecretAccessKey != "hidden"):
					t.Errorf("%s, %s is required: %v", test.source, require, err)
				case !ok && (err == nil || got.HasKeys() || !strings.Contains(err.Error(), `credentials.require: "`+require+`": the AWS credentials that were found are of kind `+test.kind)):
					t.Errorf("%s, %s is required: %v, %v", test.source, require, got.HasKeys(), err)
				}
			}
			if text := log.String(); strings.Count(text, "kind="+test.kind) != 1 || strings.Contains(text, "hidden") {
				t.Errorf("%s: the log is %s", test.source, text)
			}
		}
	}
}

// The SDK's own chain names its sources as the table does.
func TestCredentialsOfTheEnvironment(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKID")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hidden")
	for require, ok := range map[string]bool{config.CredentialsEnvironment: true, config.CredentialsWebIdentity: false} {
		c := configtest.Source{Flags: []string{"--endpoint=" + configtest.Endpoint, "--credentials-require=" + require}}.MustLoad(t)
		chain, err := LoadAWSConfig(t.Context(), c, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := chain.Credentials.Retrieve(t.Context()); (err == nil) != ok {
			t.Errorf("credentials of the environment, and %s is required: %v", require, err)
		}
	}
}
