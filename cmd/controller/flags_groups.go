package controller

import (
	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// What --volume-group-delete can be.
const (
	deleteWithVolumes = "with-volumes"
	refuseNonempty    = "refuse-nonempty"
)

// maxGroupVolumes bounds --volume-group-max-volumes: a group is changed in one entry of the log.
const maxGroupVolumes = 1000

// groupFlags are about volume groups.
type groupFlags struct {
	maxVolumes uint32
	onDelete   string
}

func (o *groupFlags) add(flags *pflag.FlagSet) {
	flags.Uint32Var(&o.maxVolumes, "volume-group-max-volumes", 100, "how many volumes a volume group can have, 1 to 1000; to be the same on all controllers")
	flags.StringVar(&o.onDelete, "volume-group-delete", deleteWithVolumes, "what deleting a volume group does with its volumes: with-volumes deletes them\n"+
		"too, refuse-nonempty refuses while it has any; to be the same on all controllers")
}

func (o *groupFlags) check() error {
	switch {
	case o.maxVolumes < 1 || o.maxVolumes > maxGroupVolumes:
		return exit.Usagef("--volume-group-max-volumes %d: choose 1 to %d", o.maxVolumes, maxGroupVolumes)
	case o.onDelete != deleteWithVolumes && o.onDelete != refuseNonempty:
		return exit.Usagef("--volume-group-delete %q is neither %s nor %s", o.onDelete, deleteWithVolumes, refuseNonempty)
	}
	return nil
}

func (o *groupFlags) keepsVolumes() bool { return o.onDelete == refuseNonempty }
