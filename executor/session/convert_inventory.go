package session

import (
	"cmp"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

func inventoryItemToProto(i executor.InventoryItem) *sessionpb.InventoryItem {
	return &sessionpb.InventoryItem{
		Kind: i.Kind, Id: cmp.Or(string(i.Volume), string(i.Snapshot)), Path: i.Path,
		HeaderRead: i.HeaderRead, HeaderUuid: i.HeaderUUID, WrongDevice: i.WrongDevice, Held: []byte(i.Held), Candidate: []byte(i.Candidate),
	}
}

// inventoryItemFromProto converts one item. A volume's id is never a valid snapshot's id.
func inventoryItemFromProto(i *sessionpb.InventoryItem) executor.InventoryItem {
	item := executor.InventoryItem{
		Kind: i.GetKind(), Path: i.GetPath(), HeaderRead: i.GetHeaderRead(), HeaderUUID: i.GetHeaderUuid(), WrongDevice: i.GetWrongDevice(), Held: string(i.GetHeld()), Candidate: string(i.GetCandidate()),
	}
	if snapshot := fsm.SnapshotID(i.GetId()); snapshot.Valid() {
		item.Snapshot = snapshot
	} else {
		item.Volume = fsm.VolumeID(i.GetId())
	}
	return item
}
