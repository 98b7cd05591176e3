package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
)

// engine holds the command lines of buildah and podman.
type engine struct{ buildah, podman []string }

// runProgram runs a program and returns its output, without the last newline.
func runProgram(ctx context.Context, program []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program[0], append(program[1:len(program):len(program)], args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program[0], strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// image is the description of an image by buildah.
type image struct {
	FromImageID string
	OCIv1       struct {
		Architecture string            `json:"architecture"`
		Config       imageConfig       `json:"config"`
		RootFS       map[string]any    `json:"rootfs"`
		Unknown      map[string]string `json:"-"`
	}
}

type imageConfig struct {
	User       string
	Env        []string
	Entrypoint []string
	Cmd        []string
	Volumes    map[string]any
	Labels     map[string]string
}

func (e engine) inspectImage(ctx context.Context, name string) (image, error) {
	var i image
	out, err := runProgram(ctx, e.buildah, "inspect", "--type", "image", name)
	if err == nil {
		err = json.Unmarshal([]byte(out), &i)
	}
	return i, err
}

// withMountedImage calls do with the directory in which an image's files are mounted.
func (e engine) withMountedImage(ctx context.Context, name string, do func(dir string) error) error {
	container, err := runProgram(ctx, e.buildah, "from", "--pull-never", name)
	if err != nil {
		return err
	}
	defer func() { _, _ = runProgram(context.WithoutCancel(ctx), e.buildah, "rm", container) }()
	dir, err := runProgram(ctx, e.buildah, "mount", container)
	if err != nil {
		return err
	}
	defer func() { _, _ = runProgram(context.WithoutCancel(ctx), e.buildah, "umount", container) }()
	return do(dir)
}

// startContainer runs an image on this machine's network with as few rights as possible, as a user without an account.
func (e engine) startContainer(ctx context.Context, name, image, user string, options []string, args ...string) error {
	all := append([]string{"run", "--detach", "--name", name, "--network", "host", "--user", user,
		"--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--security-opt", "no-new-privileges",
		"--no-healthcheck", "--log-driver", "k8s-file",
		// These limits are those of the machine, since a container may not get higher ones.
		"--ulimit", "nofile=20000:20000", "--ulimit", "nproc=10000:10000"}, options...)
	_, err := runProgram(ctx, e.podman, append(append(all, image), args...)...)
	return err
}

// removeContainer ends and deletes a container in any state.
func (e engine) removeContainer(name string) {
	_, _ = runProgram(context.Background(), e.podman, "rm", "--force", "--time", "0", name)
}
