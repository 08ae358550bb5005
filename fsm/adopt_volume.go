package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxHolders bounds the hosts that an adoption names.
const maxHolders = 16

// maxAdoptedSize bounds a size in bytes: sums of reservations stay far below the largest number.
const maxAdoptedSize = 1 << 50

// adoption is what the hosts that hold a volume say of it, read from an AdoptVolume.
type adoption struct {
	id   VolumeID
	held []heldReplica
	// newest is the one whose manifest is of the highest epoch: what the lost log said last, as far as anybody knows.
	newest *heldReplica
}

type heldReplica struct {
	node *Node
	at   Epoch
	*fsmpb.HeldVolume
}

// applyAdoptVolume takes in a volume that was made in the part of the log that was lost, or what that part said of a
// volume that is known (S1). What it takes in is what the lost log said, which the hosts kept; the device is never
// written to. Repeated, it changes nothing.
func applyAdoptVolume(s *State, m Meta, c *fsmpb.AdoptVolume) (*fsmpb.Outcome, *Rejection) {
	a, rej := s.readAdoption(c)
	if rej != nil {
		return nil, rej
	}
	if existing, known := s.Volume(a.id); known {
		return s.adoptChanges(m, existing, a)
	}
	v, rej := s.adoptedVolume(m, a)
	if rej != nil {
		return nil, rej
	}
	return s.putAdoptedVolume(v)
}

// bumpAdopted wakes the hosts that have the volume: it is desired of them now.
func (s *State) bumpAdopted(v *Volume) {
	for i := range v.Replicas {
		s.changes = append(s.changes, Change{Node: v.Replicas[i].Node})
	}
}

func (s *State) readAdoption(c *fsmpb.AdoptVolume) (*adoption, *Rejection) {
	a := &adoption{id: VolumeID(c.GetVolumeId())}
	if !a.id.Valid() {
		return nil, Reject(Invalid, "adopt a volume: %q is not a volume id", clip(c.GetVolumeId()))
	}
	if n := len(c.GetReplicas()); n > maxHolders {
		return nil, Reject(Invalid, "adopt volume %s: %d hosts are named, more than %d", a.id, n, maxHolders)
	}
	for _, r := range c.GetReplicas() {
		h, rej := s.readHeldReplica(a, r)
		if rej != nil {
			return nil, rej
		}
		a.held = append(a.held, h)
	}
	a.chooseNewest()
	a.dropUnlisted()
	if rej := a.checkNotConverted(); rej != nil {
		return nil, rej
	}
	if len(a.held) == 0 || len(a.held) > MaxReplicas {
		return nil, Reject(Invalid, "adopt volume %s: %d hosts have it, not 1 or %d", a.id, len(a.held), MaxReplicas)
	}
	return a, nil
}

func (a *adoption) chooseNewest() {
	a.newest = nil
	for i := range a.held {
		if a.newest == nil || a.newest.at.Compare(a.held[i].at) < 0 {
			a.newest = &a.held[i]
		}
	}
}

// dropUnlisted drops the hosts that had no replica any more when the lost log spoke last: what they have is an orphan.
func (a *adoption) dropUnlisted() {
	if a.newest == nil || len(a.newest.GetManifest().GetReplication().GetHosts()) == 0 {
		return
	}
	hosts := a.newest.GetManifest().GetReplication().GetHosts()
	a.held = slices.DeleteFunc(slices.Clone(a.held), func(h heldReplica) bool {
		return !slices.ContainsFunc(hosts, func(r *fsmpb.ReplicaHost) bool { return r.GetHostId() == string(h.node.Host) })
	})
	a.chooseNewest()
}

// checkWhole rejects a volume that breaks an invariant: what hosts sent is checked no less than what the log made.
func (s *State) checkWhole(v *Volume) *Rejection {
	put := *v
	put.Modified = s.cluster.Index
	checks := []func(*Volume) error{s.checkForm, s.checkPublications, s.checkHosts, s.checkOperation, checkFormat}
	if v.Replication == nil {
		checks = append(checks, checkLocal)
	} else {
		checks = append(checks, s.checkGrant, s.checkReplicaSyncs, s.checkReplicationIndexes, checkInitialSync, s.checkLastCopy)
	}
	for _, check := range checks {
		if err := check(&put); err != nil {
			return Reject(Invalid, "adopt volume %s: what its hosts say of it is no volume: %v", v.ID, err)
		}
	}
	return nil
}

