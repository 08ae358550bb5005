package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// volumeView converts a volume to the API's form.
func volumeView(st *fsm.State, v *fsm.Volume) *adminpb.Volume {
	phase, reason := phaseView(v.Phase)
	condition := conditionView(st, v)
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
		Origin: v.Origin.String(), Home: v.Home.String(), MadeBy: v.MadeBy,
		Sites: mapSlice(v.Sites, fsm.Site.String), Group: string(st.GroupOf(v.ID)),
		Block: len(v.Capabilities) > 0 && v.Capabilities[0].Block, UsedAs: usedAs(v.Capabilities),
		Encryption: encryptionView(v.Crypt),
		Relation:   volumeRelationView(st, v), Conversion: conversionView(v.Replication),
	}
}

func usedAs(capabilities []fsm.Capability) string {
	for _, c := range capabilities {
		if c.FSType != "" {
			return c.FSType
		}
	}
	return ""
}

// encryptionView returns nil for a volume in clear.
func encryptionView(c *fsm.Crypt) *adminpb.Encryption {
	if c == nil {
		return nil
	}
	view := &adminpb.Encryption{Header: formatView(c.Phase), LuksUuid: c.UUID, KeyGeneration: c.KeyGeneration, Discards: c.Discards}
	if r := c.Rotation; r != nil {
		view.Rotation = &adminpb.KeyRotation{Slot: r.Slot, State: "begun"}
		if r.Added {
			view.Rotation.State = "added"
		}
	}
	return view
}

// conditionView is what is wrong with a volume by the log, and nothing about one that is well: hosts
// may describe that too, and operators look for problems here.
func conditionView(st *fsm.State, v *fsm.Volume) fsm.Condition {
	if condition, _ := st.StoredCondition(v); condition.Abnormal {
		return condition
	}
	return fsm.Condition{}
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

func publications(v *fsm.Volume) []fsm.Publication {
	return slices.DeleteFunc(slices.Clone(v.Publications()), func(p fsm.Publication) bool { return p.Reclaim })
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

func publicationView(p fsm.Publication) *adminpb.Publication {
	out := &adminpb.Publication{
		Node: string(p.Node), HostId: string(p.Host), Mode: modeView(p.Capability.Mode),
		Block: p.Capability.Block, ReadOnly: p.ReadOnly, Epoch: p.Epoch.String(), MadeBy: p.MadeBy,
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

// encryptionCell shows how often the key was replaced, and how far it is when that is under way; empty for a
// volume in clear.
func encryptionCell(e *adminpb.Encryption) string {
	if e == nil {
		return ""
	}
	cell := fmt.Sprintf("key %d", e.GetKeyGeneration())
	if r := e.GetRotation(); r != nil {
		cell += ", rotation " + r.GetState()
	}
	return cell
}

func claimCell(c *adminpb.Claim) string {
	if c.GetNamespace() == "" {
		return c.GetName()
	}
	return c.GetNamespace() + "/" + c.GetName()
}

func publicationCell(p *adminpb.Publication) string {
	use := "published"
	switch {
	case len(p.GetTargets()) > 0:
		use = CountOf(len(p.GetTargets()), "target")
	case p.GetStaged():
		use = "staged"
	}
	return p.GetNode() + " " + use
}

// limitsCell shows the limits that are set.
func limitsCell(l *adminpb.Limits) string {
	var parts []string
	add := func(n uint64, text string) {
		if n > 0 {
			parts = append(parts, text)
		}
	}
	add(l.GetReadIops(), fmt.Sprintf("r %d/s", l.GetReadIops()))
	add(l.GetWriteIops(), fmt.Sprintf("w %d/s", l.GetWriteIops()))
	add(l.GetReadBytesPerSecond(), fmt.Sprintf("r %s/s", formatSize(int64(min(l.GetReadBytesPerSecond(), 1<<62)))))
	add(l.GetWriteBytesPerSecond(), fmt.Sprintf("w %s/s", formatSize(int64(min(l.GetWriteBytesPerSecond(), 1<<62)))))
	return strings.Join(parts, ",")
}
