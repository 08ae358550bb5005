package plan

import "github.com/holdfast-storage/holdfast/executor"

// WritersToKill returns those of a device's writers that would see how a suspended write ends (S9). Processes of this one
// acknowledge nothing to anybody.
func WritersToKill(writers []executor.Process) (kill []executor.Process) {
	for _, p := range writers {
		if !p.Own && !p.Dying {
			kill = append(kill, p)
		}
	}
	return kill
}
