//go:build !planted

package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// plantedFault is empty but in a build for tests.
func plantedFault(*fsmpb.Command) {}
