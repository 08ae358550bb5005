package fsm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Check says which invariant of SAFETY.md is broken, nil when all hold. O(state).
func (s *State) Check() error {
	if err := s.checkRecords(); err != nil {
		return err
	}
	return cmp.Or(s.checkSnapshots(), s.checkIndexes(), s.checkAnswers(), s.checkHash())
}

// violated names an invariant and what breaks it.
func violated(invariant, format string, args ...any) error {
	return fmt.Errorf("invariant %s: %s", invariant, fmt.Sprintf(format, args...))
}

func (s *State) checkRecords() error {
	if err := cmp.Or(s.checkSweeps(), s.checkMembers(), s.checkNonVoters(), s.checkChain(), s.checkSites(), s.checkVolumeGroups(), s.checkRelations(), s.checkFences(), s.checkRevocations(), s.checkJoinTokens()); err != nil {
		return err
	}
	for n := range s.Nodes() {
		if err := s.checkNode(n); err != nil {
			return err
		}
	}
	operations, ports := map[OperationID]VolumeID{}, portOwners{}
	for v := range s.Volumes("") {
		for _, check := range []func(*Volume) error{s.checkForm, s.checkPublications, s.checkHosts, s.checkOperation, checkFormat, s.checkReplication} {
			if err := check(v); err != nil {
				return err
			}
		}
		if err := ports.add(v); err != nil {
			return err
		}
		for _, op := range v.Operations() {
			if other, twice := operations[op.ID]; twice {
				return violated("S110", "volumes %s and %s both have %s", other, v.ID, op.ID)
			}
			operations[op.ID] = v.ID
		}
	}
	return nil
}

func (s *State) checkNode(n *Node) error {
	byID := func(a, b Pool) int { return cmp.Compare(a.ID, b.ID) }
	if n.State == 0 || n.Host == "" || !slices.IsSortedFunc(n.Pools, byID) || !slices.IsSortedFunc(n.Labels, compareLabels) {
		return violated("S112", "node %s is malformed", n.ID)
	}
	if n.State == NodeLost {
		for v := range s.VolumesOn(n.ID) {
			return violated("S105", "volume %[2]s has something on lost node %[1]s, or pending there", n.ID, v.ID)
		}
	}
	return nil
}

// checkForm is S112, and that some host keeps something of the volume, unless it Failed (S105).
func (s *State) checkForm(v *Volume) error {
	byNode := func(a, b Publication) int { return cmp.Compare(a.Node, b.Node) }
	switch {
	case v.Phase == nil || !v.ID.Valid() || v.Name == "":
		return violated("S112", "volume %s has no phase, id or name", v.ID)
	case v.Size <= 0 || v.Size%VolumeSizeUnit != 0:
		return violated("S112", "volume %s has %d bytes", v.ID, v.Size)
	case v.Created.Index > v.Modified || v.Modified > s.cluster.Index:
		return violated("S112", "volume %s was created at %d, changed at %d, in a state at %d", v.ID, v.Created.Index, v.Modified, s.cluster.Index)
	case !slices.IsSortedFunc(v.Capabilities, Capability.compare) || !slices.IsSortedFunc(v.Publications(), byNode):
		return violated("S112", "volume %s has a list that is not sorted", v.ID)
	case len(v.Replicas) == 0 || v.allGone() && !v.isFailed():
		return violated("S105", "volume %s is kept by no host and not forgotten", v.ID)
	}
	return nil
}

