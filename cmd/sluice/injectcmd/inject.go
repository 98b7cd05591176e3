package injectcmd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/cmd/sluice/daemon"
	"github.com/sluice-proxy/sluice/cmd/sluice/inject"
)

// injectOptions are the flags of sluice inject.
type injectOptions struct {
	file     string // file of manifests, "" to serve
	config   inject.Config
	settings []string // key=value

	listen, admin     string
	certFile, keyFile string
	log               config.Log
}

// NewCommand returns the command sluice inject, which adds Sluice to pods.
func NewCommand(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inject",
		Short: "Put Sluice into pods: a Kubernetes admission webhook, or a filter for manifests",
		Long: "Serve the Kubernetes mutating admission webhook that puts Sluice into pods as a native\n" +
			"sidecar, until SIGTERM. With -f, add Sluice to the pods of a file of manifests (YAML or JSON,\n" +
			"- is standard input) and print it; documents without a pod stay unchanged.\n\n" +
			"Annotations " + inject.Prefix + "<key> set configuration keys for a pod; the label " + inject.Prefix + inject.InjectLabel + "=false\n" +
			"opts a pod out.",
		Example: "  sluice inject --image <image> --set backend.endpoint=<id>.dsql.<region>.on.aws -f deployment.yaml | kubectl apply -f -\n" +
			"  sluice inject --image <image> --cert-file tls.crt --key-file tls.key",
		Args: cobra.NoArgs,
	}
	var o injectOptions
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&o.file, "filename", "f", "", "manifests to change instead of serving; - is standard input")
	flags.StringVar(&o.config.Image, "image", "", "Sluice's image in the pods")
	flags.StringVar(&o.config.PullPolicy, "image-pull-policy", "", "its imagePullPolicy; empty: Kubernetes' choice")
	flags.StringArrayVar(&o.settings, "set", nil, "configuration key=value for every pod without an annotation for it; may be repeated")
	flags.StringVar(&o.config.MemoryLimit, "memory-limit", "512Mi", "memory limit of the container; GOMEMLIMIT is four fifths of it")
	flags.StringVar(&o.config.MemoryRequest, "memory-request", "128Mi", "memory request of the container")
	flags.StringVar(&o.config.CPURequest, "cpu-request", "100m", "CPU request of the container")
	flags.StringVar(&o.listen, "listen", ":8443", "address for calls of the API server, host:port")
	flags.StringVar(&o.admin, "admin-address", ":9432", "address of /metrics, /livez and /readyz, without TLS, host:port")
	flags.StringVar(&o.certFile, "cert-file", "", "certificate chain (PEM) of the webhook; reloaded on change and on SIGHUP")
	flags.StringVar(&o.keyFile, "key-file", "", "private key (PEM) of --cert-file")
	flags.StringSliceVar(&o.config.Exempt, "exempt-namespaces", []string{"kube-system", "sluice-system"}, "namespaces whose pods are never changed")
	flags.StringVar(&o.log.Format, "log-format", "text", "form of the log on standard error: text or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		injector, err := o.newInjector()
		if err != nil {
			return err
		}
		if o.file != "" {
			return o.injectFile(cmd, injector)
		}
		return o.serve(cmd.Context(), injector, version, daemon.NewLogger(o.log, cmd.ErrOrStderr()))
	}
	return cmd
}

// newInjector returns the Injector for the flags. An error concerns the usage of the command.
func (o *injectOptions) newInjector() (*inject.Injector, error) {
	if o.log.Level = "info"; o.log.Format != "text" && o.log.Format != "json" {
		return nil, fmt.Errorf("--log-format: %q: want text or json", o.log.Format)
	}
	o.config.Settings = map[string]string{}
	for _, setting := range o.settings {
		name, value, ok := strings.Cut(setting, "=")
		if !ok {
			return nil, fmt.Errorf("--set: %q: want key=value", setting)
		}
		o.config.Settings[name] = value
	}
	o.config.Keys = podKeys()
	o.config.Check = config.CheckPodValues
	o.config.Suggest = func(name string) string { return config.DidYouMean(name, config.KeyNames()) }
	injector, err := inject.New(o.config)
	if err != nil {
		return nil, &config.Error{Problems: strings.Split(err.Error(), "\n")}
	}
	return injector, nil
}

// injectFile adds Sluice to the pods of a file of manifests. After an error injectFile prints nothing.
func (o *injectOptions) injectFile(cmd *cobra.Command, injector *inject.Injector) error {
	text, err := cli.ReadInput(o.file, cmd.InOrStdin())
	if err != nil {
		return err
	}
	out, notes, err := injectManifests(injector, text)
	if err != nil {
		return cli.AsRuntimeError(err)
	}
	for _, note := range notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s gets no Sluice: %s\n", note.Object, note.Reason)
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), out)
	return cli.AsRuntimeError(err)
}

// refusedInPods maps each configuration key that a pod may not set to the reason.
var refusedInPods = map[string]string{
	"drain.mode":                  "the container is a native sidecar, whose mode is native",
	"distributed.conn_lease_file": "an injected container has one, in a volume of its own, where distributed.conn_lease_enabled is true",
	"listen.unix_socket":          noFiles,
	"tls.cert_file":               noFiles,
	"tls.key_file":                noFiles,
	"tls.client_ca_file":          noFiles,
	"tls.required":                noFiles,
	"auth.users_file":             noFiles,
	"auth.salt_secret_file":       noFiles,
	"backend.ca_file":             noFiles,
}

const noFiles = "nothing is mounted into an injected container; write the container into the pod yourself, under the name " + inject.Container

// podKeys returns the table of configuration keys in the form that package inject needs.
func podKeys() []inject.Key {
	all := make([]inject.Key, len(config.Keys))
	for i := range config.Keys {
		k := &config.Keys[i]
		all[i] = inject.Key{Name: k.Name, Variable: k.EnvName(), Default: k.PlainText(k.Default), Refused: refusedInPods[k.Name], Secret: k.Secret}
		if k.Secret {
			all[i].Refused = "a secret, and an annotation is for everybody to read; write the container into the pod yourself, with a variable from a Secret"
		}
	}
	return all
}

// serve runs the webhook until a signal ends it.
func (o *injectOptions) serve(ctx context.Context, injector *inject.Injector, version string, log *slog.Logger) error {
	w, err := newWebhook(o, injector, version, log)
	if err != nil {
		return err
	}
	return cli.AsRuntimeError(w.run(ctx))
}
