// Package injectcmd has the command inject, which puts Sluice into pods by package inject.
//
//	inject.go     the command, and the keys that a pod may set
//	webhook.go    serves the API server
//	manifests.go  changes files of manifests
//	yaml.go       YAML that stays as it is where nothing changes
//
// Package inject knows nothing of Sluice. This package gives it the keys, and what judges them.
package injectcmd
