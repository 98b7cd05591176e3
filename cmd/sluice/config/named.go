package config

// Values of drain.mode.
const (
	DrainStop   = "stop"
	DrainPlain  = "plain"
	DrainNative = "native"
)

// Values of credentials.require, and of the source in the log.
const (
	CredentialsAny         = "any"
	CredentialsWebIdentity = "web-identity"
	CredentialsContainer   = "container"
	CredentialsInstance    = "instance"
	CredentialsEnvironment = "environment"
	CredentialsProfile     = "profile"
)
