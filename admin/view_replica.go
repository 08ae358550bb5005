package admin

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

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

// PrintReplicas writes the replicas of volumes: as a table one line for each replica of a replicated
// volume, as JSON or YAML the complete answer.
func PrintReplicas(w io.Writer, format string, answer *adminpb.VolumesResponse) error {
	if format == "table" {
		return tabulate(w, func(out io.Writer) { replicasTable(out, answer) })
	}
	return Print(w, format, proto.Message(answer))
}

func replicasTable(w io.Writer, a *adminpb.VolumesResponse) {
	row(w, "VOLUME", "NAME", "NODE", "STATE", "ROLE", "LOG", "DISK", "CONNECTION", "PERCENT", "GENERATION", "MINOR", "PORT", "PROTOCOL", "CONDITION")
	for _, v := range a.GetVolumes() {
		common := v.GetReplication()
		for _, r := range v.GetReplicas() {
			if common == nil || r.GetState() == "gone" {
				continue
			}
			row(w, v.GetId(), v.GetName(), r.GetNode(), r.GetState(), r.GetRole(), logCell(r), cmp.Or(r.GetDisk(), "unknown"), connectionCell(r),
				percentCell(r), common.GetGeneration(), common.GetMinor(), common.GetPort(), common.GetProtocol(), v.GetCondition())
		}
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
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
