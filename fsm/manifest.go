package fsm

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// manifest is what a host keeps of the volume beside its device: with it the volume outlives the log. Equal volumes
// have equal manifests. While a volume is converted and its content was not touched, the one that its host has is true.
func (s *State) manifest(n *Node, v *Volume, r *Replica) string {
	if _, ready := v.Phase.(Ready); !ready || !s.level3() || n.Incarnation != s.cluster.Incarnation || r == nil || r.State != ReplicaPresent || v.isPlainOn(v.seed()) {
		return ""
	}
	m := manifestOf(v, r)
	if g, ok := s.VolumeGroup(s.GroupOf(v.ID)); ok {
		m.VolumeGroupId, m.VolumeGroupName = string(g.ID), g.Name
	}
	if rel := s.RelationOf(v); rel != nil {
		m.RelatedSites = siteNames(rel.Sites)
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "" // only text that is not UTF-8 is refused, which no command can bring
	}
	return string(text)
}

func manifestOf(v *Volume, r *Replica) *fsmpb.VolumeManifest {
	m := &fsmpb.VolumeManifest{
		VolumeId: string(v.ID), Name: v.Name, Fingerprint: v.Fingerprint, SizeBytes: v.Size, Source: v.Source.Proto(),
		Limits: v.Limits.Proto(), InitialLimits: v.InitialLimits.setProto(), Claim: v.Claim.Proto(), Crypt: v.Crypt.Proto(),
		Format: v.Format.Proto(), Origin: string(v.Origin), Home: string(v.Home), Sites: siteNames(v.Sites), PoolId: string(r.Pool),
		MadeBy: v.MadeBy, Import: v.Import.manifest(),
	}
	for i := range v.Capabilities {
		m.Capabilities = append(m.Capabilities, v.Capabilities[i].TextProto())
	}
	for _, term := range v.Requisite {
		m.Requisite = append(m.Requisite, &fsmpb.Topology{Segments: term.Proto()})
	}
	if d := v.Replication; d != nil {
		m.Replication = &fsmpb.ReplicationManifest{
			Protocol: d.Protocol, Replicas: d.ReplicaCount, Minor: d.Minor, Port: d.Port, Seed: string(d.Seed),
			Outdated: r.ReplicaSync != nil && r.Outdated, Converting: d.Conversion != nil,
		}
		for _, active := range v.ActiveReplicas() {
			m.Replication.Hosts = append(m.Replication.Hosts, &fsmpb.ReplicaHost{NodeId: string(active.Node), HostId: string(active.Host)})
		}
	}
	if p := v.Publication(r.Node); p != nil && p.Host == r.Host && !p.Reclaim {
		m.Publication = p.manifest()
	}
	return m
}

// seed is the host whose content a replicated volume had first, empty of others.
func (v *Volume) seed() HostID {
	if v.Replication == nil {
		return ""
	}
	return v.Replication.Seed
}

func (i *Import) manifest() *fsmpb.ImportManifest {
	if i == nil {
		return nil
	}
	return &fsmpb.ImportManifest{HostId: string(i.Host), DeviceId: i.Device, DeviceName: i.Name, Drbd: i.DRBD.manifest()}
}

// importFromManifest is the inverse of Import.manifest. That of a Ready volume was not given back.
func importFromManifest(m *fsmpb.ImportManifest) *Import {
	if m == nil {
		return nil
	}
	return &Import{Host: HostID(m.GetHostId()), Device: m.GetDeviceId(), Name: m.GetDeviceName(), DRBD: drbdImportFromManifest(m.GetDrbd())}
}

func (p *Publication) manifest() *fsmpb.PublicationManifest {
	m := &fsmpb.PublicationManifest{Epoch: p.Epoch.Proto(), Capability: p.Capability.TextProto(), ReadOnly: p.ReadOnly, Ending: p.Ending, MadeBy: p.MadeBy}
	if s := p.Staging; s != nil {
		m.Staging = &fsmpb.StagingManifest{Path: s.Path, BootId: s.Boot, Capability: s.Capability.TextProto(), Done: s.Done}
	}
	for i := range p.Targets {
		t := &p.Targets[i]
		m.Targets = append(m.Targets, &fsmpb.TargetManifest{
			Path: t.Path, ReadOnly: t.ReadOnly, Capability: t.Capability.TextProto(), Fingerprint: t.Fingerprint, Done: t.Done,
		})
	}
	return m
}

// publicationFromManifest is the inverse of Publication.manifest, for the host that kept it.
func publicationFromManifest(n *Node, m *fsmpb.PublicationManifest) *Publication {
	p := &Publication{
		Node: n.ID, Host: n.Host, Epoch: EpochFrom(m.GetEpoch()), Capability: CapabilityFromText(m.GetCapability()),
		ReadOnly: m.GetReadOnly(), Ending: m.GetEnding(), MadeBy: m.GetMadeBy(),
	}
	if s := m.GetStaging(); s != nil {
		p.Staging = &Staging{Path: s.GetPath(), Boot: s.GetBootId(), Capability: CapabilityFromText(s.GetCapability()), Done: s.GetDone()}
	}
	for _, t := range m.GetTargets() {
		p.Targets = append(p.Targets, Target{
			Path: t.GetPath(), ReadOnly: t.GetReadOnly(), Capability: CapabilityFromText(t.GetCapability()), Fingerprint: t.GetFingerprint(), Done: t.GetDone(),
		})
	}
	return p
}
