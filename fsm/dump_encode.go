package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// Phases as a VolumeRecord numbers them.
const (
	phaseCreating uint32 = iota + 1
	phaseReady
	phaseDeleting
	phaseFailed
)

func clusterRecord(c *Cluster) *fsmpb.ClusterRecord {
	r := &fsmpb.ClusterRecord{
		ClusterId: c.ID, Incarnation: c.Incarnation, IncarnationId: c.IncarnationID,
		FeatureLevel: c.FeatureLevel, Index: c.Index, Time: nanosOf(c.Time),
	}
	if c.Checkpoint.Index != 0 {
		r.Checkpoint = &fsmpb.Checkpoint{Index: c.Checkpoint.Index, Hash: c.Checkpoint.Hash}
	}
	for _, k := range c.Skipped {
		r.Skipped = append(r.Skipped, &fsmpb.SkippedRecord{Index: k.Index, Hash: k.Hash})
	}
	for i := range c.Sweeps {
		r.Sweeps = append(r.Sweeps, c.Sweeps[i].record())
	}
	return r
}

func nodeRecord(n *Node) *fsmpb.NodeRecord {
	r := &fsmpb.NodeRecord{
		NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Site: n.Site, MaxVolumes: n.MaxVolumes,
		Version: n.Version, FeatureLevel: n.FeatureLevel, State: uint32(n.State), Incarnation: n.Incarnation, Registered: n.Registered.Proto(),
		Replication: n.Replication.proto(), Cordoned: n.Cordoned,
		NoNewReplicas: n.NoNewReplicas,
	}
	for _, p := range n.Pools {
		r.Pools = append(r.Pools, &fsmpb.Pool{
			PoolId: string(p.ID), Backend: p.Backend, CapacityBytes: p.Capacity, OvercommitPercent: p.OvercommitPercent, MinFreeBytes: p.MinFree,
		})
	}
	for _, l := range n.Labels {
		r.Labels = append(r.Labels, &fsmpb.Label{Key: l.Key, Value: l.Value})
	}
	return r
}

// volumeRecordWriter fills one message again and again, so that writing a dump allocates
// next to nothing.
type volumeRecordWriter struct {
	d  *dictionary
	r  fsmpb.VolumeRecord
	id [16]byte
}

func (w *volumeRecordWriter) fill(v *Volume) *fsmpb.VolumeRecord {
	r := &w.r
	key, _ := v.ID.uuid()
	w.id = key.packed()
	r.VolumeId, r.Name, r.Size = w.id[:], v.Name, v.Size
	r.FingerprintRef, r.RequisiteRef = w.d.texts[string(v.Fingerprint)], w.d.setRef(v.Requisite)
	r.Capabilities = resized(r.Capabilities, len(v.Capabilities))
	for i := range v.Capabilities {
		w.d.capability(r.Capabilities[i], &v.Capabilities[i])
	}
	r.Replicas = resized(r.Replicas, len(v.Replicas))
	for i := range v.Replicas {
		w.d.replica(r.Replicas[i], &v.Replicas[i])
	}
	if r.Format == nil {
		r.Format = &fsmpb.FormatRecord{}
	}
	w.d.format(r.Format, &v.Format)
	w.phase(v.Phase)
	r.Teardowns = nil
	for _, t := range v.Teardowns {
		r.Teardowns = append(r.Teardowns, &fsmpb.TeardownRecord{NodeRef: w.d.ref(string(t.Node)), HostRef: w.d.ref(string(t.Host)), Epoch: t.Epoch.Proto()})
	}
	r.Operation, r.Beside, r.Condition = operationRecord(v.Operation), nil, nil
	for i := range v.OtherOperations {
		r.Beside = append(r.Beside, operationRecord(&v.OtherOperations[i]))
	}
	if v.Condition != (Condition{}) {
		r.Condition = &fsmpb.Condition{Abnormal: v.Condition.Abnormal, Message: v.Condition.Message}
	}
	r.Source, r.Limits, r.Replication = v.Source.record(), v.Limits.Proto(), v.replicationRecord()
	r.LimitsAsked, r.Claim = v.InitialLimits.setProto(), v.Claim.Proto()
	r.CreatedIncarnation, r.CreatedIndex = v.Created.Incarnation, v.Created.Index
	r.ModifiedAfter = v.Modified - v.Created.Index
	return r
}

// resized makes a list of n messages, reusing those of an earlier list.
func resized[T any](list []*T, n int) []*T {
	list = list[:min(len(list), n)]
	for len(list) < n {
		list = append(list, new(T))
	}
	return list
}

