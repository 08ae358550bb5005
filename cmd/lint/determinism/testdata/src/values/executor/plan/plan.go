package plan

import "example.com/executor"

func choose(d executor.Device, b executor.Backend) bool {
	_ = executor.Look(nil) // want `Look in deterministic code`
	_ = d.Write()          // want `Write in deterministic code`
	return b.Size() > 0 || // want `Size in deterministic code`
		d.Empty()
}
