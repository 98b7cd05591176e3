package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// released is the version of a release, which its build sets (-X).
var released string

// version is that of the release, or the module's as the Go tool stamped it, with
// the revision where it stamped no more than "(devel)".
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

// describeBuild is version with the toolchain and the platform behind.
func describeBuild() string {
	return fmt.Sprintf("%s (%s, %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
