package daemon

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/fsm"
)

// MountFlags are the mount flags that an operator allows beside the usual ones.
type MountFlags struct{ allowed []string }

// Add adds the flag.
func (m *MountFlags) Add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&m.allowed, "allow-mount-flag", nil, "mount `flag` that volumes may ask for although it trusts what is on them: suid or dev; without\n"+
		"it every mount is nosuid and nodev; repeatable, and to be the same on all controllers and nodes")
}

// Check validates combinations of flags.
func (m *MountFlags) Check() error {
	for _, flag := range m.allowed {
		if flag != "suid" && flag != "dev" {
			return exit.Usagef("--allow-mount-flag %q: choose suid or dev", flag)
		}
	}
	return nil
}

// Policy returns the mount flags that are allowed.
func (m *MountFlags) Policy() fsm.MountPolicy {
	return fsm.MountPolicy{Suid: slices.Contains(m.allowed, "suid"), Dev: slices.Contains(m.allowed, "dev")}
}
