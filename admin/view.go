package admin

import (
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// volumeView converts a volume to the API's form.
func volumeView(st *fsm.State, v *fsm.Volume) *adminpb.Volume {
	phase, reason := phaseView(v.Phase)
	condition, _ := st.StoredCondition(v)
	return &adminpb.Volume{
		Id: string(v.ID), Name: v.Name, SizeBytes: v.Size,
		Phase: phase, Reason: reason,
		Format: formatView(v.Format.Phase), FsType: v.Format.FSType, FsUuid: v.Format.FSUUID,
		Replicas:     replicaViews(v),
		Publications: mapSlice(publications(v), publicationView),
		Teardowns:    mapSlice(v.Teardowns, teardownView),
		Operation:    volumeOperation(v, v.Operation),
		Abnormal:     condition.Abnormal, Condition: condition.Message,
		Created: v.Created.String(), Modified: v.Modified,
		AccessModes: mapSlice(v.Capabilities, func(c fsm.Capability) string { return modeView(c.Mode) }),
		Source:      sourceView(v.Source), Limits: limitsView(v.Limits),
		Replication: replicationView(v.Replication), Claim: claimView(v.Claim),
	}
}

func claimView(c *fsm.Claim) *adminpb.Claim {
	if c == nil {
		return nil
	}
	return &adminpb.Claim{Name: c.Name, Namespace: c.Namespace, Volume: c.Volume}
}

// sourceView returns nil for a volume without a source.
func sourceView(s fsm.Source) *adminpb.Source {
	if s.IsZero() {
		return nil
	}
	return &adminpb.Source{Snapshot: string(s.Snapshot), Volume: string(s.Volume)}
}

// limitsView returns nil where no limits are set.
func limitsView(l fsm.Limits) *adminpb.Limits {
	if l == (fsm.Limits{}) {
		return nil
	}
	return &adminpb.Limits{
		ReadIops: l.ReadIOPS, WriteIops: l.WriteIOPS, ReadBytesPerSecond: l.ReadBPS, WriteBytesPerSecond: l.WriteBPS,
	}
}

// mapSlice applies a function to each element of a slice.
func mapSlice[T, V any](in []T, view func(T) V) []V {
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
	if failed, ok := p.(fsm.Failed); ok {
		reason = failed.Reason
	}
	return fsm.PhaseName(p), reason
}

func formatView(p fsmpb.FormatPhase) string {
	return enumView(p.String(), "FORMAT_PHASE_")
}

func modeView(m fsmpb.AccessMode) string {
	return enumView(m.String(), "ACCESS_MODE_")
}

func replicaView(r fsm.Replica) *adminpb.Replica {
	return &adminpb.Replica{Node: string(r.Node), HostId: string(r.Host), PoolId: string(r.Pool), State: r.State.String()}
}

func publicationView(p fsm.Publication) *adminpb.Publication {
	out := &adminpb.Publication{
		Node: string(p.Node), HostId: string(p.Host), Mode: modeView(p.Capability.Mode),
		Block: p.Capability.Block, ReadOnly: p.ReadOnly, Epoch: p.Epoch.String(),
		Targets: mapSlice(p.Targets, func(t fsm.Target) *adminpb.Target {
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

func nodeView(st *fsm.State, n *fsm.Node) *adminpb.Node {
	return &adminpb.Node{
		Id: string(n.ID), HostId: string(n.Host), BootId: n.Boot, State: n.State.String(),
		Site: n.Site, Version: n.Version, MaxVolumes: n.MaxVolumes,
		Adopted:  n.Incarnation == st.Cluster().Incarnation,
		Pools:    mapSlice(n.Pools, func(p fsm.Pool) *adminpb.Pool { return poolView(st, p) }),
		Labels:   fsm.Topology(n.Labels).Proto(),
		Cordoned: n.Cordoned, NoNewReplicas: n.NoNewReplicas, ReplicationAddress: n.Replication.Address,
		ReplicationVersion: n.Replication.Version, MaxReplicas: n.Replication.MaxReplicas,
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

// timeView formats a time as RFC 3339 in UTC, empty for the zero time.
func timeView(t time.Time) string {
	if t.IsZero() || t.UnixNano() == 0 {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000Z")
}
