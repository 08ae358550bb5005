package session

import (
	"bytes"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// assembler makes updates of one session's messages, and refuses what a host
// must not act on. It is pure.
type assembler struct {
	// seen and seenID are the epoch that the host acted on and its incarnation's id.
	seen   fsm.Epoch
	seenID []byte

	welcome *sessionpb.Welcome
	at      fsm.Epoch // of the last message
	began   bool      // an update was made
	adopted bool      // as the last update said
	level   uint32    // as the last update said
	pending *executor.Update
}

// add takes in a message. It answers an update when one is complete and says
// something. After an error the session is over.
func (a *assembler) add(m *sessionpb.ToNode) (*executor.Update, error) {
	switch body := m.GetBody().(type) {
	case *sessionpb.ToNode_Welcome:
		a.welcome = body.Welcome
	case *sessionpb.ToNode_Wishes:
		return a.wishes(body.Wishes)
	}
	return nil, nil
}

func (a *assembler) wishes(w *sessionpb.Wishes) (*executor.Update, error) {
	at := epochFromProto(w.GetAt())
	if err := a.check(at, w); err != nil {
		return nil, err
	}
	a.at = at
	a.merge(w)
	if w.GetMore() {
		return nil, nil
	}
	u := a.pending
	a.pending = nil
	if a.began && !u.Full && empty(u) && u.Adopted == a.adopted && u.FeatureLevel == a.level {
		return nil, nil // a heartbeat
	}
	a.began, a.adopted, a.level = true, u.Adopted, u.FeatureLevel
	return u, nil
}

// empty tells whether the update names nothing.
func empty(u *executor.Update) bool {
	return len(u.Volumes)+len(u.VolumesGone)+len(u.Snapshots)+len(u.SnapshotsGone) == 0
}

// check refuses wishes that are older than what was acted on (S14) or that do not
// belong to the incarnation that the controller said.
func (a *assembler) check(at fsm.Epoch, w *sessionpb.Wishes) error {
	switch {
	case a.welcome == nil:
		return fmt.Errorf("wishes at %s came before a welcome", at)
	case at.Incarnation != a.welcome.GetIncarnation():
		return fmt.Errorf("wishes at %s are not of the incarnation %d that the controller said", at, a.welcome.GetIncarnation())
	case at.Compare(a.seen) < 0:
		return fmt.Errorf("wishes at %s are older than %s, which this host acted on (S14)", at, a.seen)
	case at.Compare(a.at) < 0:
		return fmt.Errorf("wishes at %s came after those at %s", at, a.at)
	case !a.began && !w.GetFull():
		return fmt.Errorf("the first wishes, at %s, are not all wishes", at)
	}
	return nil
}

func (a *assembler) merge(w *sessionpb.Wishes) {
	if a.pending == nil {
		a.pending = &executor.Update{IncarnationID: bytes.Clone(a.welcome.GetIncarnationId())}
	}
	u := a.pending
	u.At, u.Full = a.at, u.Full || w.GetFull()
	u.Adopted = w.GetAdopted() && !a.stranger()
	u.FeatureLevel = max(fsm.Level1, w.GetFeatureLevel())
	for _, p := range w.GetWishes() {
		u.Volumes = append(u.Volumes, wishFromProto(p))
	}
	for _, id := range w.GetGone() {
		u.VolumesGone = append(u.VolumesGone, fsm.VolumeID(id))
	}
	for _, p := range w.GetSnapshots() {
		u.Snapshots = append(u.Snapshots, snapshotWishFromProto(p))
	}
	for _, id := range w.GetSnapshotsGone() {
		u.SnapshotsGone = append(u.SnapshotsGone, fsm.SnapshotID(id))
	}
}

// stranger tells whether the incarnation is another than the host's under the
// same counter, as two recoveries may make (S1). The log may call the host
// adopted then, since it goes by the counter; the host goes by the id.
func (a *assembler) stranger() bool {
	return a.welcome.GetIncarnation() == a.seen.Incarnation && len(a.seenID) > 0 &&
		!bytes.Equal(a.seenID, a.welcome.GetIncarnationId())
}
