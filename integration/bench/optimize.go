package main

import (
	"context"
	"errors"
	"os"
	"slices"
)

// This file records the profile for go build -pgo, over the work that Sluice does for most of its clients. The profile
// only affects speed, and need not match the current code.

// profiledWorkloads are the workloads whose profile the Go compiler gets for its optimizations (-pgo).
var profiledWorkloads = []string{idSelectOne, "select-simple-16", idExtended16, "select-prepared-16", "select-simple-64", "tpcb", idChurn}

// recordPGOProfile records the profile for go build -pgo and writes it to a file. It measures nothing.
func recordPGOProfile(ctx context.Context, c config) (err error) {
	b := &bench{config: c, progress: os.Stderr}
	defer func() { err = errors.Join(err, b.rig.stopAll()) }()
	if err := b.rig.startAll(ctx, c.bin); err != nil {
		return err
	}
	bin, err := b.rig.buildProfiled(ctx)
	if err != nil {
		return err
	}
	merged := []string{"-proto"}
	for _, w := range workloads() {
		if !slices.Contains(profiledWorkloads, w.id) {
			continue
		}
		path, err := b.profileWorkload(ctx, bin, &w)
		if err != nil {
			return err
		}
		merged = append(merged, path)
	}
	profile, err := runPprof(ctx, merged...)
	if err != nil {
		return err
	}
	return os.WriteFile(c.profile, profile, 0o644)
}