func (w *volumeRecordWriter) phase(p Phase) {
	r := &w.r
	r.Phase, r.Publications, r.DeletingSince, r.FailedReason, r.FailedNoSpace = 0, nil, nil, "", false
	switch p := p.(type) {
	case Creating:
		r.Phase = phaseCreating
	case Ready:
		r.Phase = phaseReady
		for i := range p.Publications {
			r.Publications = append(r.Publications, w.d.publication(&p.Publications[i]))
		}
	case Deleting:
		r.Phase, r.DeletingSince = phaseDeleting, p.Since.Proto()
	case Failed:
		r.Phase, r.FailedReason, r.FailedNoSpace = phaseFailed, p.Reason, p.NoSpace
	}
}

func (d *dictionary) capability(r *fsmpb.CapabilityRecord, c *Capability) *fsmpb.CapabilityRecord {
	r.Mode, r.Block, r.FsTypeRef, r.FlagsRef = c.Mode, c.Block, d.ref(c.FSType), d.ref(c.Flags)
	return r
}

func (d *dictionary) replica(r *fsmpb.ReplicaRecord, x *Replica) {
	r.NodeRef, r.HostRef, r.PoolRef = d.ref(string(x.Node)), d.ref(string(x.Host)), d.ref(string(x.Pool))
	r.State, r.Sequence, r.Size, r.Limits, r.Short = uint32(x.State), x.Sequence, x.Size, x.Limits.Proto(), x.Undersized
}

func (d *dictionary) format(r *fsmpb.FormatRecord, f *Format) {
	r.Phase, r.FsTypeRef, r.FsUuid, r.FsUuidText, r.Epoch = f.Phase, d.ref(f.FSType), nil, "", nil
	if id, ok := parseUUID(f.FSUUID); ok {
		packed := id.packed()
		r.FsUuid = packed[:]
	} else {
		r.FsUuidText = f.FSUUID
	}
	r.Cloned = f.Cloned
	if !f.Epoch.IsZero() {
		r.Epoch = f.Epoch.Proto()
	}
}

func (d *dictionary) publication(p *Publication) *fsmpb.PublicationRecord {
	r := &fsmpb.PublicationRecord{
		NodeRef: d.ref(string(p.Node)), HostRef: d.ref(string(p.Host)), Capability: d.capability(&fsmpb.CapabilityRecord{}, &p.Capability),
		ReadOnly: p.ReadOnly, Epoch: p.Epoch.Proto(), Ending: p.Ending, UsedBy: p.UsedBy,
	}
	if s := p.Staging; s != nil {
		r.Staging = &fsmpb.StagingRecord{
			Path: s.Path, BootRef: d.ref(s.Boot), Capability: d.capability(&fsmpb.CapabilityRecord{}, &s.Capability), Done: s.Done,
		}
	}
	for i := range p.Targets {
		t := &p.Targets[i]
		r.Targets = append(r.Targets, &fsmpb.TargetRecord{
			Path: t.Path, ReadOnly: t.ReadOnly, Capability: d.capability(&fsmpb.CapabilityRecord{}, &t.Capability),
			Fingerprint: t.Fingerprint, Done: t.Done,
		})
	}
	return r
}

func operationRecord(o *Operation) *fsmpb.OperationRecord {
	if o == nil {
		return nil
	}
	return &fsmpb.OperationRecord{
		Id: uint64(o.ID), Kind: uint32(o.Kind), State: uint32(o.State), Step: o.Step, Attempts: o.Attempts, Retries: o.Retries,
		LastError: o.LastError, Started: nanosOf(o.Started), Deadline: nanosOf(o.Deadline),
		Reason: uint32(o.Reason), Done: o.DoneBytes, Total: o.TotalBytes,
	}
}

func (d *dictionary) answer(r *fsmpb.AnswerRecord, a *answer) {
	o := a.outcome
	r.RequestId, r.ActorRef, r.Index = append(r.RequestId[:0], a.key.request[:]...), d.ref(a.key.actor), a.index
	r.Rejection, r.Epoch, r.Grant, r.OperationId = o.Rejection, o.Epoch, o.Grant, o.OperationId
	r.SnapshotId, r.GroupSnapshotId = o.SnapshotId, o.GroupSnapshotId
	r.Verdict, r.Generation, r.Force = o.Verdict, o.Generation, o.Force
	r.TextUnhashed, r.Overtaken = a.textUnhashed, o.Overtaken
	r.VolumeId = r.VolumeId[:0]
	if id, ok := VolumeID(o.VolumeId).uuid(); ok {
		packed := id.packed()
		r.VolumeId = append(r.VolumeId, packed[:]...)
	}
}
