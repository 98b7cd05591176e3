package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// released is the version of a release. The build sets released (-X).
var released string

// version returns the version of the release, or the module's version that the Go tool has recorded. If the module's
// version is "(devel)", version returns the revision.
func version() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	text := "devel"
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12: // as long as in a pseudo-version
			text += "-" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			text += "+dirty"
		}
	}
	return text
}

// describeBuild returns the version with the toolchain and the platform.
func describeBuild() string {
	return fmt.Sprintf("%s (%s, %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
