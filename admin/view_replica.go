package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// replicationView returns nil for a volume that is not replicated.
func replicationView(r *fsm.Replication) *adminpb.Replication {
	if r == nil {
		return nil
	}
	out := &adminpb.Replication{
		Protocol: protocolView(r.Protocol), Wanted: r.ReplicaCount, Minor: r.Minor, Port: r.Port, SeedHostId: string(r.Seed),
		Born: r.InitialSyncIndex, Generation: r.Generation, Granted: r.LastGrantIndex,
	}
	if p := r.Primary; p != nil {
		out.Primary = &adminpb.Primary{
			Node: string(p.Node), HostId: string(p.Host), BootId: p.Boot, Epoch: p.Epoch.String(), Index: p.Index, Done: p.Done,
		}
	}
	if f := r.Forced; f != nil {
		out.Forced = &adminpb.Forced{
			HostId: string(f.Host), Index: f.Index, GivenUp: f.GivenUpGeneration, Reason: f.Reason, PeerDead: f.PeerDead,
		}
	}
	return out
}

// replicaViews converts the volume's replicas, with their ReplicaSync where the volume is replicated.
func replicaViews(v *fsm.Volume) []*adminpb.Replica {
	return mapSlice(v.Replicas, func(r fsm.Replica) *adminpb.Replica {
		view := replicaView(r)
		if replica := v.ActiveReplica(r.Host); replica != nil && r.State != fsm.ReplicaGone {
			addReplicaState(view, replica.ReplicaSync)
		}
		return view
	})
}

func addReplicaState(view *adminpb.Replica, replica *fsm.ReplicaSync) {
	seen := &replica.Observed
	view.Disk, view.PeerDisk = diskView(seen.Disk), diskView(seen.PeerDisk)
	view.Connection, view.Role = connectionView(seen), roleView(seen)
	view.Percent, view.OutOfSyncBytes = seen.SyncPercent, uint64(max(0, seen.OutOfSync))
	view.UpToDate, view.Outdated, view.Suspended = replica.UpToDate, replica.Outdated, seen.Suspended
	view.Attach, view.BootId, view.Generation = replica.Attachment, replica.Boot, seen.Generation
	if seen.UUID != 0 {
		view.CurrentUuid = fmt.Sprintf("%016x", seen.UUID)
	}
}

func diskView(d fsmpb.DiskState) string { return enumView(d.String(), "DISK_STATE_") }

func connectionView(seen *fsm.ReplicaObservation) string {
	if seen.Unconfigured {
		return "down"
	}
	return enumView(seen.Connection.String(), "CONNECTION_STATE_")
}

func protocolView(p fsmpb.Protocol) string {
	return strings.TrimPrefix(p.String(), "PROTOCOL_")
}

func roleView(seen *fsm.ReplicaObservation) string {
	if seen.Primary {
		return "primary"
	}
	return "secondary"
}

func replicaView(r fsm.Replica) *adminpb.Replica {
	return &adminpb.Replica{Node: string(r.Node), HostId: string(r.Host), PoolId: string(r.Pool), State: r.State.String()}
}

// logCell shows what the log records of a replica's content (S5).
func logCell(r *adminpb.Replica) string {
	switch {
	case r.GetOutdated():
		return "outdated"
	case r.GetUpToDate():
		return "up to date"
	}
	return "not up to date"
}

func connectionCell(r *adminpb.Replica) string {
	if r.GetSuspended() {
		return r.GetConnection() + ", frozen"
	}
	return r.GetConnection()
}

// percentCell shows the progress of a resynchronisation or verification, empty when none runs.
func percentCell(r *adminpb.Replica) string {
	if slices.Contains([]string{"sync_source", "sync_target", "verifying"}, r.GetConnection()) {
		return fmt.Sprintf("%d %%", r.GetPercent())
	}
	return ""
}
