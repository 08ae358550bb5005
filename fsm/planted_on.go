//go:build planted

package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// plantedFault is a bug for tests of what to do about one: a volume of this name cannot
// be made by any member.
func plantedFault(cmd *fsmpb.Command) {
	if cmd.GetCreateVolume().GetName() == "planted-fault" {
		panic("the planted fault")
	}
}
