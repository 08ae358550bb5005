package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// restoreHeader writes the host's backup onto a device whose header is missing. It looks at the device once more,
// and leaves alone what is there; a backup of another header is never written (S62), nor one of before a rotation (S65).
func (j *job) restoreHeader(ctx context.Context, below string) error {
	want, generation := j.want.Grant.Crypt.UUID, j.want.Grant.Crypt.KeyGeneration
	backup, err := j.backupUUID(ctx, j.v.id)
	switch {
	case err != nil:
		return err
	case backup == "":
		return fsm.Reject(fsm.Precondition, "this host has no backup of the LUKS header of volume %s: nothing was written", j.v.id)
	case backup != want:
		return fsm.Reject(fsm.Precondition, "the backup on this host is of the LUKS header %s, not of %s that was made for volume %s: nothing was written", backup, want, j.v.id)
	case j.v.record.HeaderGeneration < generation:
		return fsm.Reject(fsm.Precondition, "the backup on this host of the LUKS header of volume %s is of key generation %d, the volume's is %d: it would bring back a key that was replaced; nothing was written",
			j.v.id, j.v.record.HeaderGeneration, generation)
	}
	there, err := j.Encryptor.ProbeHeader(ctx, below)
	if err != nil {
		return err
	}
	isThere := there.UUID != "" && len(there.Slots) > 0
	if !isThere {
		if err := j.checkBackupOpens(ctx); err != nil {
			return err
		}
	}
	j.v.crypt = cryptState{restored: true} // however it ends, it is read again
	if isThere {
		return nil
	}
	return j.Encryptor.RestoreHeader(ctx, below, j.headerBackup(j.v.id))
}

// checkBackupOpens refuses a backup that no passphrase of the stage opens. It may be from before another host replaced the
// key: written, it would be the header that is there, over which the newer backup of that host is never written.
func (j *job) checkBackupOpens(ctx context.Context) error {
	file := j.headerBackup(j.v.id)
	backup, err := j.Encryptor.ProbeHeader(ctx, file)
	if err != nil {
		return err
	}
	for _, key := range j.keys {
		for _, slot := range backup.Slots {
			if key.IsZero() {
				continue
			}
			if opens, err := j.Encryptor.OpensSlot(ctx, file, slot, key); opens || err != nil {
				return err
			}
		}
	}
	return fsm.Reject(fsm.Unauthenticated, "the passphrase opens no slot of this host's backup of the LUKS header of volume %s, which may be from before the key was replaced on another host: nothing was written", j.v.id)
}
