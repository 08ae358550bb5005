package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

func (x *reader) volume(r *fsmpb.VolumeRecord) (err error) {
	v := Volume{
		ID: volumeIDFrom(r.GetVolumeId(), &err), Name: r.GetName(), Size: r.GetSize(),
		Fingerprint: x.bytesAt(r.GetFingerprintRef(), &err), Requisite: x.setAt(r.GetRequisiteRef(), &err),
		Operation: operationFrom(r.GetOperation(), &err), Format: x.format(r.GetFormat(), &err),
		Condition: Condition{Abnormal: r.GetCondition().GetAbnormal(), Message: r.GetCondition().GetMessage()},
		Source:    sourceFromRecord(r.GetSource(), &err), Limits: LimitsFrom(r.GetLimits()),
		Created:     Epoch{Incarnation: r.GetCreatedIncarnation(), Index: r.GetCreatedIndex()},
		Modified:    r.GetCreatedIndex() + r.GetModifiedAfter(),
		Replication: replicationFromRecord(r.GetReplication()),
		LimitsAsked: limitsAskedFrom(r.GetLimitsAsked()), Claim: claimFrom(r.GetClaim()),
	}
	for _, c := range r.GetCapabilities() {
		v.Capabilities = append(v.Capabilities, x.capability(c, &err))
	}
	for _, p := range r.GetReplicas() {
		v.Replicas = append(v.Replicas, Replica{
			Node: NodeID(x.at(p.GetNodeRef(), &err)), Host: HostID(x.at(p.GetHostRef(), &err)), Pool: PoolID(x.at(p.GetPoolRef(), &err)),
			State: ReplicaState(narrow(p.GetState(), uint32(ReplicaLeaving), &err)), Sequence: p.GetSequence(),
			Size: p.GetSize(), Limits: LimitsFrom(p.GetLimits()), Short: p.GetShort(),
		})
	}
	for _, o := range r.GetBeside() {
		v.Beside = append(v.Beside, *operationFrom(o, &err))
	}
	for _, t := range r.GetTeardowns() {
		v.Teardowns = append(v.Teardowns, Teardown{
			Node: NodeID(x.at(t.GetNodeRef(), &err)), Host: HostID(x.at(t.GetHostRef(), &err)), Epoch: epochFrom(t.GetEpoch()),
		})
	}
	v.Phase = x.phase(r, &err)
	if err != nil {
		return err
	}
	if err := x.after(5, string(v.ID)); err != nil {
		return err
	}
	if err := x.unindexed(&v); err != nil {
		return err
	}
	x.s.share.volume(&v)
	x.s.storeVolume(&change{}, v)
	return nil
}

// unindexed refuses a volume whose place in an index another volume has.
func (x *reader) unindexed(v *Volume) error {
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

func (x *reader) setAt(ref uint32, err *error) []Topology {
	if ref == 0 {
		return nil
	}
	if int64(ref) > int64(len(x.sets)) {
		*err = errRef
		return nil
	}
	return x.sets[ref-1]
}

// narrow refuses a number from outside 1 to most.
func narrow(n, most uint32, err *error) uint8 {
	if n == 0 || n > most {
		*err = errForm
		return 0
	}
	return uint8(n)
}

func (x *reader) phase(r *fsmpb.VolumeRecord, err *error) Phase {
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
		return Deleting{Since: epochFrom(r.GetDeletingSince())}
	case phaseFailed:
		return Failed{Reason: r.GetFailedReason(), NoSpace: r.GetFailedNoSpace()}
	}
	*err = errForm
	return nil
}

func (x *reader) capability(c *fsmpb.CapabilityRecord, err *error) Capability {
	return Capability{Mode: c.GetMode(), Block: c.GetBlock(), FSType: x.at(c.GetFsTypeRef(), err), Flags: x.at(c.GetFlagsRef(), err)}
}

func (x *reader) format(f *fsmpb.FormatRecord, err *error) Format {
	format := Format{Phase: f.GetPhase(), FSType: x.at(f.GetFsTypeRef(), err), FSUUID: f.GetFsUuidText(), Epoch: epochFrom(f.GetEpoch()), Cloned: f.GetCloned()}
	if packed := f.GetFsUuid(); len(packed) != 0 {
		u, ok := unpackUUID(packed)
		if !ok {
			*err = errForm
		}
		format.FSUUID = u.text()
	}
	return format
}

func (x *reader) publication(r *fsmpb.PublicationRecord, err *error) Publication {
	p := Publication{
		Node: NodeID(x.at(r.GetNodeRef(), err)), Host: HostID(x.at(r.GetHostRef(), err)),
		Capability: x.capability(r.GetCapability(), err), ReadOnly: r.GetReadOnly(), Epoch: epochFrom(r.GetEpoch()),
		Ending: r.GetEnding(), UsedBy: r.GetUsedBy(),
	}
	if s := r.GetStaging(); s != nil {
		p.Staging = &Staging{Path: s.GetPath(), Boot: x.at(s.GetBootRef(), err), Capability: x.capability(s.GetCapability(), err), Done: s.GetDone()}
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
		ID: OperationID(o.GetId()), Kind: OperationKind(narrow(o.GetKind(), uint32(OpReplicate), err)), State: OperationState(narrow(o.GetState(), uint32(OpCancelled), err)), Step: o.GetStep(),
		Attempts: o.GetAttempts(), Retries: o.GetRetries(), LastError: o.GetLastError(),
		Started: timeOf(o.GetStarted()), Deadline: timeOf(o.GetDeadline()),
		Reason: Reason(o.GetReason()), Done: o.GetDone(), Total: o.GetTotal(),
	}
}