func (s *State) readHeldReplica(a *adoption, r *fsmpb.AdoptedReplica) (h heldReplica, rej *Rejection) {
	n, rej := s.nodeOfHost(r.GetNodeId(), r.GetHostId())
	if rej != nil {
		return h, rej
	}
	h = heldReplica{node: n, at: EpochFrom(r.GetHeld().GetAt()), HeldVolume: r.GetHeld()}
	manifest := h.GetManifest()
	pool := PoolID(manifest.GetPoolId())
	switch {
	case manifest.GetVolumeId() != string(a.id) || h.GetRemoved():
		return h, Reject(Invalid, "adopt volume %s: node %s has no manifest of it", a.id, n.ID)
	case h.GetSizeBytes() <= 0:
		return h, Reject(Precondition, "adopt volume %s: node %s has no device of it", a.id, n.ID)
	case slices.ContainsFunc(a.held, func(o heldReplica) bool { return o.node.Host == n.Host }):
		return h, Reject(Invalid, "adopt volume %s: node %s is named twice", a.id, n.ID)
	case !isMaker(manifest.GetPublication().GetMadeBy()):
		return h, Reject(Invalid, "adopt volume %s: the manifest of node %s says that %q published it, who is no operator", a.id, n.ID, clip(manifest.GetPublication().GetMadeBy()))
	case n.pool(pool) == nil:
		return h, Reject(Precondition, "adopt volume %s: its pool %s is not on node %s", a.id, pool, n.ID)
	case h.at.Incarnation == 0 || h.at.Incarnation >= s.cluster.Incarnation:
		return h, Reject(Precondition, "adopt volume %s: what node %s says is of incarnation %d, and this log is of %d: nothing was lost since", a.id, n.ID, h.at.Incarnation, s.cluster.Incarnation)
	}
	return h, nil
}

// isMaker tells whether a manifest may name one as who published: an admin, an operator or, when empty, an orchestrator.
func isMaker(actor string) bool {
	return actor == "" || len(actor) <= maxIDBytes && (byAdmin(actor, nil) || hasRole(actor, "operator/"))
}

// adoptedVolume is the volume as the newest manifest has it, with the replicas of the hosts that hold it.
func (s *State) adoptedVolume(m Meta, a *adoption) (Volume, *Rejection) {
	v, rej := s.volumeFromManifest(a.newest.GetManifest())
	if rej != nil {
		return v, Reject(rej.Reason, "adopt volume %s: %s", a.id, rej.Message)
	}
	if other, taken := s.VolumeByName(v.Origin, v.Name); taken && !other.isFailed() {
		return v, Reject(Incompatible, "adopt volume %s: volume %s has its name %q: remove that first, if no host has it any more", a.id, other.ID, v.Name)
	}
	if rej := s.adoptImport(&v, a); rej != nil {
		return v, rej
	}
	v.Created = m.Epoch
	if rej := s.addAdoptedReplicas(m, &v, a); rej != nil {
		return v, rej
	}
	publications := []Publication{}
	if p := a.publication(s); p != nil {
		publications = append(publications, *p)
	}
	if v.Phase = unpublished; len(publications) > 0 {
		v.Phase = Ready{Publications: publications}
	}
	return v, nil
}

func (s *State) volumeFromManifest(p *fsmpb.VolumeManifest) (v Volume, rej *Rejection) {
	v = Volume{
		ID: VolumeID(p.GetVolumeId()), Name: p.GetName(), Fingerprint: p.GetFingerprint(), Size: p.GetSizeBytes(), Source: SourceFrom(p.GetSource()),
		Limits: LimitsFrom(p.GetLimits()), InitialLimits: initialLimitsFrom(p.GetInitialLimits()), Claim: ClaimFrom(p.GetClaim()),
		Crypt: CryptFrom(p.GetCrypt()), Format: FormatFrom(p.GetFormat()), Origin: Site(p.GetOrigin()), Home: Site(p.GetHome()), Sites: sitesFrom(p.GetSites()),
		MadeBy: p.GetMadeBy(), Import: importFromManifest(p.GetImport()),
	}
	if _, rej := requestedSource(p.GetSource()); rej != nil {
		return v, rej
	}
	switch {
	case v.Source.Snapshot != "" && !v.Source.Snapshot.Valid() || v.Source.Volume != "" && !v.Source.Volume.Valid():
		return v, Reject(Invalid, "its manifest names a source that is none")
	case v.Crypt != nil && !knownFormat(v.Crypt.Phase):
		return v, Reject(Invalid, "its manifest does not say whether it has a LUKS header")
	case len(p.GetCapabilities()) == 0:
		return v, Reject(Invalid, "its manifest has no capability")
	case len(v.Name) == 0 || len(v.Name) > maxNameBytes || len(v.Fingerprint) > maxFingerprintBytes:
		return v, Reject(Invalid, "its manifest has a name of %d bytes", len(v.Name))
	case v.Size <= 0 || v.Size > maxAdoptedSize || v.Size%VolumeSizeUnit != 0:
		return v, Reject(Invalid, "its manifest says %d bytes", v.Size)
	case !knownFormat(v.Format.Phase):
		return v, Reject(Invalid, "its manifest does not say whether it has a filesystem")
	case v.MadeBy != "" && (!byAdmin(v.MadeBy, nil) || len(v.MadeBy) > maxIDBytes):
		return v, Reject(Invalid, "its manifest says that %q made it, who is no operator", clip(v.MadeBy))
	}
	if rej := v.Import.checkAdopted(); rej != nil {
		return v, rej
	}
	for _, site := range append([]string{p.GetOrigin(), p.GetHome()}, p.GetSites()...) {
		if rej := CheckSite(site); site != "" && rej != nil {
			return v, rej
		}
	}
	for _, c := range p.GetCapabilities() {
		capability := CapabilityFromText(c)
		if rej := capability.check(); rej != nil {
			return v, rej
		}
		v.Capabilities = append(v.Capabilities, capability)
	}
	slices.SortFunc(v.Capabilities, Capability.compare)
	v.Requisite, rej = s.intern.requisite(p.GetRequisite())
	return v, rej
}

