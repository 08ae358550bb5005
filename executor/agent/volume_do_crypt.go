package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// performCryptStep does the steps of encrypted volumes that need a grant.
func (j *job) performCryptStep(ctx context.Context, s plan.Step, have *plan.ObservedVolume) (done bool, err error) {
	g, below := j.want.Grant.Crypt, ""
	if have.Crypt != nil {
		below = have.Crypt.Below.Path
	}
	switch s.Kind {
	case plan.StepProbeHeader:
		err = j.probeHeader(ctx, below)
	case plan.StepFormatHeader:
		j.v.crypt = cryptState{} // however it ends
		err = j.Encryptor.Format(ctx, below, g.UUID, j.key())
	case plan.StepChangeHeaderUUID:
		j.v.crypt = cryptState{}
		err = j.Encryptor.ChangeUUID(ctx, below, g.UUID)
	case plan.StepBackUpHeader:
		err = j.records.backUpHeader(ctx, j.v, below, g.KeyGeneration)
	case plan.StepReportHeader:
		err = j.reportHeader(ctx)
	case plan.StepRestoreHeader:
		err = j.restoreHeader(ctx, below)
	case plan.StepOpenMapping:
		err = j.Encryptor.Open(ctx, j.v.id, below, executor.OpenOptions{ReadOnly: j.want.Grant.Block && j.want.Grant.ReadOnly, Discards: g.Discards}, j.keys...)
	case plan.StepResizeMapping:
		err = j.resizeMapping(ctx)
	default:
		return false, nil
	}
	return true, err
}

// probeHeader reads the header, and records whether one that the log knows is missing: that is the volume's
// condition until it is found (S62).
func (j *job) probeHeader(ctx context.Context, below string) error {
	header, err := j.Encryptor.ProbeHeader(ctx, below)
	if err != nil {
		return err
	}
	j.v.crypt.header = header
	missing := !j.want.Grant.Crypt.Formatting && (header.UUID == "" || len(header.Slots) == 0)
	if j.v.record.HeaderMissing == missing {
		return nil
	}
	j.v.record.HeaderMissing = missing
	return j.records.saveRecord(j.v, true)
}

// key is the passphrase that a new header gets.
func (j *job) key() executor.Passphrase {
	if len(j.keys) == 0 {
		return executor.Passphrase{}
	}
	return j.keys[0]
}

// checkKeys refuses to bring an encrypted volume up without a passphrase.
func (j *job) checkKeys() error {
	if j.want.Grant.Crypt != nil && j.key().IsZero() {
		return errNoPassphrase(j.v.id)
	}
	return nil
}

func errNoPassphrase(id fsm.VolumeID) error {
	return fsm.Reject(fsm.Invalid, "volume %s is encrypted: the secret encryptionPassphrase is required", id)
}

// reportHeader has the header committed before anything is written above it (S62).
func (j *job) reportHeader(ctx context.Context) error {
	g := j.want.Grant
	_, err := j.reports.reportAndWait(ctx, j.call, &fsmpb.Observation{
		VolumeId: string(j.v.id), Epoch: g.Epoch.Proto(),
		Fact: &fsmpb.Observation_HeaderMade{HeaderMade: &fsmpb.HeaderMade{LuksUuid: g.Crypt.UUID}},
	})
	if err == nil {
		g.Crypt.Formatting, g.Crypt.Cloned = false, false
	}
	return err
}

// resizeMapping needs a passphrase, as the kernel keeps the key to itself.
func (j *job) resizeMapping(ctx context.Context) error {
	if j.key().IsZero() {
		return fsm.Reject(fsm.Precondition, "volume %s is encrypted: without the secret encryptionPassphrase it grows when it is staged the next time", j.v.id)
	}
	return j.Encryptor.Resize(ctx, j.v.id, j.keys...)
}

// closeMapping ends the mapping. Its limits go with it.
func (j *job) closeMapping(ctx context.Context, have *plan.ObservedVolume) error {
	if err := j.unthrottle(ctx, have); err != nil {
		return err
	}
	return j.Encryptor.Close(ctx, j.v.id)
}

// wipeHeader overwrites the header of an image that is about to be removed, and removes the copy of it. That is
// recorded first: whatever happens, the image is not a replica or a volume any more.
func (j *job) wipeHeader(ctx context.Context) error {
	pool, err := j.poolBelow(ctx)
	if err != nil {
		return err
	}
	j.v.record.HeaderWiped = true
	if err := j.records.saveRecord(j.v, true); err != nil {
		return err
	}
	j.hitFaultPoint("luks-wipe.recorded")
	if err := j.removeHeaderBackup(ctx, j.v.id); err != nil {
		return err
	}
	have, err := pool.Observe(ctx, j.v.id)
	if err != nil {
		return err
	}
	if have.Exists {
		if err := j.wipeImage(ctx, pool); err != nil {
			return err
		}
	}
	j.v.crypt.wiped = true
	return nil
}

func (j *job) wipeImage(ctx context.Context, pool executor.Backend) error {
	device, err := pool.Activate(ctx, j.v.id, false)
	if err != nil {
		return err
	}
	if err := j.Encryptor.WipeHeader(ctx, device.Path); err != nil {
		return err
	}
	j.hitFaultPoint("luks-wipe.wiped")
	return pool.Deactivate(ctx, j.v.id)
}

// poolBelow is the pool itself, without the views for replicas and for encryption.
func (j *job) poolBelow(ctx context.Context) (executor.Backend, error) {
	b, err := j.poolSet.backend(j.v)
	if err != nil {
		return nil, err
	}
	switch view := b.(type) {
	case *cryptBackend:
		return view.Backend, nil
	case *replicaBackend:
		have, err := view.observe(ctx)
		if err != nil {
			return nil, err
		}
		if have.InKernel {
			return nil, fsm.Reject(fsm.InUse, "the replica of volume %s is still in the kernel", j.v.id)
		}
		return view.Backend, nil
	}
	return b, nil
}
