package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// Volume is one provisioned volume, or one that is being created or deleted. A
// *Volume that came out of a State is immutable: values are replaced whole.
type Volume struct {
	ID          VolumeID
	Name        string
	Fingerprint []byte // of parameters and content source
	Size        int64  // bytes
	// Capabilities are those it was created with, sorted.
	Capabilities []Capability
	// Requisite is the accessibility that was requested.
	Requisite []Topology
	// Replicas has one element for local volumes, two for replicated ones.
	Replicas []Replica
	Format   Format
	Phase    Phase
	// Teardowns are pending on hosts whose publication was revoked before they ended
	// it (S31): the host must report it unstaged.
	Teardowns []Teardown
	// Operation is the host work under way or failed; nil when there is none.
	Operation *Operation
	// OtherOperations are operations of other kinds, from feature level 2 on; see Operations.
	OtherOperations []Operation
	Condition       Condition
	// Source is what it was made from; it never changes (zero: empty).
	Source Source
	// Limits are the I/O limits desired of the host where it is staged.
	Limits Limits
	// InitialLimits are those that it was created with, once they were modified; nil:
	// Limits are.
	InitialLimits *Limits
	// Claim is what the orchestrator calls it; nil: not known.
	Claim *Claim
	// Reclaimed is what came of the last reclaim; nil: there was none, or another began.
	Reclaimed *Reclaimed
	// Crypt is set for an encrypted volume.
	Crypt *Crypt
	// HeaderRestore is set while a host may restore the LUKS header.
	HeaderRestore *HeaderRestore
	// Replication is set for a volume that was created with more than one replica.
	Replication *Replication
	// Relation is its replication between two sites; nil: there is none, or its group's is.
	Relation *Relation
	// RelationMember is set while it is in a relation, its own or its group's.
	RelationMember *RelationMember
	// Unconverted is the replication that it had while it was being converted: a host has yet to remove its replica.
	Unconverted *Unconverted
	// MadeBy is the operator who made it without an orchestrator, as an actor; empty: an orchestrator did, or
	// the cluster was below feature level 3.
	MadeBy string
	// Import is set while the volume has the device that it was imported with.
	Import *Import
	// Origin is the site through which it was made: its name is unique there (S33).
	Origin Site
	// Home is the site that may publish, change and delete it: the one that it was made or last
	// published through (S35).
	Home Site
	// Sites are the two sites at which it has one replica each, sorted; none: both are at one.
	Sites    []Site
	Created  Epoch // when it was created
	Modified uint64
}

// Claim is what an orchestrator calls a volume: its claim, and its own record of the
// volume. It is for people, and no part of what makes two requests equal.
type Claim struct{ Name, Namespace, Volume string }

// Label is one segment of a topology.
type Label struct{ Key, Value string }

// Topology is one term, its segments sorted by key; all must hold.
type Topology []Label

// Condition is what CSI calls VolumeCondition.
type Condition struct {
	Abnormal bool
	Message  string
}

func hashVolume(e *encoder, v *Volume) sum256 {
	e.begin(kindVolume)
	e.str(string(v.ID))
	e.str(v.Name)
	e.bytes(v.Fingerprint)
	e.i64(v.Size)
	e.u64(uint64(len(v.Capabilities)))
	for i := range v.Capabilities {
		hashCapability(e, &v.Capabilities[i])
	}
	e.u64(uint64(len(v.Requisite)))
	for _, term := range v.Requisite {
		hashLabels(e, term)
	}
	e.u64(uint64(len(v.Replicas)))
	for i := range v.Replicas {
		hashReplica(e, &v.Replicas[i])
	}
	hashFormat(e, v.Format)
	hashPhase(e, v.Phase)
	e.u64(uint64(len(v.Teardowns)))
	for i := range v.Teardowns {
		hashTeardown(e, &v.Teardowns[i])
	}
	hashOperation(e, v.Operation)
	e.bool(v.Condition.Abnormal)
	e.str(v.Condition.Message)
	e.str(string(v.Source.Snapshot))
	e.str(string(v.Source.Volume))
	hashLimits(e, &v.Limits)
	e.epoch(v.Created)
	e.u64(v.Modified)
	hashReplication(e, v)
	hashVolumeLevel2(e, v)
	return e.sum()
}

// The fields of a volume that came with level 2, each behind a number of its own and
// only where it is set, so that other volumes hash as they did before.
const (
	fieldInitialLimits = iota + 1
	fieldClaim
	fieldEnding
	fieldOtherOperations
	fieldUndersized
	fieldSites
	fieldCrypt  = 90
	fieldMadeBy = 133
)

