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

// keepManifest keeps what the log says of the volume, for a day on which the log is lost. That it cannot be written keeps
// nothing back. The caller holds the volume's lock.
func (w *volumeWorker) keepManifest(v *volume) {
	w.mu.Lock()
	var content string
	at, adopted := v.desiredAt, w.session.adopted
	if v.desired != nil {
		content = v.desired.Manifest
	}
	w.mu.Unlock()
	known := fmt.Sprint(at.Incarnation, " ", content) // the same of a later incarnation is written again: it is newer
	if content == "" || known == v.manifest || !adopted {
		return
	}
	m, err := records.ReadManifest(w.Host.Dir(), v.id)
	if err == nil && m.At.Compare(at) > 0 {
		return // this controller lags
	}
	if err == nil && (string(m.Content) != content || m.Removed || m.At.Incarnation != at.Incarnation) {
		m = records.Manifest{Volume: v.id, At: at, Content: []byte(content)}
		err = m.Save(w.Host.Dir())
	}
	if err != nil {
		w.logger(v).Warn("cannot keep what the log says of the volume", "error", err)
		return
	}
	v.manifest = known
}

// noteRemoved notes in the volume's manifest that its device was removed, as the log said at the epoch. The caller holds
// the volume's lock.
func (w *volumeWorker) noteRemoved(v *volume, at fsm.Epoch) {
	m, err := records.ReadManifest(w.Host.Dir(), v.id)
	if err == nil && m.Volume == v.id && !m.Removed {
		m.At, m.Removed = at, true
		err = m.Save(w.Host.Dir())
	}
	if v.manifest = ""; err != nil {
		w.logger(v).Warn("cannot note that the volume was removed", "error", err)
	}
}

// Held lists what the host has of each volume: what the log said last, the device, and how it is staged; and of each snapshot.
func (a *Agent) Held(ctx context.Context) (executor.Inventory, error) {
	manifests, err := records.Manifests(a.Host.Dir())
	if err != nil {
		return executor.Inventory{}, err
	}
	found, err := a.lister.heldSnapshots(ctx)
	if err != nil {
		return executor.Inventory{}, err
	}
	for _, m := range manifests {
		held, err := a.lister.held(ctx, &m)
		if err != nil {
			return executor.Inventory{}, err
		}
		text, err := proto.Marshal(held)
		if err != nil {
			return executor.Inventory{}, err
		}
		found.Items = append(found.Items, executor.InventoryItem{Kind: executor.KindHeld, Volume: m.Volume, Held: string(text)})
	}
	return found, nil
}

func (l *lister) held(ctx context.Context, m *records.Manifest) (*fsmpb.HeldVolume, error) {
	held := &fsmpb.HeldVolume{Manifest: &fsmpb.VolumeManifest{}, At: m.At.Proto(), Removed: m.Removed}
	if err := proto.Unmarshal(m.Content, held.Manifest); err != nil {
		held.Manifest = nil // it is of another build, or damaged: the device is an orphan
	}
	for _, pool := range l.Pools {
		have, err := pool.Observe(ctx, m.Volume)
		if err != nil {
			return nil, err
		}
		if have.Absent {
			return nil, fmt.Errorf("pool %s is absent", pool.ID())
		}
		if have.Exists {
			held.SizeBytes = have.Size
		}
	}
	record := l.recordOf(m.Volume)
	if s := record.Staging; s != nil {
		held.Staged = s.Epoch.Proto()
	}
	if r := record.Replica; r != nil {
		held.Attachment, held.AttachedIn = r.Attachment, r.Boot
		held.Replica = r.MetadataMade || r.PlainBytes > 0
	}
	return held, nil
}

// recordOf is what the host records of a volume, empty where it has no record.
func (l *lister) recordOf(id fsm.VolumeID) records.VolumeRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.volumes[id]; v != nil {
		return v.recordCopy
	}
	return records.VolumeRecord{}
}
