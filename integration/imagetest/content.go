package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// checkContent compares the configuration and the files of an image with the expected ones, and prints the image's
// size.
func (e engine) checkContent(ctx context.Context, program, name, version string) error {
	i, err := e.inspectImage(ctx, name)
	if err != nil {
		return err
	}
	c := i.OCIv1.Config
	var errs []error
	expect := func(what string, got, want any) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			errs = append(errs, fmt.Errorf("%s: %s is %v, want %v", name, what, got, want))
		}
	}
	expect("user", c.User, "65532:65532")
	expect("entry point", c.Entrypoint, []string{"/" + program})
	expect("volumes", len(c.Volumes), 0)
	expect("version", c.Labels["org.opencontainers.image.version"], version)
	if len(c.Labels["org.opencontainers.image.revision"]) != 40 {
		errs = append(errs, fmt.Errorf("%s: no revision among %v", name, c.Labels))
	}
	var files []string
	size := int64(0)
	errs = append(errs, e.withMountedImage(ctx, name, func(dir string) error {
		return filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 || info.Mode().Perm()&0o022 != 0 {
				errs = append(errs, fmt.Errorf("%s: %s is %v", name, file, info.Mode()))
			}
			size += info.Size()
			files = append(files, strings.TrimPrefix(file, dir))
			return nil
		})
	}))
	want := []string{"/" + program, "/etc/ssl/certs/ca-certificates.crt", "/licenses/LICENSE", "/licenses/NOTICE", "/licenses/THIRD_PARTY_LICENSES"}
	slices.Sort(files)
	slices.Sort(want)
	expect("content", files, want)
	fmt.Printf("%s: %s, %.1f MB in %d files, no shell, no setuid file\n", name, i.FromImageID[:min(12, len(i.FromImageID))], float64(size)/1e6, len(files))
	return errors.Join(errs...)
}
