package daemon

import (
	"cmp"
	"runtime/debug"
)

// version is set by the build: -ldflags "-X .../cmd/daemon.version=v0.1.0".
var version string

// Version is what was built: the release, else the commit that it was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "unknown")
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if settings["vcs.modified"] == "true" {
		commit += "-modified"
	}
	return cmp.Or(version, commit, "development")
}