// checkPublications is S103 and S104.
func (s *State) checkPublications(v *Volume) error {
	if len(v.Publications()) > 1 {
		return violated("S103", "volume %s has %d publications", v.ID, len(v.Publications()))
	}
	for _, p := range v.Publications() {
		switch {
		case v.Replica(p.Host) == nil:
			return violated("S103", "volume %s is published to node %s, which has no replica of it", v.ID, p.Node)
		case p.Epoch.IsZero() || p.Epoch.Compare(Epoch{s.cluster.Incarnation, s.cluster.Index}) > 0:
			return violated("S103", "volume %s is published at epoch %s in a state at %d.%d", v.ID, p.Epoch, s.cluster.Incarnation, s.cluster.Index)
		case p.Reclaim && (!s.level2() || p.ReadOnly || len(p.Targets) > 0 || v.Format.Phase != fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED || p.Staging != nil && p.Staging.Path != ReclaimPath):
			return violated("S61", "volume %s is reclaimed on node %s, and used otherwise", v.ID, p.Node)
		case p.Staging == nil && len(p.Targets) > 0:
			return violated("S104", "volume %s is bound to %s and not staged", v.ID, p.Targets[0].Path)
		case (p.Ending || p.UsedBy != "") && !s.level2(), p.UsedBy != "" && (!p.Ending || p.Staging == nil):
			return violated("S104", "volume %s is used on node %s by %q under a publication that does not end", v.ID, p.Node, p.UsedBy)
		}
	}
	return nil
}

// checkHosts is S105: a host that keeps something or has a pending teardown is registered.
func (s *State) checkHosts(v *Volume) error {
	for _, r := range v.Replicas {
		n, ok := s.Node(r.Node)
		if r.State == ReplicaGone {
			continue
		}
		if !ok || n.Host != r.Host || n.pool(r.Pool) == nil {
			return violated("S105", "volume %s has a replica on host %s of node %s, which is not there", v.ID, r.Host, r.Node)
		}
	}
	for _, t := range v.Teardowns {
		if n, ok := s.Node(t.Node); !ok || n.Host != t.Host {
			return violated("S105", "volume %s has a teardown pending on host %s of node %s, which is not there", v.ID, t.Host, t.Node)
		}
	}
	return nil
}

// checkOperation is S110.
func (s *State) checkOperation(v *Volume) error {
	var kind OperationKind
	if v.Operation != nil {
		kind = v.Operation.Kind
	}
	_, ready := v.Phase.(Ready)
	if len(v.OtherOperations) > 0 && (!ready || !s.level2()) {
		return violated("S110", "volume %s is %T and has the operations %v", v.ID, v.Phase, v.Operations())
	}
	for i, op := range v.Operations() {
		if op.State == 0 || uint64(op.ID) > s.cluster.Index || i > 0 && (op.Kind <= v.Operations()[i-1].Kind || !op.Kind.ofReady()) {
			return violated("S110", "volume %s has a malformed operation %s", v.ID, op.ID)
		}
	}
	switch v.Phase.(type) {
	case Creating:
		if kind == OpCreate && v.Operation.State == OpRunning {
			return nil
		}
	case Deleting:
		if kind == OpDelete {
			return nil
		}
	case Ready:
		if (kind == OpTeardown) == (len(v.Teardowns) > 0) && (kind == 0 || kind.ofReady()) {
			return nil
		}
	case Failed:
		if kind == 0 && v.allGone() || kind == OpCreate && v.Operation.State != OpRunning {
			return nil
		}
	}
	return violated("S110", "volume %s is %T, has %d pending teardowns, and has an operation of kind %d", v.ID, v.Phase, len(v.Teardowns), kind)
}

// ofReady tells whether a Ready volume may have an operation of the kind.
func (k OperationKind) ofReady() bool {
	return k == OpTeardown || k == OpExpand || k == OpModify || k == OpReplicaChange
}

// checkFormat is S109.
func checkFormat(v *Volume) error {
	var wrong bool
	switch f := v.Format; f.Phase {
	case fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED, fsmpb.FormatPhase_FORMAT_PHASE_RAW:
		wrong = f.FSType != "" || f.FSUUID != ""
	case fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING:
		wrong = f.FSType == "" || f.FSUUID == "" || f.Epoch.IsZero()
	case fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED:
		wrong = f.FSType == "" || f.FSUUID == ""
	default:
		wrong = true
	}
	for _, p := range v.Publications() {
		done := p.Staging != nil && p.Staging.Done
		begun := v.Format.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED || v.Format.Phase == fsmpb.FormatPhase_FORMAT_PHASE_RAW
		wrong = wrong || done && !begun || p.Staging != nil && v.Format.Phase == fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED
	}
	if c := v.Crypt; c != nil {
		wrong = wrong || c.violated(v.Publications())
	}
	if v.Format.Cloned && v.Format.Phase != fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED {
		wrong = true
	}
	if v.Import != nil && !v.hasContent() {
		wrong = true
	}
	if wrong {
		return violated("S109", "volume %s has format %v", v.ID, v.Format)
	}
	return nil
}

