package agent

import (
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// Update takes in an update of the session. It returns quickly; the work is done in the background.
func (a *Agent) Update(u executor.Update) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u.Full {
		a.session.number++
		a.intake.dropUnlisted(&u)
	}
	if u.At.Incarnation != a.session.at.Incarnation {
		a.intake.resetForIncarnation()
	}
	if u.Full || u.Adopted != a.session.adopted || u.FeatureLevel != a.session.level {
		a.triggerKeptScan()
	}
	a.session.at, a.session.adopted, a.session.incarnationID = u.At, u.Adopted, u.IncarnationID
	a.session.level = u.FeatureLevel
	for i := range u.Volumes {
		a.intake.setDesired(u.Volumes[i].Volume, &u.Volumes[i], u.At)
	}
	for _, id := range u.VolumesGone {
		a.intake.setDesired(id, nil, u.At)
	}
	for i := range u.Snapshots {
		a.intake.setDesiredSnapshot(u.Snapshots[i].Snapshot, &u.Snapshots[i], u.At)
	}
	for _, id := range u.SnapshotsGone {
		a.intake.setDesiredSnapshot(id, nil, u.At)
	}
	a.intake.requeueAwaiting()
}

// resetForIncarnation forgets generations and acknowledgements. Another incarnation issues the
// same indexes again (S1), and its log may lack what this one's acknowledged. The caller
// holds table.mu.
func (in *sessionIntake) resetForIncarnation() {
	for _, v := range in.volumes {
		v.replica.generation, v.replica.connectedGeneration, v.replica.outdatedAt = 0, 0, fsm.Epoch{}
		clear(v.committed)
		v.ackedHealth, v.ackedLimits = nil, nil
	}
	for _, snap := range in.snapshots {
		clear(snap.acked) // lasting facts too: no desired state would show that they are missing
	}
}

// dropUnlisted drops the desired state of volumes that a full update does not list.
func (in *sessionIntake) dropUnlisted(u *executor.Update) {
	listed := map[fsm.VolumeID]bool{}
	for i := range u.Volumes {
		listed[u.Volumes[i].Volume] = true
	}
	for _, id := range sortedKeys(in.volumes) {
		v := in.volumes[id]
		switch {
		case listed[id]:
		case v.desired != nil || in.session.number == 1:
			in.setDesired(id, nil, u.At)
		default:
			v.desiredAt = u.At
		}
	}
	in.dropUnlistedSnapshots(u)
}

// setDesired notes the desired state of a volume, nil for none. The caller holds table.mu.
func (in *sessionIntake) setDesired(id fsm.VolumeID, d *fsm.DesiredVolume, at fsm.Epoch) {
	v, known := in.volumes[id]
	if !known {
		if d == nil || !id.Valid() {
			return
		}
		v = in.volumeEntry(id)
	}
	v.desired, v.desiredAt = d, at
	v.noteGeneration(d)
	v.dropShown(at)
	close(v.desiredChanged)
	v.desiredChanged = make(chan struct{})
	if !plantedbug.Is(plantedbug.WakeupLost) {
		in.volumeQueue.add(id)
	}
}

// requeueAwaiting queues the volumes that wait for the session to catch up. The caller holds
// table.mu.
func (in *sessionIntake) requeueAwaiting() {
	for _, id := range sortedKeys(in.awaitingSession) {
		delete(in.awaitingSession, id)
		in.volumeQueue.add(id)
	}
	for _, id := range sortedKeys(in.snapshots) {
		if snap := in.snapshots[id]; snap.awaitingSession {
			snap.awaitingSession = false
			in.snapshotQueue.add(snap.id)
		}
	}
}
