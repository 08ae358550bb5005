package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

func (x *dumpDecoder) volume(r *fsmpb.VolumeRecord) (err error) {
	v := Volume{
		ID: volumeIDFrom(r.GetVolumeId(), &err), Name: r.GetName(), Size: r.GetSize(),
		Fingerprint: x.bytesAt(r.GetFingerprintRef(), &err), Requisite: x.setAt(r.GetRequisiteRef(), &err),
		Operation: operationFrom(r.GetOperation(), &err), Format: x.format(r.GetFormat(), &err),
		Condition: Condition{Abnormal: r.GetCondition().GetAbnormal(), Message: r.GetCondition().GetMessage()},
		Source:    sourceFromRecord(r.GetSource(), &err), Limits: LimitsFrom(r.GetLimits()),
		Created:       Epoch{Incarnation: r.GetCreatedIncarnation(), Index: r.GetCreatedIndex()},
		Modified:      r.GetCreatedIndex() + r.GetModifiedAfter(),
		Replication:   replicationFromRecord(r.GetReplication()),
		InitialLimits: initialLimitsFrom(r.GetLimitsAsked()), Claim: ClaimFrom(r.GetClaim()),
	}
	for _, c := range r.GetCapabilities() {
		v.Capabilities = append(v.Capabilities, x.capability(c, &err))
	}
	for _, p := range r.GetReplicas() {
		v.Replicas = append(v.Replicas, Replica{
			Node: NodeID(x.textAt(p.GetNodeRef(), &err)), Host: HostID(x.textAt(p.GetHostRef(), &err)), Pool: PoolID(x.textAt(p.GetPoolRef(), &err)),
			State: ReplicaState(enumFrom(p.GetState(), uint32(ReplicaLeaving), &err)), Sequence: p.GetSequence(),
			Size: p.GetSize(), Limits: LimitsFrom(p.GetLimits()), Undersized: p.GetShort(),
		})
	}
	v.readSyncs(r.GetReplication(), &err)
	for _, o := range r.GetBeside() {
		v.OtherOperations = append(v.OtherOperations, *operationFrom(o, &err))
	}
	for _, t := range r.GetTeardowns() {
		v.Teardowns = append(v.Teardowns, Teardown{
			Node: NodeID(x.textAt(t.GetNodeRef(), &err)), Host: HostID(x.textAt(t.GetHostRef(), &err)), Epoch: EpochFrom(t.GetEpoch()),
		})
	}
	v.Phase = x.phase(r, &err)
	if err != nil {
		return err
	}
	if err := x.checkOrder(5, string(v.ID)); err != nil {
		return err
	}
	if err := x.checkVolumeUnique(&v); err != nil {
		return err
	}
	x.s.intern.volume(&v)
	x.s.storeVolume(&volumeChange{}, v)
	return nil
}

// checkVolumeUnique refuses a volume whose place in an index another volume has.
func (x *dumpDecoder) checkVolumeUnique(v *Volume) error {
	if _, twice := x.s.index.byCreation.Get(v.Created.Index); twice {
		return errOrder
	}
	if _, twice := x.s.VolumeByName(v.Name); twice && v.liveName() != "" {
		return errOrder
	}
	for _, op := range v.Operations() {
		if _, twice := x.s.Operation(op.ID); twice {
			return errOrder
		}
	}
	return nil
}

func (x *dumpDecoder) setAt(ref uint32, err *error) []Topology {
	if ref == 0 {
		return nil
	}
	if int64(ref) > int64(len(x.sets)) {
		*err = errRef
		return nil
	}
	return x.sets[ref-1]
}

// enumFrom refuses a number from outside 1 to most.
func enumFrom(n, highest uint32, err *error) uint8 {
	if n == 0 || n > highest {
		*err = errForm
		return 0
	}
	return uint8(n)
}

func (x *dumpDecoder) phase(r *fsmpb.VolumeRecord, err *error) Phase {
	switch r.GetPhase() {
	case phaseCreating:
		return Creating{}
	case phaseReady:
		if len(r.GetPublications()) == 0 {
			return unpublished
		}
		var ready Ready
		for _, p := range r.GetPublications() {
			ready.Publications = append(ready.Publications, x.publication(p, err))
		}
		return ready
	case phaseDeleting:
		return Deleting{Since: EpochFrom(r.GetDeletingSince())}
	case phaseFailed:
		return Failed{Reason: r.GetFailedReason(), NoSpace: r.GetFailedNoSpace()}
	}
	*err = errForm
	return nil
}

func (x *dumpDecoder) capability(c *fsmpb.CapabilityRecord, err *error) Capability {
	return Capability{Mode: c.GetMode(), Block: c.GetBlock(), FSType: x.textAt(c.GetFsTypeRef(), err), Flags: x.textAt(c.GetFlagsRef(), err)}
}

func (x *dumpDecoder) format(f *fsmpb.FormatRecord, err *error) Format {
	format := Format{Phase: f.GetPhase(), FSType: x.textAt(f.GetFsTypeRef(), err), FSUUID: f.GetFsUuidText(), Epoch: EpochFrom(f.GetEpoch()), Cloned: f.GetCloned()}
	if packed := f.GetFsUuid(); len(packed) != 0 {
		u, ok := unpackUUID(packed)
		if !ok {
			*err = errForm
		}
		format.FSUUID = u.text()
	}
	return format
}

func (x *dumpDecoder) publication(r *fsmpb.PublicationRecord, err *error) Publication {
	p := Publication{
		Node: NodeID(x.textAt(r.GetNodeRef(), err)), Host: HostID(x.textAt(r.GetHostRef(), err)),
		Capability: x.capability(r.GetCapability(), err), ReadOnly: r.GetReadOnly(), Epoch: EpochFrom(r.GetEpoch()),
		Ending: r.GetEnding(), UsedBy: r.GetUsedBy(),
	}
	if s := r.GetStaging(); s != nil {
		p.Staging = &Staging{Path: s.GetPath(), Boot: x.textAt(s.GetBootRef(), err), Capability: x.capability(s.GetCapability(), err), Done: s.GetDone()}
	}
	for _, t := range r.GetTargets() {
		p.Targets = append(p.Targets, Target{
			Path: t.GetPath(), ReadOnly: t.GetReadOnly(), Capability: x.capability(t.GetCapability(), err),
			Fingerprint: t.GetFingerprint(), Done: t.GetDone(),
		})
	}
	return p
}

func operationFrom(o *fsmpb.OperationRecord, err *error) *Operation {
	if o == nil {
		return nil
	}
	return &Operation{
		ID: OperationID(o.GetId()), Kind: OperationKind(enumFrom(o.GetKind(), uint32(OpReplicaChange), err)), State: OperationState(enumFrom(o.GetState(), uint32(OpCancelled), err)), Step: o.GetStep(),
		Attempts: o.GetAttempts(), Retries: o.GetRetries(), LastError: o.GetLastError(),
		Started: TimeOf(o.GetStarted()), Deadline: TimeOf(o.GetDeadline()),
		Reason: Reason(o.GetReason()), DoneBytes: o.GetDone(), TotalBytes: o.GetTotal(),
	}
}
