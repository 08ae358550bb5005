package agent

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor"
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
	known := fmt.Sprint(at.Incarnation, " ", content) // the same of a later incarnation is written again: it is newer
	if content == "" || known == snap.manifest || !adopted {
		return
	}
	m, err := records.ReadSnapshotManifest(sw.Host.Dir(), snap.id)
	if err == nil && m.At.Compare(at) > 0 {
		return // this controller lags
	}
	if err == nil && (string(m.Content) != content || m.Removed || m.At.Incarnation != at.Incarnation) {
		m = records.SnapshotManifest{Snapshot: snap.id, At: at, Content: []byte(content)}
		err = m.Save(sw.Host.Dir())
	}
	if err != nil {
		sw.Logger.Warn("cannot keep what the log says of the snapshot", "snapshot", snap.id, "error", err)
		return
	}
	snap.manifest = known
}

// noteSnapshotRemoved notes in the snapshot's manifest that it was removed, as the log said. The worker that has the
// snapshot calls it.
func (sw *snapshotWorker) noteSnapshotRemoved(snap *snapshotState) {
	sw.mu.Lock()
	at := snap.desiredAt
	sw.mu.Unlock()
	m, err := records.ReadSnapshotManifest(sw.Host.Dir(), snap.id)
	if err == nil && m.Snapshot == snap.id && !m.Removed {
		m.At, m.Removed = at, true
		err = m.Save(sw.Host.Dir())
	}
	if snap.manifest = ""; err != nil {
		sw.Logger.Warn("cannot note that the snapshot was removed", "snapshot", snap.id, "error", err)
	}
}

// heldSnapshots lists what the host has of each snapshot: what the log said last, and the image.
func (l *lister) heldSnapshots(ctx context.Context) (found executor.Inventory, err error) {
	manifests, err := records.SnapshotManifests(l.Host.Dir())
	if err != nil {
		return found, err
	}
	for _, m := range manifests {
		held, err := l.heldSnapshot(ctx, &m)
		if err != nil {
			return found, err
		}
		text, err := proto.Marshal(held)
		if err != nil {
			return found, err
		}
		found.Items = append(found.Items, executor.InventoryItem{Kind: executor.KindHeldSnapshot, Snapshot: m.Snapshot, Held: string(text)})
	}
	return found, nil
}

func (l *lister) heldSnapshot(ctx context.Context, m *records.SnapshotManifest) (*fsmpb.HeldSnapshot, error) {
	held := &fsmpb.HeldSnapshot{Manifest: &fsmpb.SnapshotManifest{}, At: m.At.Proto(), Removed: m.Removed}
	if err := proto.Unmarshal(m.Content, held.Manifest); err != nil || held.GetManifest().GetSnapshotId() != string(m.Snapshot) {
		held.Manifest = nil // it is of another build, or damaged: the image is an orphan
		return held, nil
	}
	says := held.GetManifest()
	backend, err := l.poolSet.snapshotPool(&fsm.DesiredSnapshot{
		Snapshot: m.Snapshot, Source: fsm.VolumeID(says.GetSourceVolumeId()), Pool: fsm.PoolID(says.GetPoolId()), Size: says.GetSizeBytes(), Encrypted: says.GetCrypt() != nil,
	})
	if err != nil {
		return held, nil //nolint:nilerr // its pool is not on this host any more: there is no image
	}
	have, err := backend.ObserveSnapshot(ctx, m.Snapshot)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at snapshot %s: %w", m.Snapshot, err)
	case have.Absent:
		return nil, fmt.Errorf("pool %s is absent", says.GetPoolId())
	case have.Exists:
		held.SizeBytes = have.Size
	}
	return held, nil
}
