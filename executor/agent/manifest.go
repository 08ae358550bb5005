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
	if !adopted {
		return
	}
	if err := keepManifest(w.Host.Dir(), v.id, at, content, &v.manifest); err != nil {
		w.logger(v).Warn("cannot keep what the log says of the volume", "error", err)
	}
}

// noteRemoved notes in the volume's manifest that its device was removed, as the log said at the epoch. The caller holds
// the volume's lock.
func (w *volumeWorker) noteRemoved(v *volume, at fsm.Epoch) {
	if err := noteRemoved(w.Host.Dir(), v.id, at, &v.manifest); err != nil {
		w.logger(v).Warn("cannot note that the volume was removed", "error", err)
	}
}

// Held lists what the host has of each volume: what the log said last, the device, and how it is staged; and of each snapshot.
func (a *Agent) Held(ctx context.Context) (executor.Inventory, error) {
	snapshots, err := heldOf(ctx, a.Host.Dir(), a.lister.heldSnapshot, func(id fsm.SnapshotID) executor.InventoryItem {
		return executor.InventoryItem{Kind: executor.KindHeldSnapshot, Snapshot: id}
	})
	if err != nil {
		return executor.Inventory{}, err
	}
	volumes, err := heldOf(ctx, a.Host.Dir(), a.lister.held, func(id fsm.VolumeID) executor.InventoryItem {
		return executor.InventoryItem{Kind: executor.KindHeld, Volume: id}
	})
	if err != nil {
		return executor.Inventory{}, err
	}
	return executor.Inventory{Items: append(snapshots, volumes...)}, nil
}

// heldOf lists what the host has of each volume, or of each snapshot, that it keeps a manifest of. look finds it out, and of
// makes the item for an id.
func heldOf[ID records.ManifestID, H proto.Message](
	ctx context.Context, dir string, look func(context.Context, *records.Manifest[ID]) (H, error), of func(ID) executor.InventoryItem,
) ([]executor.InventoryItem, error) {
	manifests, err := records.Manifests[ID](dir)
	if err != nil {
		return nil, err
	}
	var items []executor.InventoryItem
	for _, m := range manifests {
		held, err := look(ctx, &m)
		if err != nil {
			return nil, err
		}
		text, err := proto.Marshal(held)
		if err != nil {
			return nil, err
		}
		item := of(m.ID)
		item.Held = string(text)
		items = append(items, item)
	}
	return items, nil
}

func (l *lister) held(ctx context.Context, m *records.Manifest[fsm.VolumeID]) (*fsmpb.HeldVolume, error) {
	held := &fsmpb.HeldVolume{Manifest: &fsmpb.VolumeManifest{}, At: m.At.Proto(), Removed: m.Removed}
	if err := proto.Unmarshal(m.Content, held.Manifest); err != nil {
		held.Manifest = nil // it is of another build, or damaged: the device is an orphan
	}
	for _, pool := range l.Pools {
		have, err := pool.Observe(ctx, m.ID)
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
	record := l.recordOf(m.ID)
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
