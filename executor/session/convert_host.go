package session

import (
	"cmp"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// What a host measures and finds, both ways.

func telemetryToProto(pools []executor.PoolFacts) *sessionpb.Telemetry {
	t := &sessionpb.Telemetry{}
	for _, p := range pools {
		t.Pools = append(t.Pools, &sessionpb.PoolTelemetry{
			PoolId: string(p.ID), FreeBytes: p.Free, CapacityBytes: p.Capacity, Absent: p.Absent, Copies: p.FullCopies, Detail: p.Detail,
		})
	}
	return t
}

func poolFactsFromProto(p *sessionpb.PoolTelemetry) executor.PoolFacts {
	return executor.PoolFacts{
		ID: fsm.PoolID(p.GetPoolId()), Free: p.GetFreeBytes(), Capacity: p.GetCapacityBytes(),
		Absent: p.GetAbsent(), FullCopies: p.GetCopies(), Detail: p.GetDetail(),
	}
}

func inventoryItemToProto(i executor.InventoryItem) *sessionpb.InventoryItem {
	return &sessionpb.InventoryItem{Kind: i.Kind, Id: cmp.Or(string(i.Volume), string(i.Snapshot)), Path: i.Path}
}

// inventoryItemFromProto converts one item. A volume's id is never a valid snapshot's id.
func inventoryItemFromProto(i *sessionpb.InventoryItem) executor.InventoryItem {
	item := executor.InventoryItem{Kind: i.GetKind(), Path: i.GetPath()}
	if snapshot := fsm.SnapshotID(i.GetId()); snapshot.Valid() {
		item.Snapshot = snapshot
	} else {
		item.Volume = fsm.VolumeID(i.GetId())
	}
	return item
}