// checkIndexes builds every index anew (S108) and compares.
func (s *State) checkIndexes() error {
	fresh := newIndex()
	s.volumes.Scan(func(e volumeItem) bool {
		fresh.replace(&volumeChange{key: e.key, after: e.stored, nodesAfter: e.stored.InvolvedNodes()})
		return true
	})
	for n := range s.storedSnapshots() {
		fresh.reserveSnapshot(n, 1)
	}
	if err := s.index.diff(&fresh); err != nil || s.lookups == nil {
		return err
	}
	return s.lookups.check(s)
}

// diff says which index differs from the one built of the records.
func (x *index) diff(y *index) error {
	for _, i := range []struct {
		invariant, what string
		equal           bool
	}{
		{"S105", "hosts", slices.Equal(x.byNode.Items(), y.byNode.Items())},
		{"S110", "operations", slices.Equal(x.byOperation.Keys(), y.byOperation.Keys()) && slices.Equal(x.byOperation.Values(), y.byOperation.Values())},
		{"S112", "creations", slices.Equal(x.byCreation.Keys(), y.byCreation.Keys()) && slices.Equal(x.byCreation.Values(), y.byCreation.Values())},
		{"S108", "reservations", slices.Equal(x.pools.Keys(), y.pools.Keys()) && slices.Equal(x.pools.Values(), y.pools.Values())},
		{"S105", "teardowns", slices.Equal(x.teardowns.Items(), y.teardowns.Items())},
		{"S67", "waiting replicas", slices.Equal(x.waitingForPeer.Items(), y.waitingForPeer.Items())},
		{"S156", "volumes in repair", slices.Equal(x.inRepair.Values(), y.inRepair.Values())},
		{"S152", "free minors", x.lowestMinor() == y.lowestMinor()},
		{"S152", "ports", slices.Equal(x.ports.Items(), y.ports.Items())},
		{"S152", "minors", slices.Equal(x.minors.Keys(), y.minors.Keys()) && slices.Equal(x.minors.Values(), y.minors.Values())},
		{"S103", "publications per node", slices.Equal(x.publications.Keys(), y.publications.Keys()) && slices.Equal(x.publications.Values(), y.publications.Values())},
	} {
		if !i.equal {
			return violated(i.invariant, "the index of %s is not what the records make it", i.what)
		}
	}
	return nil
}

// checkAnswers is S102: every remembered answer is within the window.
func (s *State) checkAnswers() error {
	if oldest, _, ok := s.answers.Min(); ok && oldest+DedupeWindow < s.cluster.Index {
		return violated("S102", "the answer of index %d is remembered at %d", oldest, s.cluster.Index)
	}
	return nil
}

// checkHash is S111.
func (s *State) checkHash() error {
	var sum sum256
	var e encoder
	s.nodes.Scan(func(_ NodeID, r *storedNode) bool {
		sum = sum.plus(hashNode(&e, &r.Node))
		return true
	})
	s.volumes.Scan(func(row volumeItem) bool {
		sum = sum.plus(hashVolume(&e, &row.stored.Volume))
		return true
	})
	s.answers.Scan(func(_ uint64, a *answer) bool {
		sum = sum.plus(hashAnswer(&e, a))
		return true
	})
	for f := range s.Fences() {
		sum = sum.plus(hashFence(&e, f))
	}
	for r := range s.Revocations() {
		sum = sum.plus(hashRevocation(&e, r))
	}
	for t := range s.JoinTokens() {
		sum = sum.plus(hashJoinToken(&e, t))
	}
	for n := range s.storedSnapshots() {
		sum = sum.plus(hashSnapshot(&e, n))
	}
	for g := range s.storedGroups() {
		sum = sum.plus(hashGroup(&e, g))
	}
	for g := range s.VolumeGroups("") {
		sum = sum.plus(hashVolumeGroup(&e, g))
	}
	if sum != s.sum {
		return errors.New("invariant S111: the hash is not the sum over the records")
	}
	return nil
}
