package admin

import (
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// volumeView is a volume as the API shows it.
func volumeView(v *fsm.Volume) *adminpb.Volume {
	phase, reason := phaseView(v.Phase)
	return &adminpb.Volume{
		Id: string(v.ID), Name: v.Name, SizeBytes: v.Size,
		Phase: phase, Reason: reason,
		Format: formatView(v.Format.Phase), FsType: v.Format.FSType, FsUuid: v.Format.FSUUID,
		Replicas:     each(v.Replicas, replicaView),
		Publications: each(publications(v), publicationView),
		Teardowns:    each(v.Teardowns, teardownView),
		Operation:    operationView(v),
		Abnormal:     v.Condition.Abnormal, Condition: v.Condition.Message,
		Created: v.Created.String(), Modified: v.Modified,
		AccessModes: each(v.Capabilities, func(c fsm.Capability) string { return modeView(c.Mode) }),
	}
}

// each maps a slice.
func each[T, V any](in []T, view func(T) V) []V {
	out := make([]V, 0, len(in))
	for _, t := range in {
		out = append(out, view(t))
	}
	return out
}

func publications(v *fsm.Volume) []fsm.Publication {
	if ready, ok := v.Phase.(fsm.Ready); ok {
		return ready.Publications
	}
	return nil
}

func phaseView(p fsm.Phase) (phase, reason string) {
	switch p := p.(type) {
	case fsm.Creating:
		return "creating", ""
	case fsm.Ready:
		return "ready", ""
	case fsm.Deleting:
		return "deleting", ""
	case fsm.Failed:
		return "failed", p.Reason
	}
	return "", ""
}

func formatView(p fsmpb.FormatPhase) string {
	return strings.ToLower(strings.TrimPrefix(p.String(), "FORMAT_PHASE_"))
}

func modeView(m fsmpb.AccessMode) string {
	return strings.ToLower(strings.TrimPrefix(m.String(), "ACCESS_MODE_"))
}

func replicaView(r fsm.Replica) *adminpb.Replica {
	states := map[fsm.ReplicaState]string{
		fsm.ReplicaPlanned: "planned", fsm.ReplicaPresent: "present",
		fsm.ReplicaMissing: "missing", fsm.ReplicaGone: "gone",
	}
	return &adminpb.Replica{Node: string(r.Node), HostId: string(r.Host), PoolId: string(r.Pool), State: states[r.State]}
}

func publicationView(p fsm.Publication) *adminpb.Publication {
	out := &adminpb.Publication{
		Node: string(p.Node), HostId: string(p.Host), Mode: modeView(p.Capability.Mode),
		Block: p.Capability.Block, ReadOnly: p.ReadOnly, Epoch: p.Epoch.String(),
		Targets: each(p.Targets, func(t fsm.Target) *adminpb.Target {
			return &adminpb.Target{Path: t.Path, ReadOnly: t.ReadOnly, Bound: t.Done}
		}),
	}
	if p.Staging != nil {
		out.StagingPath, out.Staged = p.Staging.Path, p.Staging.Done
	}
	return out
}

func teardownView(t fsm.Teardown) *adminpb.Teardown {
	return &adminpb.Teardown{Node: string(t.Node), HostId: string(t.Host), Epoch: t.Epoch.String()}
}

// operationView is nil for a volume without an operation.
func operationView(v *fsm.Volume) *adminpb.Operation {
	op := v.Operation
	if op == nil {
		return nil
	}
	kinds := map[fsm.OperationKind]string{fsm.OpCreate: "create", fsm.OpDelete: "delete", fsm.OpTeardown: "teardown"}
	states := map[fsm.OperationState]string{fsm.OpRunning: "running", fsm.OpFailed: "failed", fsm.OpCancelled: "cancelled"}
	return &adminpb.Operation{
		Id: op.ID.String(), Kind: kinds[op.Kind], State: states[op.State],
		Volume: string(v.ID), VolumeName: v.Name,
		Nodes: each(v.Replicas, func(r fsm.Replica) string { return string(r.Node) }),
		Step:  op.Step, Attempts: op.Attempts, LastError: op.LastError,
		Started: timeView(op.Started), Deadline: timeView(op.Deadline),
	}
}

func nodeView(st *fsm.State, n *fsm.Node) *adminpb.Node {
	states := map[fsm.NodeState]string{
		fsm.NodeReachable: "reachable", fsm.NodeUnreachable: "unreachable", fsm.NodeLost: "lost",
	}
	return &adminpb.Node{
		Id: string(n.ID), HostId: string(n.Host), BootId: n.Boot, State: states[n.State],
		Site: n.Site, Version: n.Version, MaxVolumes: n.MaxVolumes,
		Adopted: n.Incarnation == st.Cluster().Incarnation,
		Pools:   each(n.Pools, func(p fsm.Pool) *adminpb.Pool { return poolView(st, p) }),
		Labels: each(n.Labels, func(l fsm.Label) *fsmpb.Label {
			return &fsmpb.Label{Key: l.Key, Value: l.Value}
		}),
	}
}

func poolView(st *fsm.State, p fsm.Pool) *adminpb.Pool {
	reserved, volumes := st.PoolUse(p.ID)
	return &adminpb.Pool{
		Id: string(p.ID), Backend: p.Backend, CapacityBytes: p.Capacity,
		ReservedBytes: reserved, Volumes: uint64(volumes), //nolint:gosec // a count
		OvercommitPercent: p.OvercommitPercent, MinFreeBytes: p.MinFree,
	}
}

// timeView is RFC 3339 in UTC, empty for no time.
func timeView(t time.Time) string {
	if t.IsZero() || t.UnixNano() == 0 {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000Z")
}
