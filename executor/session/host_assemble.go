package session

import (
	"bytes"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// updateAssembler makes updates of one session's messages, and refuses what a host
// must not act on. It is pure.
type updateAssembler struct {
	// seen and seenID are the epoch that the host acted on and its incarnation's id.
	actedEpoch         fsm.Epoch
	actedIncarnationID []byte

	welcome     *sessionpb.Welcome
	lastEpoch   fsm.Epoch // of the last message
	delivered   bool      // an update was made
	lastAdopted bool      // as the last update said
	lastLevel   uint32    // as the last update said
	pending     *executor.Update
}

// add takes in a message. It answers an update when one is complete and says
// something. After an error the session is over.
func (a *updateAssembler) add(m *sessionpb.ToNode) (*executor.Update, error) {
	switch body := m.GetBody().(type) {
	case *sessionpb.ToNode_Welcome:
		a.welcome = body.Welcome
	case *sessionpb.ToNode_Wishes:
		return a.addDesired(body.Wishes)
	}
	return nil, nil
}

func (a *updateAssembler) addDesired(w *sessionpb.Wishes) (*executor.Update, error) {
	at := epochFromProto(w.GetAt())
	if err := a.checkEpoch(at, w); err != nil {
		return nil, err
	}
	a.lastEpoch = at
	a.merge(w)
	if w.GetMore() {
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

// check refuses wishes that are older than what was acted on (S14) or that do not
// belong to the incarnation that the controller said.
func (a *updateAssembler) checkEpoch(at fsm.Epoch, w *sessionpb.Wishes) error {
	switch {
	case a.welcome == nil:
		return fmt.Errorf("wishes at %s came before a welcome", at)
	case at.Incarnation != a.welcome.GetIncarnation():
		return fmt.Errorf("wishes at %s are not of the incarnation %d that the controller said", at, a.welcome.GetIncarnation())
	case at.Compare(a.actedEpoch) < 0:
		return fmt.Errorf("wishes at %s are older than %s, which this host acted on (S14)", at, a.actedEpoch)
	case at.Compare(a.lastEpoch) < 0:
		return fmt.Errorf("wishes at %s came after those at %s", at, a.lastEpoch)
	case !a.delivered && !w.GetFull():
		return fmt.Errorf("the first wishes, at %s, are not all wishes", at)
	}
	return nil
}

func (a *updateAssembler) merge(w *sessionpb.Wishes) {
	if a.pending == nil {
		a.pending = &executor.Update{IncarnationID: bytes.Clone(a.welcome.GetIncarnationId())}
	}
	u := a.pending
	u.At, u.Full = a.lastEpoch, u.Full || w.GetFull()
	u.Adopted = w.GetAdopted() && !a.foreignIncarnation()
	u.FeatureLevel = max(fsm.Level1, w.GetFeatureLevel())
	for _, p := range w.GetWishes() {
		u.Volumes = append(u.Volumes, desiredVolumeFromProto(p))
	}
	for _, id := range w.GetGone() {
		u.VolumesGone = append(u.VolumesGone, fsm.VolumeID(id))
	}
	for _, p := range w.GetSnapshots() {
		u.Snapshots = append(u.Snapshots, desiredSnapshotFromProto(p))
	}
	for _, id := range w.GetSnapshotsGone() {
		u.SnapshotsGone = append(u.SnapshotsGone, fsm.SnapshotID(id))
	}
}

// foreignIncarnation tells whether the incarnation is another than the host's under the
// same counter, as two recoveries may make (S1). The log may call the host
// adopted then, since it goes by the counter; the host goes by the id.
func (a *updateAssembler) foreignIncarnation() bool {
	return a.welcome.GetIncarnation() == a.actedEpoch.Incarnation && len(a.actedIncarnationID) > 0 &&
		!bytes.Equal(a.actedIncarnationID, a.welcome.GetIncarnationId())
}
