package daemon

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/holdfast-storage/holdfast/fsm"
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

// Description is the version and what it speaks, in one line: the feature levels that
// it understands, and the versions of the specifications that it was built on.
func Description() string {
	return fmt.Sprintf("holdfast %s, feature levels %d to %d, CSI %s, hashicorp/raft %s, %s",
		Version(), fsm.Level1, fsm.MaxFeatureLevel, moduleVersion("github.com/container-storage-interface/spec"),
		moduleVersion("github.com/hashicorp/raft"), runtime.Version())
}

// moduleVersion is that of a module in this build.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "unknown"
}
