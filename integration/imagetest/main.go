package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// timeLimit bounds the time of the whole test run.
const timeLimit = 10 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "imagetest:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	buildah := flag.String("buildah", "buildah", "how to call buildah")
	podman := flag.String("podman", "podman", "how to call podman")
	tag := flag.String("tag", "", "tag of the images")
	version := flag.String("version", "", "version that they were given")
	flag.Parse()
	e := engine{strings.Fields(*buildah), strings.Fields(*podman)}
	var errs []error
	for _, program := range []string{"sluice", "dsqlsim"} {
		errs = append(errs, e.checkContent(ctx, program, "localhost/"+program+":"+*tag, *version))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	user := 100_000 + rand.IntN(1_000_000)
	return e.checkRunning(ctx, *tag, fmt.Sprintf("%d:%d", user, user+1))
}
