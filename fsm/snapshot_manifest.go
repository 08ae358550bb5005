package fsm

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// snapshotManifest is what a host keeps of a snapshot beside its image: with it the snapshot outlives the log. Equal
// snapshots have equal manifests.
func (s *State) snapshotManifest(host *Node, n *Snapshot) string {
	if n.Phase != SnapshotReady || n.Missing || !s.level3() || host.Incarnation != s.cluster.Incarnation {
		return ""
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.manifestOfSnapshot(n))
	if err != nil {
		return "" // only text that is not UTF-8 is refused, which no command can bring
	}
	return string(text)
}

func (s *State) manifestOfSnapshot(n *Snapshot) *fsmpb.SnapshotManifest {
	m := &fsmpb.SnapshotManifest{
		SnapshotId: string(n.ID), Name: n.Name, Fingerprint: n.Fingerprint, SourceVolumeId: string(n.Source), PoolId: string(n.Pool),
		SizeBytes: n.Size, Format: n.Format.Proto(), Crypt: n.Crypt.Proto(), TakenAt: nanosOf(n.TakenAt), Origin: string(n.Origin),
	}
	for i := range n.Capabilities {
		m.Capabilities = append(m.Capabilities, n.Capabilities[i].TextProto())
	}
	if k := n.KeptCopy; k != nil {
		m.Kept = &fsmpb.KeptManifest{Reason: k.Reason, Attach: k.Attachment, Partial: k.Partial}
	}
	if g, ok := s.GroupSnapshot(n.Group); ok {
		m.Group = s.manifestOfGroup(g)
	}
	return m
}

func (s *State) manifestOfGroup(g *GroupSnapshot) *fsmpb.GroupSnapshotManifest {
	m := &fsmpb.GroupSnapshotManifest{
		GroupSnapshotId: string(g.ID), Name: g.Name, Fingerprint: g.Fingerprint, Origin: string(g.Origin), TakenAt: nanosOf(g.TakenAt),
	}
	for _, n := range s.members(g) {
		m.Members = append(m.Members, &fsmpb.SnapshotPlace{SnapshotId: string(n.ID), NodeId: string(n.Node), HostId: string(n.Host)})
	}
	return m
}

// snapshotFromManifest is the inverse of manifestOfSnapshot, for the host that kept it. It checks what the log would not
// have accepted either.
func snapshotFromManifest(host *Node, m *fsmpb.SnapshotManifest) (Snapshot, *Rejection) {
	n := Snapshot{
		ID: SnapshotID(m.GetSnapshotId()), Name: m.GetName(), Fingerprint: emptyAsNil(m.GetFingerprint()), Source: VolumeID(m.GetSourceVolumeId()),
		Group: GroupSnapshotID(m.GetGroup().GetGroupSnapshotId()), Node: host.ID, Host: host.Host, Pool: PoolID(m.GetPoolId()),
		Size: m.GetSizeBytes(), Format: FormatFrom(m.GetFormat()), Crypt: CryptFrom(m.GetCrypt()), Phase: SnapshotReady,
		TakenAt: TimeOf(m.GetTakenAt()), Origin: Site(m.GetOrigin()),
	}
	if k := m.GetKept(); k != nil {
		n.KeptCopy = &KeptCopy{Reason: clip(k.GetReason()), Attachment: k.GetAttach(), Partial: k.GetPartial(), Adopted: true}
	}
	for _, c := range m.GetCapabilities() {
		capability := CapabilityFromText(c)
		if rej := capability.check(); rej != nil {
			return n, rej
		}
		n.Capabilities = append(n.Capabilities, capability)
	}
	return n, n.checkManifest()
}

func (n *Snapshot) checkManifest() *Rejection {
	switch {
	case n.Size > maxAdoptedSize || n.TakenAt.IsZero() || nanosOf(n.TakenAt) < 0:
		return Reject(Invalid, "its manifest says %d bytes, taken at %v", n.Size, n.TakenAt)
	case len(n.Name) > maxNameBytes || len(n.Fingerprint) > maxFingerprintBytes:
		return Reject(Invalid, "its manifest has a name of %d bytes", len(n.Name))
	case !knownFormat(n.Format.Phase) || n.Crypt != nil && !knownFormat(n.Crypt.Phase):
		return Reject(Invalid, "its manifest does not say whether it has a filesystem or a LUKS header")
	case len(n.Capabilities) == 0:
		return Reject(Invalid, "its manifest has no capability")
	}
	return checkSiteText(string(n.Origin))
}

// checkSiteText refuses what names no site; empty is that of a cluster without sites.
func checkSiteText(site string) *Rejection {
	if site == "" {
		return nil
	}
	return CheckSite(site)
}
