package admin

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	// operationLong is how long an operation may run without its being said.
	operationLong = 10 * time.Minute
	// operationTries is how many steps of an operation may fail without its being said.
	operationTries = 5
	// listedEach is how many objects of one sort are listed; of the others there is a count.
	listedEach = 20
)

// bounded cuts a list, so that a cluster of which everything is down is still a page to read.
func bounded(all []*adminpb.Diagnosis, thing, remedy string) []*adminpb.Diagnosis {
	if len(all) <= listedEach {
		return all
	}
	more := diagnose(WorstOf(all[listedEach:]), "cluster", remedy, "and %s more are like these", CountOf(len(all)-listedEach, thing))
	return append(all[:listedEach:listedEach], more)
}

func volumeSubject(v *fsm.Volume) string {
	if v.Name == "" {
		return "volume " + string(v.ID)
	}
	return fmt.Sprintf("volume %s (%s)", v.Name, v.ID)
}

// checkVolumes looks at the condition of each volume as the log has it: its replicas, and whether it is missing.
func checkVolumes(p *patient) (out []*adminpb.Diagnosis) {
	well := 0
	for v := range p.state.Volumes("") {
		failed, isFailed := v.Phase.(fsm.Failed)
		condition := conditionView(p.state, v)
		missing := slices.ContainsFunc(v.Replicas, func(r fsm.Replica) bool { return r.State == fsm.ReplicaMissing })
		show := fmt.Sprintf("run `holdfast volumes replicas` and `holdfast history %s`", v.ID)
		switch {
		case missing:
			out = append(out, diagnose(SeverityError, volumeSubject(v), "look at the host's pool, and run `holdfast audit`", "a host reported its replica missing"))
		case isFailed:
			out = append(out, diagnose(SeverityError, volumeSubject(v), "run `holdfast operations`, then `holdfast operations retry` for its operation, or delete it through its orchestrator", "it could not be made: %s", failed.Reason))
		case condition.Abnormal:
			out = append(out, diagnose(SeverityWarn, volumeSubject(v), show, "%s", condition.Message))
		default:
			well++
		}
	}
	out = bounded(out, "volume", "run `holdfast volumes` to see all")
	return append(out, fine("cluster", "%s in order", CountOf(well, "volume")))
}

// hostPair is two nodes, in the order of their names.
type hostPair struct{ a, b fsm.NodeID }

// checkReplicaPairs looks at the connections of replicas, by the pair of hosts that they are on: many volumes that are
// not connected between the same two hosts are one thing, a network.
func checkReplicaPairs(p *patient) (out []*adminpb.Diagnosis) {
	apart, connected := map[hostPair][]*fsm.Volume{}, map[hostPair]int{}
	for v := range p.state.Volumes("") {
		replicas := v.ActiveReplicas()
		if len(replicas) != 2 || replicas[0].ReplicaSync == nil || replicas[1].ReplicaSync == nil {
			continue
		}
		pair := hostPair{min(replicas[0].Node, replicas[1].Node), max(replicas[0].Node, replicas[1].Node)}
		if replicas[0].Observed.Connected() && replicas[1].Observed.Connected() {
			connected[pair]++
		} else {
			apart[pair] = append(apart[pair], v)
		}
	}
	for _, pair := range sortedPairs(apart) {
		out = append(out, p.apartDiagnosis(pair, apart[pair], connected[pair]))
	}
	for _, pair := range sortedPairs(connected) {
		out = append(out, fine("pair "+pair.String(), "%s connected", CountOf(connected[pair], "replica pair")))
	}
	return out
}

func (h hostPair) String() string { return string(h.a) + "/" + string(h.b) }

func sortedPairs[V any](m map[hostPair]V) []hostPair {
	return slices.SortedFunc(maps.Keys(m), func(x, y hostPair) int {
		if x.String() < y.String() {
			return -1
		}
		return 1
	})
}

// apartDiagnosis says where the address of each host is replicated to, which is what a network is probed with.
func (p *patient) apartDiagnosis(pair hostPair, volumes []*fsm.Volume, connected int) *adminpb.Diagnosis {
	remedy := "look at the network between them"
	if peer, ok := p.state.Node(pair.b); ok && peer.Replication.Address != "" && volumes[0].Replication != nil {
		remedy = fmt.Sprintf("look at the network between them: `nc -z %s %d` on %s", peer.Replication.Address, volumes[0].Replication.Port, pair.a)
	}
	found := fmt.Sprintf("%d of %d replicated volumes between them are not connected as their hosts last reported, the first is %s", len(volumes), len(volumes)+connected, volumes[0].ID)
	return diagnose(SeverityWarn, "pair "+pair.String(), remedy, "%s", found)
}

