package config

// Credentials is the part of the configuration that selects the AWS credentials.
type Credentials struct {
	Require string // a kind of credentials, or CredentialsAny
}

// These are the values of credentials.require. The log uses the same words for the source of credentials.
const (
	CredentialsAny         = "any"
	CredentialsWebIdentity = "web-identity"
	CredentialsContainer   = "container"
	CredentialsInstance    = "instance"
	CredentialsEnvironment = "environment"
	CredentialsProfile     = "profile"
)

var credentialKeys = []Key{
	{Name: "credentials.require", Default: CredentialsAny, field: func(c *Config) any { return &c.Credentials.Require },
		Choices: []string{CredentialsAny, CredentialsWebIdentity, CredentialsContainer, CredentialsInstance, CredentialsEnvironment, CredentialsProfile},
		help:    "The kind of AWS credentials to insist on, so that a pod without an IAM role does not use its node's role: web-identity (IRSA), container (EKS Pod Identity, ECS), instance (a node's role), environment, profile (shared files). The log says which were found."},
}