func hashVolumeLevel2(e *encoder, v *Volume) {
	if v.InitialLimits != nil {
		e.u64(fieldInitialLimits)
		hashLimits(e, v.InitialLimits)
	}
	if c := v.Claim; c != nil {
		e.u64(fieldClaim)
		e.str(c.Name)
		e.str(c.Namespace)
		e.str(c.Volume)
	}
	hashEnding(e, v.Publications())
	for i := range v.OtherOperations {
		e.u64(fieldOtherOperations)
		hashOperation(e, &v.OtherOperations[i])
	}
	hashUndersized(e, v.Replicas)
	hashCrypt(e, fieldCrypt, v.Crypt)
	v.HeaderRestore.hash(e)
	hashReclaim(e, v)
	hashVolumeSites(e, v)
	hashRelation(e, v.Relation)
	v.RelationMember.hash(e)
	v.Unconverted.hash(e)
	if v.MadeBy != "" {
		e.u64(fieldMadeBy)
		e.str(v.MadeBy)
	}
	v.Import.hash(e)
	hashPublishedBy(e, v.Publications())
}

func hashVolumeSites(e *encoder, v *Volume) {
	if v.Origin == "" && v.Home == "" && len(v.Sites) == 0 {
		return
	}
	e.u64(fieldSites)
	e.str(string(v.Origin))
	e.str(string(v.Home))
	e.u64(uint64(len(v.Sites)))
	for _, s := range v.Sites {
		e.str(string(s))
	}
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
		r.Teardowns = append(r.Teardowns, w.d.teardown(&t))
	}
	r.Operation, r.Beside, r.Condition = operationRecord(v.Operation), nil, nil
	for i := range v.OtherOperations {
		r.Beside = append(r.Beside, operationRecord(&v.OtherOperations[i]))
	}
	if v.Condition != (Condition{}) {
		r.Condition = &fsmpb.Condition{Abnormal: v.Condition.Abnormal, Message: v.Condition.Message}
	}
	r.Source, r.Limits, r.Replication = v.Source.record(), v.Limits.Proto(), v.replicationRecord()
	r.LimitsAsked, r.Claim, r.Reclaimed = v.InitialLimits.setProto(), v.Claim.Proto(), v.Reclaimed.record()
	r.Origin, r.Home, r.Sites = string(v.Origin), string(v.Home), siteNames(v.Sites)
	r.Crypt, r.HeaderRestore = v.Crypt.Proto(), v.HeaderRestore.record()
	r.Relation, r.RelationMember, r.Unconverted = v.Relation.record(), v.RelationMember.record(), v.Unconverted.record()
	r.MadeBy = v.MadeBy
	r.Import = v.Import.record()
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

func (x *dumpDecoder) volume(r *fsmpb.VolumeRecord) (err error) {
	v := Volume{
		ID: volumeIDFrom(r.GetVolumeId(), &err), Name: r.GetName(), Size: r.GetSize(),
		Fingerprint: x.bytesAt(r.GetFingerprintRef(), &err), Requisite: x.setAt(r.GetRequisiteRef(), &err),
		Operation: operationFrom(r.GetOperation(), &err), Format: x.format(r.GetFormat(), &err),
		Condition: Condition{Abnormal: r.GetCondition().GetAbnormal(), Message: r.GetCondition().GetMessage()},
		Source:    sourceFromRecord(r.GetSource(), &err), Limits: LimitsFrom(r.GetLimits()),
		Created:       Epoch{Incarnation: r.GetCreatedIncarnation(), Index: r.GetCreatedIndex()},
		Modified:      r.GetCreatedIndex() + r.GetModifiedAfter(),
		Replication:   replicationFromRecord(r.GetReplication(), &err),
		InitialLimits: initialLimitsFrom(r.GetLimitsAsked()), Claim: ClaimFrom(r.GetClaim()),
		MadeBy: r.GetMadeBy(), Origin: Site(r.GetOrigin()), Home: Site(r.GetHome()), Sites: sitesFrom(r.GetSites()),
		Reclaimed: reclaimedFrom(r.GetReclaimed()),
		Crypt:     CryptFrom(r.GetCrypt()), HeaderRestore: headerRestoreFrom(r.GetHeaderRestore()),
		Relation: relationFrom(r.GetRelation(), &err), RelationMember: relationMemberFrom(r.GetRelationMember()),
		Unconverted: unconvertedFrom(r.GetUnconverted(), &err), Import: importFrom(r.GetImport()),
	}
	for _, c := range r.GetCapabilities() {
		v.Capabilities = append(v.Capabilities, x.capability(c, &err))
	}
	for _, p := range r.GetReplicas() {
		v.Replicas = append(v.Replicas, x.replica(p, &err))
	}
	v.readSyncs(r.GetReplication(), &err)
	for _, o := range r.GetBeside() {
		v.OtherOperations = append(v.OtherOperations, *operationFrom(o, &err))
	}
	for _, t := range r.GetTeardowns() {
		v.Teardowns = append(v.Teardowns, x.teardown(t, &err))
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
	if _, twice := x.s.volumeKeyByName(v.liveName()); twice {
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