func checkOperations(p *patient) (out []*adminpb.Diagnosis) {
	all := allOperations(p.state)
	for _, o := range all {
		if d := p.operationDiagnosis(o); d != nil {
			out = append(out, d)
		}
	}
	if len(out) == 0 {
		return one(fine("cluster", "%s under way", CountOf(len(all), "operation")))
	}
	SortDiagnoses(out)
	return bounded(out, "operation", "run `holdfast operations` to see all")
}

// operationDiagnosis is nil for an operation that runs as it should.
func (p *patient) operationDiagnosis(o *adminpb.Operation) *adminpb.Diagnosis {
	subject := fmt.Sprintf("operation %s", o.GetId())
	what := fmt.Sprintf("%s of %s", o.GetKind(), firstOf(o.GetName(), o.GetVolumeName(), o.GetVolume(), o.GetSnapshot(), o.GetGroup()))
	show := "run `holdfast operations show " + o.GetId() + "`"
	started, err := time.Parse(time.RFC3339Nano, o.GetStarted())
	runs := p.now.Sub(started).Round(time.Second)
	last := ""
	if o.GetLastError() != "" {
		last = "; its last error: " + o.GetLastError()
	}
	switch {
	case o.GetState() == fsm.OpFailed.String():
		return diagnose(SeverityError, subject, show+", mend the cause, then `holdfast operations retry "+o.GetId()+"`", "%s failed%s", what, last)
	case o.GetState() != fsm.OpRunning.String():
		return nil
	case o.GetAttempts() >= operationTries:
		return diagnose(SeverityWarn, subject, show, "%s has failed %d times and is tried again%s", what, o.GetAttempts(), last)
	case err == nil && runs > operationLong:
		return diagnose(SeverityWarn, subject, show, "%s has run for %s, at step %q%s", what, runs, o.GetStep(), last)
	}
	return nil
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return "?"
}

// checkKeptCopies counts what outdated replicas had, which takes room until an operator or time removes it.
func checkKeptCopies(p *patient) []*adminpb.Diagnosis {
	copies, bytes := 0, int64(0)
	for n := range p.state.KeptCopies() {
		copies, bytes = copies+1, bytes+n.Size
	}
	if copies == 0 {
		return one(fine("cluster", "there are no kept copies"))
	}
	return one(diagnose(SeverityWarn, "cluster", "run `holdfast volumes kept list`, and `holdfast volumes kept remove` for those that nobody needs",
		"%s of what outdated replicas had, with up to %s", keptText(copies), formatSize(bytes)))
}

// checkRelations looks at the replication between sites: of groups, and of volumes that are in no group's.
func checkRelations(p *patient) (out []*adminpb.Diagnosis) {
	for v := range p.state.Volumes("") {
		if v.Relation != nil {
			out = append(out, relationDiagnoses("replication of "+volumeSubject(v), volumeRelationView(p.state, v))...)
		}
	}
	for g := range p.state.VolumeGroups("") {
		if g.Relation != nil {
			out = append(out, relationDiagnoses(fmt.Sprintf("replication of group %s (%s)", g.Name, g.ID), groupRelationView(p.state, g))...)
		}
	}
	SortDiagnoses(out)
	return bounded(out, "relation", "run `holdfast volumes replication` and `holdfast groups replication` to see all")
}

func relationDiagnoses(subject string, r *adminpb.Relation) (out []*adminpb.Diagnosis) {
	const see = "see \"I am tired and something is down\" in DISASTER-RECOVERY.md"
	switch r.GetStatus() {
	case fsm.ReplicationHealthy.String():
		out = append(out, fine(subject, "it is healthy"))
	case fsm.ReplicationError.String():
		out = append(out, diagnose(SeverityError, subject, see, "it is in error: %s", r.GetMessage()))
	case fsm.ReplicationDegraded.String():
		out = append(out, diagnose(SeverityWarn, subject, "see what keeps its replicas apart with `holdfast volumes replicas`", "it is degraded: %s", r.GetMessage()))
	default:
		out = append(out, diagnose(SeverityUnknown, subject, "see whether its hosts are reachable with `holdfast nodes`", "its state is not known: %s", r.GetMessage()))
	}
	for _, o := range r.GetOusted() {
		out = append(out, diagnose(SeverityWarn, subject, "run `resync` of `holdfast volumes` or of `holdfast groups` for it at site "+o.GetSite(), "site %s lost the role at index %d without having demoted", o.GetSite(), o.GetIndex()))
	}
	return out
}

func keptText(n int) string {
	if n == 1 {
		return "there is 1 kept copy"
	}
	return fmt.Sprintf("there are %d kept copies", n)
}
