package agent

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// keepSnapshotManifest is keepManifest of a snapshot. The worker that has the snapshot calls it.
func (sw *snapshotWorker) keepSnapshotManifest(snap *snapshotState) {
	sw.mu.Lock()
	var content string
	at, adopted := snap.desiredAt, sw.session.adopted
	if snap.desired != nil {
		content = snap.desired.Manifest
	}
	sw.mu.Unlock()
	if !adopted {
		return
	}
	if err := keepManifest(sw.Host.Dir(), snap.id, at, content, &snap.manifest); err != nil {
		sw.Logger.Warn("cannot keep what the log says of the snapshot", "snapshot", snap.id, "error", err)
	}
}

// noteSnapshotRemoved notes in the snapshot's manifest that it was removed, as the log said. The worker that has the
// snapshot calls it.
func (sw *snapshotWorker) noteSnapshotRemoved(snap *snapshotState) {
	sw.mu.Lock()
	at := snap.desiredAt
	sw.mu.Unlock()
	if err := noteRemoved(sw.Host.Dir(), snap.id, at, &snap.manifest); err != nil {
		sw.Logger.Warn("cannot note that the snapshot was removed", "snapshot", snap.id, "error", err)
	}
}

func (l *lister) heldSnapshot(ctx context.Context, m *records.Manifest[fsm.SnapshotID]) (*fsmpb.HeldSnapshot, error) {
	held := &fsmpb.HeldSnapshot{Manifest: &fsmpb.SnapshotManifest{}, At: m.At.Proto(), Removed: m.Removed}
	if err := proto.Unmarshal(m.Content, held.Manifest); err != nil || held.GetManifest().GetSnapshotId() != string(m.ID) {
		held.Manifest = nil // it is of another build, or damaged: the image is an orphan
		return held, nil
	}
	says := held.GetManifest()
	backend, err := l.poolSet.snapshotPool(&fsm.DesiredSnapshot{
		Snapshot: m.ID, Source: fsm.VolumeID(says.GetSourceVolumeId()), Pool: fsm.PoolID(says.GetPoolId()), Size: says.GetSizeBytes(), Encrypted: says.GetCrypt() != nil,
	})
	if err != nil {
		return held, nil //nolint:nilerr // its pool is not on this host any more: there is no image
	}
	have, err := backend.ObserveSnapshot(ctx, m.ID)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at snapshot %s: %w", m.ID, err)
	case have.Absent:
		return nil, fmt.Errorf("pool %s is absent", says.GetPoolId())
	case have.Exists:
		held.SizeBytes = have.Size
	}
	return held, nil
}
