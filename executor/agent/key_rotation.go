package agent

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// perform does one step of a rotation. Whatever changed the header before, the next step reads it again.
func (j *rotation) perform(ctx context.Context, kind plan.StepKind) error {
	switch kind {
	case plan.StepReadSlots:
		return j.readSlots(ctx)
	case plan.StepBeginRotation:
		return j.begin(ctx)
	case plan.StepAddKey:
		return j.addKey(ctx)
	case plan.StepCheckKey:
		return j.checkKey(ctx)
	case plan.StepReportKeyAdded:
		return j.reportAdded(ctx)
	case plan.StepDropKey:
		return j.dropKey(ctx)
	case plan.StepBackUpRotated:
		return j.backUp(ctx)
	}
	return j.reportDropped(ctx)
}

// readSlots reads which slots have a key; the first time also which of them the new key opens, and
// whether an old one opens any.
func (j *rotation) readSlots(ctx context.Context) error {
	header, err := j.Encryptor.ProbeHeader(ctx, j.device)
	if err != nil {
		return err
	}
	if header.UUID == "" || len(header.Slots) == 0 {
		return fsm.Reject(fsm.Precondition, "the LUKS header of volume %s is missing on this host: restore it", j.v.id)
	}
	j.view.Slots = make([]uint32, len(header.Slots))
	for i, slot := range header.Slots {
		j.view.Slots[i] = uint32(slot)
	}
	if j.view.Begun {
		return nil
	}
	if j.opened, err = j.openedBy(ctx, j.req.New, false); err != nil {
		return err
	}
	j.known, err = j.knownKey(ctx)
	j.view.Authenticated = !j.known.IsZero()
	return err
}

// openedBy are the slots that a passphrase opens, or the first of them.
func (j *rotation) openedBy(ctx context.Context, key executor.Passphrase, first bool) (opened []uint32, err error) {
	for _, slot := range j.view.Slots {
		opens, err := j.Encryptor.OpensSlot(ctx, j.device, int(slot), key)
		if err != nil {
			return nil, err
		}
		if opens {
			opened = append(opened, slot)
		}
		if opens && first {
			break
		}
	}
	return opened, nil
}

// knownKey is a passphrase that opens a slot: an old one, or else the new one. The zero Passphrase: none does.
func (j *rotation) knownKey(ctx context.Context) (executor.Passphrase, error) {
	if len(j.opened) > 0 {
		return j.req.New, nil
	}
	for _, old := range j.req.Old {
		if old.IsZero() || old == j.req.New {
			continue
		}
		if opened, err := j.openedBy(ctx, old, true); err != nil || len(opened) > 0 {
			return old, err
		}
	}
	return executor.Passphrase{}, nil
}

// begin has the log name the slot for the new key.
func (j *rotation) begin(ctx context.Context) error {
	session, err := j.actingSession()
	if err != nil {
		return err
	}
	number, err := j.records.reserveSequence(j.v)
	if err != nil {
		return err
	}
	outcome, err := j.proposer.propose(ctx, j.call, &fsmpb.Command{Body: &fsmpb.Command_BeginKeyRotation{BeginKeyRotation: &fsmpb.BeginKeyRotation{
		VolumeId: string(j.v.id), NodeId: string(j.Node), HostId: string(j.Host.ID), BootId: j.Host.BootID,
		Epoch: j.staging.Proto(), Sequence: number, Slots: j.view.Slots, Opened: j.opened, Renew: j.isRenewal(),
	}}})
	if err != nil {
		return err
	}
	if _, _, err := j.proposer.grantOf(session, outcome); err != nil {
		return err
	}
	if c := fsm.CryptFrom(outcome.GetGrant().GetCrypt()); c != nil {
		j.view.Rotation, j.generation = c.Rotation, c.KeyGeneration
	}
	j.view.Begun = true
	return nil
}

func (j *rotation) addKey(ctx context.Context) error {
	err := j.Encryptor.AddKey(ctx, j.device, int(j.view.Rotation.Slot), j.known, j.req.New)
	j.view.Slots, j.view.Opens = nil, false
	return err
}

// checkKey sees that the new key opens its slot.
func (j *rotation) checkKey(ctx context.Context) (err error) {
	slot := j.view.Rotation.Slot
	if j.view.Opens, err = j.Encryptor.OpensSlot(ctx, j.device, int(slot), j.req.New); err == nil && !j.view.Opens {
		err = fsm.Reject(fsm.Busy, "volume %s: slot %d of its header has another key; retry", j.v.id, slot)
	}
	return err
}

// reportAdded has it committed that the new key was added. Before anything is removed the key is checked again.
func (j *rotation) reportAdded(ctx context.Context) error {
	r := *j.view.Rotation
	if err := j.report(ctx, &fsmpb.Observation{Fact: &fsmpb.Observation_KeyAdded{KeyAdded: &fsmpb.KeyAdded{Slot: r.Slot}}}); err != nil {
		return err
	}
	r.Added = true
	j.view.Rotation, j.view.Slots, j.view.Opens = &r, nil, false
	return nil
}

// dropKey removes one slot, just after the new key was seen to open its own.
func (j *rotation) dropKey(ctx context.Context) error {
	err := j.Encryptor.KillSlot(ctx, j.device, int(j.view.SlotToDrop()), j.req.New)
	j.view.Slots, j.view.Opens = nil, false
	return err
}

// backUp replaces the copy of the header, which has a key of before (S65). Until the log says that the rotation is
// done the copy counts as one of the generation before: another host may end it with another key.
func (j *rotation) backUp(ctx context.Context) error {
	err := j.records.backUpHeader(ctx, j.v, j.device, j.generation)
	j.view.BackedUp = err == nil
	return err
}

// reportDropped has it committed that the rotation is done. From then on the copy of the header is of the new generation.
func (j *rotation) reportDropped(ctx context.Context) error {
	err := j.report(ctx, &fsmpb.Observation{Fact: &fsmpb.Observation_KeyDropped{KeyDropped: &fsmpb.KeyDropped{Slot: j.view.Rotation.Slot}}})
	j.hitFaultPoint("key-dropped.acknowledged")
	if err != nil {
		return err
	}
	return j.records.recordHeaderGeneration(j.v, j.generation+1)
}

// report has a step committed, under the publication under which the volume is staged.
func (j *rotation) report(ctx context.Context, ob *fsmpb.Observation) error {
	number, err := j.records.reserveSequence(j.v)
	if err != nil {
		return err
	}
	ob.VolumeId, ob.Epoch, ob.Sequence = string(j.v.id), j.staging.Proto(), number
	at, err := j.reports.reportAndWait(ctx, j.call, ob)
	if errors.Is(err, errSuperseded) {
		return fsm.Reject(fsm.StaleEpoch, "volume %s: its publication to this host at epoch %s was ended meanwhile", j.v.id, j.staging)
	}
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if at.Incarnation != j.session.at.Incarnation {
		return errSessionChanged
	}
	return nil
}
