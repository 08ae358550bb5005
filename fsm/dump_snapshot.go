package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// packedAfter is the UUID of an id in 16 bytes, nil for an empty one.
func packedAfter(prefix, id string) []byte {
	u, ok := uuidAfter(prefix, id)
	if !ok {
		return nil
	}
	b := u.packed()
	return b[:]
}

func snapshotRecord(n *Snapshot) *fsmpb.SnapshotRecord {
	r := &fsmpb.SnapshotRecord{
		SnapshotId: packedAfter(snapshotPrefix, string(n.ID)), Name: n.Name, Fingerprint: n.Fingerprint,
		Source: packedAfter(volumePrefix, string(n.Source)), Group: packedAfter(groupSnapshotPrefix, string(n.Group)),
		NodeId: string(n.Node), HostId: string(n.Host), PoolId: string(n.Pool), Size: n.Size, Format: n.Format.Proto(),
		Phase: uint32(n.Phase), Cut: nanosOf(n.TakenAt), Frozen: n.Frozen, Missing: n.Missing, Gone: n.Gone, FailedReason: n.Error,
		Sequence: n.Sequence, Operation: operationRecord(n.Operation), Created: n.Created.Proto(), ModifiedAfter: n.Modified - n.Created.Index,
		Kept: n.KeptCopy.record(),
	}
	for i := range n.Capabilities {
		c, _ := n.Capabilities[i].Proto() // its flags are what CapabilityFrom made of bytes
		r.Capabilities = append(r.Capabilities, c)
	}
	return r
}

func groupRecord(g *GroupSnapshot) *fsmpb.GroupRecord {
	r := &fsmpb.GroupRecord{
		GroupId: packedAfter(groupSnapshotPrefix, string(g.ID)), Name: g.Name, Fingerprint: g.Fingerprint, Phase: uint32(g.Phase),
		Attempt: g.Attempt, Cut: nanosOf(g.TakenAt), Error: g.Error, Operation: operationRecord(g.Operation),
		Created: g.Created.Proto(), ModifiedAfter: g.Modified - g.Created.Index,
	}
	for _, id := range g.Members {
		r.Members = append(r.Members, packedAfter(snapshotPrefix, string(id)))
	}
	return r
}

// idFrom is the id of 16 bytes; empty for none, where that is allowed.
func idFrom(prefix string, packed []byte, optional bool, err *error) string {
	u, ok := unpackUUID(packed)
	if ok {
		return prefix + u.text()
	}
	if len(packed) != 0 || !optional {
		*err = errForm
	}
	return ""
}

func (x *dumpDecoder) snapshot(r *fsmpb.SnapshotRecord) (err error) {
	n := Snapshot{
		ID: SnapshotID(idFrom(snapshotPrefix, r.GetSnapshotId(), false, &err)), Name: r.GetName(), Fingerprint: r.GetFingerprint(),
		Source: VolumeID(idFrom(volumePrefix, r.GetSource(), false, &err)), Group: GroupSnapshotID(idFrom(groupSnapshotPrefix, r.GetGroup(), true, &err)),
		Node: NodeID(r.GetNodeId()), Host: HostID(r.GetHostId()), Pool: PoolID(r.GetPoolId()), Size: r.GetSize(), Format: FormatFrom(r.GetFormat()),
		Phase: SnapshotPhase(enumFrom(r.GetPhase(), uint32(SnapshotFailed), &err)), TakenAt: TimeOf(r.GetCut()), Frozen: r.GetFrozen(),
		Missing: r.GetMissing(), Gone: r.GetGone(), Error: r.GetFailedReason(), Sequence: r.GetSequence(),
		Operation: operationFrom(r.GetOperation(), &err), Created: EpochFrom(r.GetCreated()), Modified: r.GetCreated().GetIndex() + r.GetModifiedAfter(),
		KeptCopy: keptCopyFrom(r.GetKept()),
	}
	for _, c := range r.GetCapabilities() {
		n.Capabilities = append(n.Capabilities, CapabilityFrom(c))
	}
	if err == nil {
		err = x.checkOrder(7, string(n.ID))
	}
	if err == nil {
		err = x.checkSnapshotUnique(&n)
	}
	if err != nil {
		return err
	}
	x.s.intern.snapshot(&n)
	x.s.storeSnapshot(n)
	return nil
}

// checkSnapshotUnique refuses a snapshot whose place in an index another one has.
func (x *dumpDecoder) checkSnapshotUnique(n *Snapshot) error {
	if _, twice := x.s.SnapshotByName(n.Name); twice && n.liveName() != "" {
		return errOrder
	}
	if n.Operation == nil {
		return nil
	}
	if _, twice := x.s.SnapshotOperation(n.Operation.ID); twice {
		return errOrder
	}
	return nil
}

func (x *dumpDecoder) group(r *fsmpb.GroupRecord) (err error) {
	g := GroupSnapshot{
		ID: GroupSnapshotID(idFrom(groupSnapshotPrefix, r.GetGroupId(), false, &err)), Name: r.GetName(), Fingerprint: r.GetFingerprint(),
		Phase: GroupPhase(enumFrom(r.GetPhase(), uint32(GroupDeleting), &err)), Attempt: r.GetAttempt(), TakenAt: TimeOf(r.GetCut()), Error: r.GetError(),
		Operation: operationFrom(r.GetOperation(), &err), Created: EpochFrom(r.GetCreated()), Modified: r.GetCreated().GetIndex() + r.GetModifiedAfter(),
	}
	for _, id := range r.GetMembers() {
		g.Members = append(g.Members, SnapshotID(idFrom(snapshotPrefix, id, false, &err)))
	}
	if err == nil {
		err = x.checkOrder(8, string(g.ID))
	}
	if err == nil {
		err = x.checkGroupUnique(&g)
	}
	if err != nil {
		return err
	}
	x.s.storeGroup(g)
	return nil
}

// checkGroupUnique refuses a group whose place in an index another one has.
func (x *dumpDecoder) checkGroupUnique(g *GroupSnapshot) error {
	if _, twice := x.s.GroupSnapshotByName(g.Name); twice && g.Phase != GroupDeleting {
		return errOrder
	}
	if g.Operation == nil {
		return nil
	}
	if _, twice := x.s.GroupOperation(g.Operation.ID); twice {
		return errOrder
	}
	return nil
}

// record is the source as a dump carries it, nil for none.
func (s Source) record() *fsmpb.SourceRecord {
	switch {
	case s.Snapshot != "":
		return &fsmpb.SourceRecord{Snapshot: true, Id: packedAfter(snapshotPrefix, string(s.Snapshot))}
	case s.Volume != "":
		return &fsmpb.SourceRecord{Id: packedAfter(volumePrefix, string(s.Volume))}
	}
	return nil
}

func sourceFromRecord(r *fsmpb.SourceRecord, err *error) Source {
	switch {
	case r == nil:
		return Source{}
	case r.GetSnapshot():
		return Source{Snapshot: SnapshotID(idFrom(snapshotPrefix, r.GetId(), false, err))}
	}
	return Source{Volume: VolumeID(idFrom(volumePrefix, r.GetId(), false, err))}
}
