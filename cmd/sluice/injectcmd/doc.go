// Package injectcmd has the command inject, which adds Sluice to pods by package inject.
//
//	inject.go     the command, and the keys that a pod may set
//	webhook.go    serves the API server
//	manifests.go  changes files of manifests
//	yaml.go       YAML that stays unchanged outside the added parts
//
// Package inject does not import Sluice. This package passes it the keys, and the check of
// configurations.
package injectcmd
