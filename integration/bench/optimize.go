package main

import (
	"context"
	"errors"
	"os"
	"slices"
)

// This file takes the profile for go build -pgo, of the work that Sluice does for most of its clients. The profile only
// affects speed, and need not match the current code.

// optimizedFor are the workloads whose profile the compiler gets.
var optimizedFor = []string{idSelectOne, "select-simple-16", idExtended16, "select-prepared-16", "select-simple-64", "tpcb", idChurn}

// optimize takes the profile and writes it to a file. It measures nothing.
func optimize(ctx context.Context, c config) (err error) {
	b := &bench{config: c, progress: os.Stderr}
	defer func() { err = errors.Join(err, b.rig.down()) }()
	if err := b.rig.up(ctx, c.bin); err != nil {
		return err
	}
	bin, err := b.rig.buildProfiled(ctx)
	if err != nil {
		return err
	}
	merged := []string{"-proto"}
	for _, w := range workloads() {
		if !slices.Contains(optimizedFor, w.id) {
			continue
		}
		path, err := b.profile(ctx, bin, &w)
		if err != nil {
			return err
		}
		merged = append(merged, path)
	}
	profile, err := pprof(ctx, merged...)
	if err != nil {
		return err
	}
	return os.WriteFile(c.profile, profile, 0o644)
}
