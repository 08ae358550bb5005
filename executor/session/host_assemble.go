package session

import (
	"bytes"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// updateAssembler reassembles the updates that one session's messages carry, and refuses what a host
// must not act on. It is pure.
type updateAssembler struct {
	// actedEpoch is the highest epoch that the host acted on, with its incarnation's id.
	actedEpoch         fsm.Epoch
	actedIncarnationID []byte

	welcome     *sessionpb.Welcome
	lastEpoch   fsm.Epoch // of the last message
	delivered   bool      // an update was returned
	lastAdopted bool      // of the last update
	lastLevel   uint32    // of the last update
	pending     *executor.Update
}

// add handles one message. It returns an update when one is complete and is not
// a heartbeat only. After an error the session must end.
func (a *updateAssembler) add(m *sessionpb.ToNode) (*executor.Update, error) {
	switch body := m.GetBody().(type) {
	case *sessionpb.ToNode_Welcome:
		a.welcome = body.Welcome
	case *sessionpb.ToNode_Desired:
		return a.addDesired(body.Desired)
	}
	return nil, nil
}

func (a *updateAssembler) addDesired(d *sessionpb.DesiredState) (*executor.Update, error) {
	at := fsm.EpochFrom(d.GetAt())
	if err := a.checkEpoch(at, d); err != nil {
		return nil, err
	}
	a.lastEpoch = at
	a.merge(d)
	if d.GetMore() {
		return nil, nil
	}
	u := a.pending
	a.pending = nil
	if a.delivered && !u.Full && isEmpty(u) && u.Adopted == a.lastAdopted && u.FeatureLevel == a.lastLevel {
		return nil, nil // a heartbeat
	}
	a.delivered, a.lastAdopted, a.lastLevel = true, u.Adopted, u.FeatureLevel
	return u, nil
}

// isEmpty tells whether the update names nothing.
func isEmpty(u *executor.Update) bool {
	return len(u.Volumes)+len(u.VolumesGone)+len(u.Snapshots)+len(u.SnapshotsGone) == 0
}

// checkEpoch refuses desired state that is older than what the host acted on (S14), or of another
// incarnation than that of the Welcome message.
func (a *updateAssembler) checkEpoch(at fsm.Epoch, d *sessionpb.DesiredState) error {
	switch {
	case a.welcome == nil:
		return fmt.Errorf("desired state at %s came before a welcome", at)
	case at.Incarnation != a.welcome.GetIncarnation():
		return fmt.Errorf("desired state at %s is not of the incarnation %d of the controller's welcome", at, a.welcome.GetIncarnation())
	case at.Compare(a.actedEpoch) < 0:
		return fmt.Errorf("desired state at %s is older than %s, which this host acted on (S14)", at, a.actedEpoch)
	case at.Compare(a.lastEpoch) < 0:
		return fmt.Errorf("desired state at %s came after that at %s", at, a.lastEpoch)
	case !a.delivered && !d.GetFull():
		return fmt.Errorf("the first desired state, at %s, is not the full one", at)
	}
	return nil
}

func (a *updateAssembler) merge(d *sessionpb.DesiredState) {
	if a.pending == nil {
		a.pending = &executor.Update{IncarnationID: bytes.Clone(a.welcome.GetIncarnationId())}
	}
	u := a.pending
	u.At, u.Full = a.lastEpoch, u.Full || d.GetFull()
	u.Adopted = d.GetAdopted() && !a.foreignIncarnation()
	u.FeatureLevel = max(fsm.Level1, d.GetFeatureLevel())
	for _, p := range d.GetVolumes() {
		u.Volumes = append(u.Volumes, desiredVolumeFromProto(p))
	}
	for _, id := range d.GetVolumesGone() {
		u.VolumesGone = append(u.VolumesGone, fsm.VolumeID(id))
	}
	for _, p := range d.GetSnapshots() {
		u.Snapshots = append(u.Snapshots, desiredSnapshots.read(p))
	}
	for _, id := range d.GetSnapshotsGone() {
		u.SnapshotsGone = append(u.SnapshotsGone, fsm.SnapshotID(id))
	}
}

// foreignIncarnation tells whether the incarnation has the host's counter and another id,
// as after two recoveries (S1). The log may record the host as
// adopted then, since it compares the counter; the host compares the id.
func (a *updateAssembler) foreignIncarnation() bool {
	return a.welcome.GetIncarnation() == a.actedEpoch.Incarnation && len(a.actedIncarnationID) > 0 &&
		!bytes.Equal(a.actedIncarnationID, a.welcome.GetIncarnationId())
}
