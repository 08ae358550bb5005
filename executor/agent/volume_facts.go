package agent

import (
	"context"
	"errors"
	"os"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// VolumeFacts observes this host's replica of a volume. NotFound: there is none.
func (a *Agent) VolumeFacts(ctx context.Context, id fsm.VolumeID) (facts executor.VolumeFacts, err error) {
	a.mu.Lock()
	v := a.volumes[id]
	if v != nil {
		facts.HeaderBackupGeneration = v.recordCopy.HeaderGeneration
	}
	a.mu.Unlock()
	if v == nil {
		return facts, fsm.Reject(fsm.NotFound, "volume %s is not on this node", id)
	}
	usage, err := a.reclaimer.measure(ctx, v)
	if err != nil {
		return facts, err
	}
	facts.AllocatedKnown, facts.Allocated = usage.Known, usage.After
	facts.HeaderBackup, err = a.backupUUID(ctx, id)
	return facts, err
}

// backupUUID is the UUID of the header in the backup; empty: there is none that opens anything.
func (t *table) backupUUID(ctx context.Context, id fsm.VolumeID) (string, error) {
	if t.Encryptor == nil {
		return "", nil
	}
	header, err := t.Encryptor.ProbeHeader(ctx, t.headerBackup(id))
	if errors.Is(err, os.ErrNotExist) || err == nil && len(header.Slots) == 0 {
		return "", nil
	}
	return header.UUID, err
}
