package admin

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// replicationView is nil for a volume that is not replicated.
func replicationView(r *fsm.Replication) *adminpb.Replication {
	if r == nil {
		return nil
	}
	out := &adminpb.Replication{
		Protocol: protocolView(r.Protocol), Wanted: r.Wanted, Minor: r.Minor, Port: r.Port, SeedHostId: string(r.Seed),
		Born: r.Born, Generation: r.Generation, Granted: r.Granted,
	}
	if p := r.Primary; p != nil {
		out.Primary = &adminpb.Primary{
			Node: string(p.Node), HostId: string(p.Host), BootId: p.Boot, Epoch: p.Epoch.String(), Index: p.Index, Done: p.Done,
		}
	}
	if f := r.Forced; f != nil {
		out.Forced = &adminpb.Forced{
			HostId: string(f.Host), Index: f.Index, GivenUp: f.GivenUp, Reason: f.Reason, PeerDead: f.PeerDead,
		}
	}
	return out
}

// replicaViews are the volume's replicas, with their legs where it is replicated.
func replicaViews(v *fsm.Volume) []*adminpb.Replica {
	return each(v.Replicas, func(r fsm.Replica) *adminpb.Replica {
		view := replicaView(r)
		if leg := v.Leg(r.Host); leg != nil && r.State != fsm.ReplicaGone {
			addLeg(view, leg)
		}
		return view
	})
}

func addLeg(view *adminpb.Replica, leg *fsm.Leg) {
	seen := &leg.Seen
	view.Disk, view.PeerDisk = diskView(seen.Disk), diskView(seen.PeerDisk)
	view.Connection, view.Role = connectionView(seen), roleView(seen)
	view.Percent, view.OutOfSyncBytes = seen.Percent, uint64(max(0, seen.OutOfSync))
	view.UpToDate, view.Outdated, view.Suspended = leg.UpToDate, leg.Outdated, seen.Suspended
	view.Attach, view.BootId, view.Generation = leg.Attach, leg.Boot, seen.Generation
	if seen.UUID != 0 {
		view.CurrentUuid = fmt.Sprintf("%016x", seen.UUID)
	}
}

func diskView(d fsmpb.DiskState) string { return enumView(d.String(), "DISK_STATE_") }

func connectionView(seen *fsm.ReplicaSeen) string {
	if seen.Down {
		return "down"
	}
	return enumView(seen.Connection.String(), "CONNECTION_STATE_")
}

func protocolView(p fsmpb.Protocol) string {
	return strings.TrimPrefix(p.String(), "PROTOCOL_")
}

func roleView(seen *fsm.ReplicaSeen) string {
	if seen.Primary {
		return "primary"
	}
	return "secondary"
}

// enumView is an enum's name in small letters; what was never heard is unknown.
func enumView(name, prefix string) string { return strings.ToLower(strings.TrimPrefix(name, prefix)) }