func knownFormat(p fsmpb.FormatPhase) bool {
	return p > fsmpb.FormatPhase_FORMAT_PHASE_UNKNOWN && p <= fsmpb.FormatPhase_FORMAT_PHASE_RAW
}

// addAdoptedReplicas gives the volume the replicas that hosts hold. Nothing is known of their contents but what their
// hosts will observe, as after every restore; one that was outdated stays so.
func (s *State) addAdoptedReplicas(m Meta, v *Volume, a *adoption) *Rejection {
	says := a.newest.GetManifest().GetReplication()
	if says == nil && len(a.held) > 1 {
		return Reject(Precondition, "adopt volume %s: nodes %s and %s both have it, and it has one replica: remove one of the two by hand", v.ID, a.held[0].node.ID, a.held[1].node.ID)
	}
	for i := range a.held {
		h := &a.held[i]
		r := Replica{Node: h.node.ID, Host: h.node.Host, Pool: PoolID(h.GetManifest().GetPoolId()), State: ReplicaPresent, Size: v.Size}
		if says != nil {
			r.ReplicaSync = h.sync()
		}
		v.Replicas = append(v.Replicas, r)
	}
	if says == nil {
		return nil
	}
	if rej := s.checkAdoptedPlace(v, says); rej != nil {
		return rej
	}
	v.Replication = &Replication{
		Protocol: says.GetProtocol(), ReplicaCount: says.GetReplicas(), Minor: says.GetMinor(), Port: says.GetPort(), Seed: HostID(says.GetSeed()),
		InitialSyncIndex: m.Index, Generation: m.Index,
	}
	if says.GetConverting() {
		return v.adoptConversion(m)
	}
	return nil
}

func (h *heldReplica) sync() *ReplicaSync {
	return &ReplicaSync{Outdated: h.GetManifest().GetReplication().GetOutdated(), Boot: h.GetAttachedIn(), Attachment: h.GetAttachment()}
}

// checkAdoptedPlace refuses a minor or a port that another volume has: its hosts use it in their kernels.
func (s *State) checkAdoptedPlace(v *Volume, says *fsmpb.ReplicationManifest) *Rejection {
	minor, port := says.GetMinor(), says.GetPort()
	if minor < firstMinor || minor > lastMinor || port < firstPort || port > lastPort || says.GetReplicas() != MaxReplicas || says.GetProtocol() != fsmpb.Protocol_PROTOCOL_A && says.GetProtocol() != fsmpb.Protocol_PROTOCOL_C {
		return Reject(Invalid, "adopt volume %s: its manifest says minor %d and port %d", v.ID, minor, port)
	}
	if owner, taken := s.index.minors.Get(minor); taken {
		return Reject(Busy, "adopt volume %s: volume %s has its minor %d", v.ID, volumePrefix+owner.text(), minor)
	}
	for i := range v.Replicas {
		if s.index.hasPort(hostPort{v.Replicas[i].Host, port}) {
			return Reject(Busy, "adopt volume %s: another volume has its port %d on node %s", v.ID, port, v.Replicas[i].Node)
		}
	}
	return nil
}

// publication is the newest that a host was told of. The lost log granted it after every other one had ended, or could
// not be used any more. Its epoch stays: under it the host staged.
func (a *adoption) publication(s *State) (newest *Publication) {
	for i := range a.held {
		h := &a.held[i]
		said := h.GetManifest().GetPublication()
		if said == nil || h.node.IsFenced() {
			continue
		}
		p := publicationFromManifest(h.node, said)
		if p.Epoch.IsZero() || p.Epoch.Incarnation >= s.cluster.Incarnation || p.Staging == nil && len(p.Targets) > 0 {
			continue
		}
		if p.Staging != nil && EpochFrom(h.GetStaged()) != p.Epoch {
			p.markUndone()
		}
		if newest == nil || newest.Epoch.Compare(p.Epoch) < 0 {
			newest = p
		}
	}
	return newest
}

// markUndone: its host has nothing of it up now, as after a boot (S16).
func (p *Publication) markUndone() {
	p.Staging.Done = false
	for i := range p.Targets {
		p.Targets[i].Done = false
	}
}
