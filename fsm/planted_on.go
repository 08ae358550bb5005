//go:build planted

package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// plantedFault is a bug for the tests of skipping an entry: every member faults on a volume
// of this name.
func plantedFault(cmd *fsmpb.Command) {
	if cmd.GetCreateVolume().GetName() == "planted-fault" {
		panic("the planted fault")
	}
}
