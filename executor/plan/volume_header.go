package plan

import "github.com/holdfast-storage/holdfast/fsm"

// RestoreHeaderVerb is what an operator types about a header that is missing.
const RestoreHeaderVerb = "holdfast volumes restore-header"

// nextRestoreHeader writes the backup of a header that is missing, once and only where an operator decided so (S62).
func nextRestoreHeader(want *VolumeSpec, have *ObservedVolume) Step {
	switch {
	case have.Crypt.Restored:
		return refuse(fsm.Precondition, "the LUKS header of volume %s is still missing on this host although its backup was restored", want.Volume)
	case want.Grant.Crypt.Restore:
		return Step{Kind: StepRestoreHeader}
	}
	return refuse(fsm.Precondition, "the LUKS header of volume %s is missing on this host; it is never made again, which would end its data: `%s %s` restores a backup of it",
		want.Volume, RestoreHeaderVerb, want.Volume)
}

// wantsHeaderBackup reports whether the mapping was opened and this host has not copied its header since: another
// host may have made it, or changed its keys (S65). Of a volume that is in use nothing is read for it: its I/O may be
// suspended, and the read would not end.
func (o *ObservedVolume) wantsHeaderBackup() bool {
	return o.Crypt != nil && o.Crypt.Mapping.Exists && !o.Crypt.BackedUp && !o.Staged && len(o.BoundTargets) == 0
}
